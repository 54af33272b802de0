"""Colors for the values of one band, looked up once for each pixel: rio-tiler looks at all pixels for each color."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rio_tiler.models import ImageData

__all__ = ["apply_colormap", "check_colormap"]

Colors = NDArray[np.uint8]  # red, green, blue and alpha along the last axis
CLEAR = (0, 0, 0, 0)
HEX = re.compile("#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})")
WHOLE = re.compile("[+-]?[0-9]{1,18}")
MAX_SHOWN_CHARS = 40


def check_colormap(given: object) -> None:
    """ValueError where JSON is not an object of colors by value, or a list of colors by interval."""
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError('like {"1": "#ff0000"} or [[[0, 10], [255, 0, 0]]]')
    for place, color in pairs:
        if isinstance(given, dict) and not WHOLE.fullmatch(place):
            shown = repr(place[:MAX_SHOWN_CHARS])
            raise ValueError(f"an object whose names are whole numbers, the values of pixels, but one name is {shown}")
        if not _is_color(color):
            shown = f"{str(place)[:MAX_SHOWN_CHARS]} has {str(color)[:MAX_SHOWN_CHARS]}"
            raise ValueError(f"made of colors like #ff0000, or of 3 or 4 whole numbers from 0 to 255, but {shown}")


def _is_color(given: object) -> bool:
    if isinstance(given, str):
        return HEX.fullmatch(given) is not None
    return (
        isinstance(given, list)
        and len(given) in (3, 4)
        and all(type(part) is int and 0 <= part <= 255 for part in given)
    )


def apply_colormap(image: ImageData, colormap: Any) -> ImageData:  # by value or interval, as in titiler
    """The image in colors; what has none is transparent."""
    values, hidden = image.array.data[0], np.ma.getmaskarray(image.array)[0]
    colors = _by_value(values, colormap) if isinstance(colormap, Mapping) else _by_interval(values, colormap)
    alpha = np.where(hidden, np.uint8(0), colors[..., 3])
    array = np.ma.MaskedArray(np.moveaxis(colors[..., :3], -1, 0).copy())
    array.mask = np.broadcast_to(alpha == 0, array.shape).copy()
    return ImageData(array, alpha_mask=alpha, crs=image.crs, bounds=image.bounds)


def _by_value(values: NDArray[Any], colormap: Mapping[float, Sequence[int]]) -> Colors:
    known = np.array(sorted(colormap))
    colors = np.array([*(colormap[value] for value in known.tolist()), CLEAR], np.uint8)
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.asarray(colors[np.where(known[at] == values, at, len(known))])


def _by_interval(values: NDArray[Any], colormap: Sequence[tuple[Sequence[float], Sequence[int]]]) -> Colors:
    """An interval has its lower end and not its upper one; where several have a value, the last one colors it."""
    edges = np.array(sorted({edge for interval, _ in colormap for edge in interval}), np.float64)
    colors = np.zeros((len(edges) + 1, 4), np.uint8)  # below the first edge, and from each edge on
    for (low, high), color in colormap:
        colors[np.searchsorted(edges, low) + 1 : np.searchsorted(edges, high) + 1] = color
    return np.asarray(colors[np.where(np.isnan(values), 0, np.searchsorted(edges, values, side="right"))])
