"""Lays images over each other: the first one that has something at a pixel is what is seen there."""

from typing import Any

import attr
import numpy as np
from numpy.typing import NDArray
from rio_tiler.models import ImageData

from anabranch.geo.alpha import Alpha

__all__ = ["find_empty", "lay_under", "with_alpha"]

OPAQUE = 255


def find_empty(image: ImageData) -> NDArray[np.bool_]:
    """The pixels at which no band has a value."""
    return np.asarray(np.ma.getmaskarray(image.array).all(axis=0))


def lay_under(image: ImageData, other: ImageData) -> ImageData:
    """The image, filled by the other where it is empty; beside three bands, one becomes all three of them.

    The values have a type that holds those of both.
    """
    empty, count = find_empty(image), max(image.count, other.count)
    dtype = np.result_type(image.array.dtype, other.array.dtype)
    array = _widen(image.array, count, dtype)
    under = _widen(other.array, count, dtype)
    array.data[:, empty] = under.data[:, empty]
    array.mask[:, empty] = under.mask[:, empty]
    shown = image if count == image.count else other
    return with_alpha(attr.evolve(shown, array=array, alpha_mask=None), _lay_alpha_under(image, other, empty))


def with_alpha(image: ImageData, alpha: Alpha | None) -> ImageData:
    """The image with this alpha: rio-tiler takes only one of the same type when an image is made."""
    image.alpha_mask = alpha
    return image


def _widen(array: Any, count: int, dtype: Any) -> Any:  # numpy's masked arrays
    """The array itself where it has this type and so many bands."""
    if array.shape[0] == count and array.dtype == dtype:
        return array
    shape = (count, *array.shape[1:])
    mask = np.broadcast_to(np.ma.getmaskarray(array), shape).copy()
    return np.ma.MaskedArray(np.broadcast_to(array.data, shape).astype(dtype), mask=mask)


def _lay_alpha_under(image: ImageData, other: ImageData, empty: NDArray[np.bool_]) -> Alpha | None:
    alpha, under = image.alpha_mask, other.alpha_mask
    if alpha is None and under is None:
        return None
    if alpha is None or under is None or alpha.dtype != under.dtype:
        alpha, under = _to_8_bits(image), _to_8_bits(other)
    return np.asarray(np.where(empty, under, alpha))


def _to_8_bits(image: ImageData) -> Alpha:
    """The opacity of each pixel; that of a drawn raster has the full range of an unsigned type."""
    if image.alpha_mask is None:
        return np.where(find_empty(image), np.uint8(0), np.uint8(OPAQUE))
    share = image.alpha_mask / np.iinfo(image.alpha_mask.dtype).max
    return np.asarray((share * OPAQUE).round().astype(np.uint8))
