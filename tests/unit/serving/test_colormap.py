"""A colormap gives the colors that rio-tiler gives, in a time that does not grow with the number of colors."""

from typing import Any

import numpy as np
import pytest
from rio_tiler.colormap import apply_cmap
from rio_tiler.models import ImageData

from anabranch.serving.tiles.colormap import apply_colormap

RANDOM = np.random.default_rng(1)


def colors(count: int) -> list[tuple[int, ...]]:
    return [tuple(map(int, color)) for color in RANDOM.integers(0, 256, (count, 4))]


VALUES = dict(zip(RANDOM.permutation(300)[:120].tolist(), colors(120), strict=True))
NEGATIVE = {-5: (1, 2, 3, 4), 7: (5, 6, 7, 8), 7.5: (9, 9, 9, 9)}
INTERVALS = [
    ((low, low + width), color) for low, width, color in zip(range(0, 250, 5), [3, 9] * 25, colors(50), strict=True)
]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "float32"])
@pytest.mark.parametrize("colormap", [VALUES, NEGATIVE, INTERVALS, [((0, 1), (1, 1, 1, 255))]])
def test_colors_are_those_of_rio_tiler(colormap: Any, dtype: str) -> None:
    values = RANDOM.integers(0, 256, (1, 40, 50)).astype(dtype)
    hidden = RANDOM.random(values.shape) < 0.1
    expected, alpha = apply_cmap(values, colormap)
    found = apply_colormap(ImageData(np.ma.MaskedArray(values, hidden)), colormap)
    np.testing.assert_array_equal(found.array.data, expected)
    np.testing.assert_array_equal(found.alpha_mask, np.where(hidden[0], 0, alpha))


def test_not_a_number_has_no_color() -> None:
    values = np.array([[[np.nan, 0.5, np.inf]]], "float32")
    for colormap in ({0.5: (1, 2, 3, 255)}, [((0, 1), (1, 2, 3, 255))]):
        found = apply_colormap(ImageData(np.ma.MaskedArray(values)), colormap)
        assert found.alpha_mask is not None
        assert found.alpha_mask.tolist() == [[0, 255, 0]]
