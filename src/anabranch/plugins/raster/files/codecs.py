"""Why GDAL can't read a file: a missing codec, or GDAL's own message."""

from anabranch.errors import Permanent
from anabranch.plugins.raster.files.source import Openable
from anabranch.plugins.raster.files.tiff import read_images

__all__ = ["gdal_message", "missing_codec"]

MAX_MESSAGE_CHARS = 300
# Compressions that GDAL in rasterio's wheels can't decode, by the value of TIFF tag 259.
_MISSING = {
    6: "old-style JPEG",
    34661: "JBIG",
    34712: "JPEG 2000",
    34934: "JPEG XR",
    50002: "JPEG XL",
    52546: "JPEG XL",
}
_JPEG, _TWELVE_BITS = 7, 12


def missing_codec(source: Openable, name: str) -> Permanent | None:
    """An error that names the codec of a complete TIFF whose compression GDAL can't decode here."""
    images = read_images(source, most=1)
    if not images:
        return None
    number, bits = images[0].compression, images[0].bits
    codec = "12-bit JPEG" if (number, bits) == (_JPEG, _TWELVE_BITS) else _MISSING.get(number)
    if not codec:
        return None
    return Permanent(
        f"{name} is compressed with {codec} (tag 259 is {number}), which this GDAL can't decode",
        code="raster.codec",
        remedy="Recompress it with a GDAL that has this codec: "
        f"`gdal_translate -of COG -co COMPRESS=ZSTD {name} out.tif`.",
    )


def gdal_message(error: BaseException) -> str:
    """GDAL's first message, which names the cause; rasterio's last one only says that something failed."""
    text = str(error)
    seen = error.__cause__ or error.__context__
    while seen is not None:
        text, seen = str(seen) or text, seen.__cause__ or seen.__context__
    return text.strip().rstrip(".")[:MAX_MESSAGE_CHARS]
