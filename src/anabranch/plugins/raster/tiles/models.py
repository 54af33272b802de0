"""What the steps of a tiled raster exchange: JSON at the edges; nothing here imports GDAL."""

from collections.abc import Iterator

from pydantic import JsonValue

from anabranch.contract.mosaic import Grid, StoredFile, Transform, Window
from anabranch.plugins.raster.models import Band, Compared, Inspected, Nodata, Profile
from anabranch.strict_model import StrictModel

__all__ = [
    "Joined",
    "Scheme",
    "Tile",
    "TileFacts",
    "TileFile",
    "TileLimits",
    "ValidBlocks",
    "WrittenTile",
    "cut_tiles",
]


class Tile(StrictModel):
    """A tile to make: its name, its window of the target grid, and the profile of its COG."""

    name: str
    window: Window
    tier: Profile


class TileLimits(StrictModel):
    """How large tiles may be, and how many."""

    wanted_bytes: int
    min_pixels: int
    max_pixels: int
    max_tiles: int


def cut_tiles(grid: Grid, profile: Profile) -> Iterator[Tile]:
    """The tiles of a profile, row by row, without gaps or overlaps (R2)."""
    for row in range(0, grid.height, grid.side):
        for column in range(0, grid.width, grid.side):
            size = {"width": min(grid.side, grid.width - column), "height": min(grid.side, grid.height - row)}
            name = f"tile_r{row // grid.side}_c{column // grid.side}"
            yield Tile(name=name, window=Window(column=column, row=row, **size), tier=profile)


class Scheme(StrictModel):
    """The tiles of a raster, row by row, for one profile after the other."""

    grid: Grid
    tiles: tuple[Tile, ...]


class ValidBlocks(StrictModel):
    """Which blocks of a tile, of the grid's factor in pixels, have any valid pixel: packed and compressed bits."""

    shape: tuple[int, int]
    bits: str


class WrittenTile(StrictModel):
    """A tile as its sandbox leaves it; one without a valid pixel has no COG."""

    compared: Compared | None = None
    transform: Transform | None = None
    valid: ValidBlocks | None = None
    inspected: Inspected | None = None  # if it becomes an item


class TileFacts(StrictModel):
    """All that is known of a finished tile; `overview` names its smallest overview in the work area."""

    tile: Tile
    written: WrittenTile
    cog: StoredFile | None = None
    overview: JsonValue = None
    thumbnail: StoredFile | None = None

    @property
    def bands(self) -> tuple[Band, ...]:
        """The bands with their statistics; none where the tile is empty."""
        return self.written.compared.bands if self.written.compared else ()


class TileFile(StrictModel):
    """A finished tile, by the file of its facts in the work area: results of many tiles must stay small."""

    name: str
    tier: Profile
    facts: JsonValue


class Joined(StrictModel):
    """The tiles with data of one mosaic, of which a sandbox has the overviews, by name."""

    grid: Grid
    nodata: Nodata | None
    tiles: tuple[Tile, ...]
    valid: tuple[ValidBlocks, ...]
