"""Checks the COG structure of a file with rio-cogeo, and from the TIFF tags where rio-cogeo is wrong."""

from itertools import pairwise
from pathlib import Path

from rio_cogeo.cogeo import cog_validate

from anabranch.plugins.raster.files.tiff import Image, read_images

__all__ = ["TILE_PIXELS", "check_structure", "check_tags", "overview_factors"]

TILE_PIXELS = 512
# rio-cogeo mistakes a tile as wide as its level for a strip, and computes the decimation of a level from its width
# alone, which for a single column is always 1. The tags have both.
_BY_TAGS = ("not tiled", "Invalid Decimation")


def check_structure(cog: Path) -> list[str]:
    """Errors that keep a file from being a COG."""
    _, errors, warnings = cog_validate(cog, strict=True, quiet=True)
    theirs = [text for text in (*errors, *warnings) if not any(part in text for part in _BY_TAGS)]
    return [f"it is not a valid COG: {text}" for text in (*theirs, *check_tags(read_images(cog)))]


def overview_factors(cog: Path) -> tuple[int, ...]:
    """How many times smaller each overview is than the raster."""
    levels = _levels(read_images(cog))
    return tuple(round(max(_size(levels[0])) / max(_size(level))) for level in levels[1:])


def check_tags(images: tuple[Image, ...]) -> list[str]:
    """What the tags of a TIFF say against its being a COG."""
    if not images:
        return ["its tags can't be read"]
    wrong = [f"the image of {_name(image)} is not tiled" for image in images if _is_strips(image)]
    for upper, lower in pairwise(_levels(images)):
        if not all(part in _halves(whole) for part, whole in zip(_size(lower), _size(upper), strict=True)):
            wrong.append(f"the overview of {_name(lower)} is not half of {_name(upper)}")
    masks = [image for image in images if image.mask]
    if masks and len(masks) != len(_levels(images)):
        wrong.append(f"{len(_levels(images))} levels have {len(masks)} masks")
    return wrong


def _levels(images: tuple[Image, ...]) -> list[Image]:
    return [image for image in images if not image.mask]


def _is_strips(image: Image) -> bool:
    return not image.tiled and max(_size(image)) > TILE_PIXELS


def _size(image: Image) -> tuple[int, int]:
    return image.width, image.height


def _name(image: Image) -> str:
    return f"{image.width} x {image.height} pixels"


def _halves(whole: int) -> set[int]:
    return {max(1, whole // 2), -(-whole // 2)}
