"""What GDAL knows of why a file can't be read, in words: a codec that it has not, or its own message."""

from pathlib import Path

from anabranch.errors import Permanent
from anabranch.plugins.raster.tiff import read_images

__all__ = ["missing_codec", "say"]

MOST_TEXT = 300
# Compressions that GDAL in rasterio's wheels can't decode, by the number in the TIFF's tag 259.
_MISSING = {
    6: "JPEG as it was written before 1995",
    34661: "JBIG",
    34712: "JPEG 2000",
    34934: "JPEG XR",
    50002: "JPEG XL",
    52546: "JPEG XL",
}
_JPEG, _WIDE = 7, 12


def missing_codec(path: Path, name: str) -> Permanent | None:
    """A mistake that names the codec where a TIFF is whole, but compressed as nothing here can decode."""
    images = read_images(path)
    if not images:
        return None
    number, bits = images[0].compression, images[0].bits
    codec = "JPEG of 12 bits" if (number, bits) == (_JPEG, _WIDE) else _MISSING.get(number)
    if not codec:
        return None
    return Permanent(
        f"{name} is compressed as {codec} (tag 259 is {number}), which GDAL can't decode here",
        code="raster.codec",
        remedy="Write it with a common compression where that codec is known: "
        f"`gdal_translate -of COG -co COMPRESS=ZSTD {name} out.tif`.",
    )


def say(error: BaseException) -> str:
    """What GDAL said first, which is what failed; what rasterio says last is only that something did."""
    text = str(error)
    seen = error.__cause__ or error.__context__
    while seen is not None:
        text, seen = str(seen) or text, seen.__cause__ or seen.__context__
    return text.strip().rstrip(".")[:MOST_TEXT]
