"""Images over each other: the first that has something at a pixel is what is seen there."""

import numpy as np
import pytest
from rio_tiler.models import ImageData

from anabranch.geo.alpha import Alpha
from anabranch.serving.tiles.stacking import find_empty, lay_under, with_alpha


def image(
    value: int, hidden: list[bool], dtype: str = "uint8", bands: int = 1, alpha: Alpha | None = None
) -> ImageData:
    mask = np.broadcast_to(np.array([hidden]), (bands, 1, len(hidden))).copy()
    array = np.ma.MaskedArray(np.full(mask.shape, value, dtype), mask=mask)
    return with_alpha(ImageData(array), alpha)


def test_only_empty_pixels_are_filled() -> None:
    seen = lay_under(image(1, [False, True, True]), image(2, [False, False, True]))
    assert seen.array.filled(0).tolist() == [[[1, 2, 0]]]
    assert find_empty(seen).tolist() == [[False, False, True]]


def test_a_pixel_is_of_one_image_even_where_some_of_its_bands_are_empty() -> None:
    top = image(1, [False], bands=3)
    top.array[0] = np.ma.masked
    seen = lay_under(top, image(2, [False], bands=3))
    assert seen.array.filled(0).ravel().tolist() == [0, 1, 1]


@pytest.mark.parametrize(("one", "other", "both"), [("uint8", "float32", "float32"), ("uint16", "int16", "int32")])
def test_values_of_two_types_have_one_that_holds_both(one: str, other: str, both: str) -> None:
    seen = lay_under(image(9, [False, True], one), image(200, [False, False], other))
    assert (str(seen.array.dtype), seen.array.ravel().tolist()) == (both, [9, 200])


def test_grey_beside_a_picture_is_grey_in_three_bands() -> None:
    seen = lay_under(image(7, [False, True]), image(9, [False, False], bands=3))
    assert seen.array.filled(0)[:, 0].tolist() == [[7, 9]] * 3


@pytest.mark.parametrize("deep", ["uint8", "uint16"])
def test_tr4_each_pixel_keeps_the_alpha_of_its_image(deep: str) -> None:
    half = np.array([[np.iinfo(deep).max // 2, 0]], deep)
    seen = lay_under(image(1, [False, True], alpha=half), image(2, [False, False]))
    assert seen.alpha_mask is not None
    assert seen.alpha_mask.tolist() == [[127, 255]]
    assert lay_under(image(2, [True, False]), image(1, [False, True], alpha=half)).mask.tolist() == [[127, 255]]
