"""What alpha means: an opaque pixel has the highest number of the bits that its maker used, not always of its type."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Alpha", "opaque_of", "stretch_alpha"]

Alpha = NDArray[Any]  # of the raster's own dtype
# Of 1, 8, 10, 12, 14, 15 and 16 bits, and more.
_OPAQUE = (1, 255, 1023, 4095, 16383, 32767, 65535, 2**31 - 1, 2**32 - 1)


def opaque_of(alpha: Alpha) -> float:
    """The alpha of an opaque pixel: the least of those in use that nothing exceeds."""
    highest = float(np.nanmax(alpha)) if alpha.size else 0.0
    return float(next((most for most in _OPAQUE if most >= highest), highest))


def stretch_alpha(alpha: Alpha, opaque: float) -> Alpha:
    """Alpha up to the highest number of its type; of 8 bits where the type is not one of pictures."""
    dtype = alpha.dtype if alpha.dtype.kind == "u" else np.dtype(np.uint8)
    highest = int(np.iinfo(dtype).max)
    if opaque == highest and dtype == alpha.dtype:
        return alpha
    share = np.clip(np.nan_to_num(alpha.astype(np.float64)) / opaque, 0.0, 1.0)
    return np.asarray((share * highest).round().astype(dtype))
