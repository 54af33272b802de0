"""How each kind of raster is compressed and resampled for each tier (R5)."""

from dataclasses import dataclass

import numpy as np
from rasterio.enums import Resampling

from anabranch.errors import Permanent
from anabranch.plugins.raster.models import Kind, Tier

__all__ = ["Profile", "profile_of"]

QUALITY = 85
# Level 1 takes a quarter of the time of the driver's own 9 and gives files as small (docs/explanation/rasters.md).
ZSTD_LEVEL = 1
# What every reader of TIFFs knows, as small as it gets.
DEFLATE_LEVEL = 9
_PICTURES = {Kind.RGB, Kind.RGBA}


@dataclass(frozen=True)
class Profile:
    """How a COG is written."""

    compress: str
    predictor: int
    overviews: Resampling
    reprojection: Resampling
    level: int | None = None
    quality: int | None = None

    @property
    def lossy(self) -> bool:
        """Whether values change."""
        return self.quality is not None


def profile_of(kind: Kind, tier: Tier, dtype: str, *, discrete: bool = False) -> Profile:
    """The profile of a kind and tier; lossy for 8-bit pictures that are to be looked at, and for nothing else."""
    classes = discrete or kind == Kind.CATEGORICAL
    overviews = Resampling.mode if classes else Resampling.average
    reprojection = Resampling.nearest if classes else Resampling.cubic if kind in _PICTURES else Resampling.bilinear
    if tier == Tier.VISUALIZATION:
        if kind not in _PICTURES or dtype != "uint8":
            raise _not_visual(kind, dtype)
        compress = "WEBP" if kind == Kind.RGBA else "JPEG"
        return Profile(compress, 1, overviews, reprojection, quality=QUALITY)
    compress, level = ("DEFLATE", DEFLATE_LEVEL) if tier == Tier.ARCHIVE else ("ZSTD", ZSTD_LEVEL)
    return Profile(compress, _predictor(kind, dtype), overviews, reprojection, level=level)


def _predictor(kind: Kind, dtype: str) -> int:
    if kind == Kind.CATEGORICAL:
        return 1  # the differences of classes mean nothing, and compress worse
    return 3 if np.dtype(dtype).kind == "f" else 2


def _not_visual(kind: Kind, dtype: str) -> Permanent:
    return Permanent(
        f"the tier visualization is for rgb and rgba of 8 bits, and the raster is {kind} of {dtype}",
        code="raster.tier",
        remedy="Ask for the tier `analysis` or `archive`.",
    )
