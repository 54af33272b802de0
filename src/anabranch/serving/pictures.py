"""How an image becomes a file: quickly, and in which format where the caller leaves it open."""

from typing import Any

import numpy as np
from rio_tiler.models import ImageData
from rio_tiler.profiles import PNGProfile, img_profiles
from titiler.core.resources.enums import ImageType
from titiler.core.utils import render_image

__all__ = ["draw"]

COLORS = 3
# A third of the time that the usual 6 takes, for files that are a seventh larger.
img_profiles["png"] = PNGProfile(zlevel=3)


def draw(
    image: ImageData,
    *,
    output_format: ImageType | None = None,
    colormap: Any = None,  # by value or interval, as theirs
    rescale: Any = None,  # as theirs
    color_formula: str | None = None,
    add_mask: bool = True,
    **options: Any,
) -> tuple[bytes, str]:
    """The file and its media type. An image that is opaque needs no mask; a picture of bytes is a JPEG, all else a PNG.

    Values keep their mask: a client that stacks tiles relies on the number of bands.
    """
    opaque = not colormap and _is_opaque(image.mask)
    if output_format is None:
        is_picture = (
            opaque and image.array.dtype == np.uint8 and image.count == COLORS and not (rescale or color_formula)
        )
        output_format = ImageType.jpeg if is_picture else ImageType.png
    drawn: tuple[bytes, str] = render_image(
        image,
        output_format=output_format,
        colormap=colormap,
        rescale=rescale,
        color_formula=color_formula,
        add_mask=add_mask and not (opaque and output_format in (ImageType.png, ImageType.webp)),
        **options,
    )
    return drawn


def _is_opaque(mask: Any) -> bool:  # an array of numpy's
    most = np.iinfo(mask.dtype).max if mask.dtype.kind in "iu" else 1
    return bool((mask == most).all())
