"""How each kind of raster is compressed and resampled for each profile (R5)."""

from dataclasses import dataclass

import numpy as np
from rasterio.enums import Resampling

from anabranch.errors import Permanent
from anabranch.plugins.raster.models import Kind, Profile

__all__ = ["Encoding", "encoding_of"]

LOSSY_QUALITY = 85
# Level 1 takes a quarter of the time of the driver's default 9, and files are as small (docs/explanation/rasters.md).
ZSTD_LEVEL = 1
# DEFLATE is what every TIFF reader supports; this is its smallest output.
DEFLATE_LEVEL = 9
_PICTURES = {Kind.RGB, Kind.RGBA}


@dataclass(frozen=True)
class Encoding:
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


def encoding_of(kind: Kind, profile: Profile, dtype: str, *, discrete: bool = False) -> Encoding:
    """The encoding of a kind and profile; lossy only for 8-bit pictures in the profile visualization."""
    classes = discrete or kind == Kind.CATEGORICAL
    overviews = Resampling.mode if classes else Resampling.average
    reprojection = Resampling.nearest if classes else Resampling.cubic if kind in _PICTURES else Resampling.bilinear
    if profile == Profile.VISUALIZATION:
        if kind not in _PICTURES or dtype != "uint8":
            raise _not_visual(kind, dtype)
        compress = "WEBP" if kind == Kind.RGBA else "JPEG"
        return Encoding(compress, 1, overviews, reprojection, quality=LOSSY_QUALITY)
    compress, level = ("DEFLATE", DEFLATE_LEVEL) if profile == Profile.ARCHIVE else ("ZSTD", ZSTD_LEVEL)
    return Encoding(compress, _predictor(kind, dtype), overviews, reprojection, level=level)


def _predictor(kind: Kind, dtype: str) -> int:
    if kind == Kind.CATEGORICAL:
        return 1  # differences of classes mean nothing, and compress worse
    return 3 if np.dtype(dtype).kind == "f" else 2


def _not_visual(kind: Kind, dtype: str) -> Permanent:
    return Permanent(
        f"the profile visualization is for 8-bit rgb and rgba, but the raster is {kind} of {dtype}",
        code="raster.tier",
        remedy="Set `profile` to `analysis` or `archive`.",
    )
