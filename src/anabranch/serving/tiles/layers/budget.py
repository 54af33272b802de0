"""Limits what one request for a layer opens and reads: its items could cost fifty times as much as one (S7)."""

import time
from dataclasses import dataclass

from anabranch.errors import InputError, Unavailable
from anabranch.serving.tiles.geotiff import MAX_FILES

__all__ = ["Budget"]

MAX_LAYER_VALUES = 2**26  # pixels times bands of all items that are read
REMEDY = "Zoom in, narrow the search, or request fewer pixels or bands."


@dataclass
class Budget:
    """What a request may still use; the deadline is on the monotonic clock."""

    deadline: float
    files: int = MAX_FILES
    values: int = MAX_LAYER_VALUES

    def check(self) -> None:
        """Refuse to read another item where nothing is left."""
        if self.files <= 0:
            raise InputError("raster.assets", "the items of the layer have too many files here", remedy=REMEDY)
        if self.values <= 0:
            raise InputError("raster.size", "the items of the layer have too many values here", remedy=REMEDY)
        if time.monotonic() > self.deadline:
            raise Unavailable("raster.slow", "the layer was not drawn in time", remedy=REMEDY)

    def spend(self, files: int, values: int) -> None:
        """Count what was used."""
        self.files -= files
        self.values -= values
