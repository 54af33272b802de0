"""Reads GeoTIFFs, and as much of one as can be computed at once."""

from collections.abc import Sequence
from typing import Any

import attr
import rasterio
from rio_tiler.io import Reader
from rio_tiler.models import ImageData
from rio_tiler.utils import non_alpha_indexes, output_size

from anabranch.engine.errors import InputError
from anabranch.serving.objects import Remote

__all__ = ["GeoTiff"]

MOST_VALUES = 2**24
COLORS = 3


@attr.s
class GeoTiff(Reader):
    """A reader that knows one format, whatever the file says that it is (S4)."""

    dataset: Any  # theirs may be None before it is open
    draws: bool = attr.ib(default=False)  # an image is made of it, which has one band or three

    def __attrs_post_init__(self) -> None:
        self.dataset = self._ctx_stack.enter_context(_open(self.input))
        super().__attrs_post_init__()  # type: ignore[no-untyped-call]  # of a package without types

    def read(self, indexes: Any = None, expression: Any = None, **options: Any) -> ImageData:  # as theirs
        """All of the raster, at a size that can be computed."""
        height, width = output_size(
            dataset_height=self.dataset.height,
            dataset_width=self.dataset.width,
            output_height=options.get("height"),
            output_width=options.get("width"),
            max_size=options.get("max_size"),
        )
        indexes = indexes or self._choose()
        self._check(indexes, height, width)
        return super().read(indexes, expression, **options)

    def part(self, bbox: Any, *, height: int, width: int, indexes: Any = None, **options: Any) -> ImageData:  # type: ignore[override]  # a tile knows its size
        """A tile of the raster, of as many bands as can be computed."""
        indexes = indexes or self._choose()
        self._check(indexes, height, width)
        return super().part(bbox, height=height, width=width, indexes=indexes, **options)

    def _choose(self) -> Sequence[int] | None:
        bands: Sequence[int] = non_alpha_indexes(self.dataset)
        if not self.draws or len(bands) in (1, COLORS):
            return None
        return bands[:COLORS] if len(bands) > COLORS else bands[:1]

    def _check(self, indexes: Any, height: int, width: int) -> None:
        count = height * width * len(indexes or self.dataset.indexes)
        if count > MOST_VALUES:
            told = f"these are {count} values, and at most {MOST_VALUES} are computed at once"
            raise InputError("raster.size", told, remedy="Ask for less: choose bands by bidx, or a smaller size.")


def _open(source: Any) -> Any:  # a Path or Remote in, a dataset of rasterio's out, which has no types
    if isinstance(source, Remote):
        return rasterio.open("object.tif", driver="GTiff", opener=lambda *_, **__: source.open())
    return rasterio.open(source, driver="GTiff")
