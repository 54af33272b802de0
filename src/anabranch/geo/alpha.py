"""Alpha values: the value of an opaque pixel can be lower than the highest of the data type."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Alpha", "opaque_of", "stretch_alpha"]

Alpha = NDArray[Any]  # of the raster's own dtype
# The highest values of 1, 8, 10, 12, 14, 15, 16, 31 and 32 bits.
_OPAQUE = (1, 255, 1023, 4095, 16383, 32767, 65535, 2**31 - 1, 2**32 - 1)


def opaque_of(alpha: Alpha) -> float:
    """The alpha of an opaque pixel, from a sample of a whole band.

    Of 8 bits it is 255 (or 1); of more, the highest value if most pixels that show something have it, else the lowest
    common maximum that no value exceeds.
    """
    highest = float(np.nanmax(alpha)) if alpha.size else 0.0
    is_wide = alpha.dtype != np.uint8
    if is_wide and highest > 0 and 2 * np.count_nonzero(alpha == highest) > np.count_nonzero(alpha > 0):
        return highest
    return float(next((maximum for maximum in _OPAQUE if maximum >= highest), highest))


def stretch_alpha(alpha: Alpha, opaque: float) -> Alpha:
    """Alpha scaled to the full range of its type, or to 8 bits where the type is not an unsigned integer."""
    dtype = alpha.dtype if alpha.dtype.kind == "u" else np.dtype(np.uint8)
    highest = int(np.iinfo(dtype).max)
    if opaque == highest and dtype == alpha.dtype:
        return alpha
    share = np.clip(np.nan_to_num(alpha.astype(np.float64)) / opaque, 0.0, 1.0)
    return np.asarray((share * highest).round().astype(dtype))
