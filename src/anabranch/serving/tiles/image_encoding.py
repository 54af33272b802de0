"""Encodes images quickly, and chooses the format where the caller does not."""

from typing import Any

import numpy as np
from rio_tiler.models import ImageData
from rio_tiler.profiles import PNGProfile, img_profiles
from titiler.core.resources.enums import ImageType
from titiler.core.utils import render_image

from anabranch.serving.tiles.colormap import apply_colormap

__all__ = ["draw"]

COLORS = 3
# A third of the time of the default 6, for files that are a seventh larger.
img_profiles["png"] = PNGProfile(zlevel=3)


def draw(
    image: ImageData,
    *,
    output_format: ImageType | None = None,
    colormap: Any = None,  # by value or interval, as in titiler
    rescale: Any = None,  # as in titiler
    color_formula: str | None = None,
    add_mask: bool = True,
    **options: Any,
) -> tuple[bytes, str]:
    """The file and its media type. An opaque image gets no mask; an 8-bit RGB picture becomes a JPEG, all else a PNG.

    Formats for values keep their mask: a client that stacks tiles relies on the number of bands.
    """
    is_colored = bool(colormap) and image.count == 1
    if is_colored:
        if rescale:
            image.rescale(rescale)
        if color_formula:
            image.apply_color_formula(color_formula)
        image, rescale, color_formula = apply_colormap(image, colormap), None, None
    opaque = not colormap and _is_opaque(image.mask)
    if output_format is None:
        is_picture = (
            opaque and image.array.dtype == np.uint8 and image.count == COLORS and not (rescale or color_formula)
        )
        output_format = ImageType.jpeg if is_picture else ImageType.png
    drawn: tuple[bytes, str] = render_image(
        image,
        output_format=output_format,
        colormap=None if is_colored else colormap,
        rescale=rescale,
        color_formula=color_formula,
        add_mask=add_mask and not (opaque and output_format in (ImageType.png, ImageType.webp)),
        **options,
    )
    return drawn


def _is_opaque(mask: Any) -> bool:  # a numpy array
    most = np.iinfo(mask.dtype).max if mask.dtype.kind in "iu" else 1
    return bool((mask == most).all())
