"""The mosaic document: the tiles of a raster that is published as one.

Plugins write it and the API draws it: both check it, so that it is a pydantic model, unlike the answers of the API.
"""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from anabranch.geo.boxes import Box
from anabranch.strict_model import StrictModel

__all__ = ["MOSAIC_TYPE", "EmptyTile", "Grid", "MosaicDocument", "MosaicTile", "Overview", "StoredFile", "Window"]

MOSAIC_TYPE = "application/vnd.anabranch.mosaic+json"
MAX_LISTED_TILES = 10_000

Transform = tuple[float, float, float, float, float, float]


class Window(StrictModel):
    """A part of a grid, in pixels."""

    column: int = Field(ge=0)
    row: int = Field(ge=0)
    width: int = Field(gt=0)
    height: int = Field(gt=0)


class Grid(StrictModel):
    """The target grid of a whole raster, and the sides of its tiles in pixels."""

    width: int = Field(gt=0)
    height: int = Field(gt=0)
    transform: Transform
    side: int = Field(gt=0)
    overviews: int = Field(ge=0, le=16)  # of every tile

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

    @property
    def reduced(self) -> tuple[int, int]:
        """The height and width of the raster at that size."""
        return -(-self.height // self.factor), -(-self.width // self.factor)


class StoredFile(StrictModel):
    """An object in the silver tier."""

    address: str
    size: int
    sha256: str


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
    overview: Overview
    tiles: Annotated[tuple[MosaicTile, ...], Field(min_length=1, max_length=MAX_LISTED_TILES)]
    empty: Annotated[tuple[EmptyTile, ...], Field(max_length=MAX_LISTED_TILES)] = ()
