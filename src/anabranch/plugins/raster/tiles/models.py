"""What the steps of a tiled raster exchange: JSON at the edges; nothing here imports GDAL."""

from collections.abc import Iterator

from pydantic import Field, JsonValue

from anabranch.geo.boxes import Box
from anabranch.plugins.raster.models import Band, Compared, Nodata, Profile, Window
from anabranch.strict_model import StrictModel

__all__ = [
    "Grid",
    "Joined",
    "Scheme",
    "StoredFile",
    "Tile",
    "TileFacts",
    "TileFile",
    "TileLimits",
    "ValidBlocks",
    "WrittenTile",
]

Transform = tuple[float, float, float, float, float, float]


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


class Grid(StrictModel):
    """The target grid of a whole raster, and the sides of its tiles in pixels."""

    width: int = Field(gt=0)
    height: int = Field(gt=0)
    transform: Transform
    side: int = Field(gt=0)
    overviews: int = Field(ge=0)  # of every tile

    @property
    def factor(self) -> int:
        """How many times smaller than the raster the smallest overview of its tiles is."""
        return int(2**self.overviews)

    def place(self, column: int, row: int) -> tuple[float, float]:
        """The coordinates of the upper left corner of a pixel."""
        a, b, c, d, e, f = self.transform
        return a * column + b * row + c, d * column + e * row + f

    def bounds(self, window: Window) -> Box:
        """The bounds of a window, in the CRS of the grid."""
        west, north = self.place(window.column, window.row)
        east, south = self.place(window.column + window.width, window.row + window.height)
        return Box(west, south, east, north)

    def cut(self, tier: Profile) -> Iterator[Tile]:
        """The tiles of a profile, row by row, without gaps or overlaps (R2)."""
        for row in range(0, self.height, self.side):
            for column in range(0, self.width, self.side):
                size = {"width": min(self.side, self.width - column), "height": min(self.side, self.height - row)}
                name = f"tile_r{row // self.side}_c{column // self.side}"
                yield Tile(name=name, window=Window(column=column, row=row, **size), tier=tier)

    @property
    def reduced(self) -> tuple[int, int]:
        """The height and width of the raster at that size."""
        return -(-self.height // self.factor), -(-self.width // self.factor)


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


class StoredFile(StrictModel):
    """An object in the silver tier."""

    address: str
    size: int
    sha256: str


class TileFacts(StrictModel):
    """All that is known of a finished tile; `overview` names its smallest overview in the work area."""

    tile: Tile
    written: WrittenTile
    cog: StoredFile | None = None
    overview: JsonValue = None

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
