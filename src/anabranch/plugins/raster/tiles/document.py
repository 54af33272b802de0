"""The mosaic document: the tiles of a raster that is published as one; nothing here imports GDAL."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from anabranch.geo.boxes import Box
from anabranch.plugins.raster.models import Band, Window
from anabranch.plugins.raster.tiles.models import Grid, StoredFile
from anabranch.strict_model import StrictModel

__all__ = ["MOSAIC_TYPE", "EmptyTile", "MosaicDocument", "MosaicTile", "Overview"]

MOSAIC_TYPE = "application/vnd.anabranch.mosaic+json"
MAX_TILES = 10_000


class EmptyTile(StrictModel):
    """A part of the grid without data."""

    name: str
    window: Window


class MosaicTile(StoredFile):
    """A COG; `name` is also its address relative to that of the document, for those who read it at `/files`."""

    name: str
    window: Window
    bounds: Box


class Overview(StoredFile):
    """A COG of the whole raster, of which one pixel stands for `factor` by `factor` of the raster's."""

    name: str
    factor: int = Field(gt=0)


class MosaicDocument(StrictModel):
    """A raster in tiles that fill its grid without gaps or overlaps, except for the empty ones."""

    type: Literal["mosaic"] = "mosaic"
    version: Literal[1] = 1
    crs: str | None
    projjson: dict[str, JsonValue] | None = None
    grid: Grid
    bands: tuple[Band, ...]
    overview: Overview
    tiles: Annotated[tuple[MosaicTile, ...], Field(min_length=1, max_length=MAX_TILES)]
    empty: Annotated[tuple[EmptyTile, ...], Field(max_length=MAX_TILES)] = ()
