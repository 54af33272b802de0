"""Parameters and results of the handlers of large rasters."""

from pydantic import Field, JsonValue

from anabranch.contract.mosaic import Grid, MosaicDocument, StoredFile
from anabranch.plugins.raster.handler_models import CogSource, ItemParams, Report, Verified
from anabranch.plugins.raster.models import Compared, Inspected, Profile
from anabranch.plugins.raster.tiles.models import Scheme, Tile, TileFacts, TileFile, WrittenTile
from anabranch.strict_model import StrictModel

__all__ = [
    "Mosaic",
    "MosaicParams",
    "MosaicReport",
    "SchemeParams",
    "TileBatch",
    "TileBatchParams",
    "TileParams",
    "VerifiedMosaic",
]


class SchemeParams(CogSource):
    """A checked raster, and the profiles of its tiles."""

    tiers: tuple[Profile, ...] = Field(min_length=1)


class TileParams(CogSource):
    """A checked raster, and one of its tiles; `overviews` is how many each tile has."""

    tile: Tile
    overviews: int
    tile_items: bool = False


class TileBatchParams(CogSource):
    """A checked raster, and several of its tiles."""

    tiles: tuple[Tile, ...]
    overviews: int


class TileBatch(StrictModel):
    """Several finished tiles."""

    tiles: tuple[TileFile, ...]


class MosaicParams(ItemParams):
    """A raster, its finished tiles, and the fields of its item."""

    scheme: Scheme
    tiles: tuple[TileFile, ...]
    tile_items: bool = False

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """Those of its tiles, in the order of the scheme."""
        return tuple(dict.fromkeys(tile.tier for tile in self.scheme.tiles))

    @property
    def tiled(self) -> bool:
        """Whether it is published in tiles."""
        return True

    def tiles_of(self, profile: Profile) -> list[TileFile]:
        """The tiles of a profile."""
        return [one for one in self.tiles if one.tier == profile]


class VerifiedMosaic(Verified):
    """A verified mosaic; `tile_items` are work files with an item for each tile, if these are to be published."""

    tile_items: tuple[JsonValue, ...] = ()


class Mosaic(StrictModel):
    """A verified mosaic: its document, and what its item says."""

    tier: Profile
    inspected: Inspected
    overview: Compared
    document: MosaicDocument
    stored: StoredFile
    tiles: tuple[TileFacts, ...]


class TileReport(StrictModel):
    """A tile with the result of its verification; an empty one has none."""

    tile: Tile
    written: WrittenTile


class MosaicReport(Report):
    """The same, with the grid and the tiles."""

    grid: Grid
    tiles: tuple[TileReport, ...]
