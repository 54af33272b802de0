"""What a TIFF's own tags say, where GDAL keeps silent."""

import struct
from pathlib import Path
from typing import BinaryIO

__all__ = ["read_nodata"]

NODATA_TAG = 42113
MOST_TAGS = 4096
MOST_TEXT = 64


def read_nodata(path: Path) -> str:
    """The text of the nodata tag of the first image, whether or not a pixel can have it; empty where there is none."""
    try:
        with path.open("rb") as file:
            return _find(file)
    except (struct.error, OSError, UnicodeDecodeError):
        return ""


def _find(file: BinaryIO) -> str:
    head = file.read(16)
    order = {b"II": "<", b"MM": ">"}.get(head[:2])
    if order is None:
        return ""
    big = struct.unpack(f"{order}H", head[2:4]) == (43,)
    count, entry = ("Q", "HHQ8s") if big else ("H", "HHI4s")
    (start,) = struct.unpack(f"{order}Q", head[8:16]) if big else struct.unpack(f"{order}I", head[4:8])
    file.seek(start)
    (tags,) = struct.unpack(f"{order}{count}", file.read(struct.calcsize(f"{order}{count}")))
    for _ in range(min(tags, MOST_TAGS)):
        tag, _, length, value = struct.unpack(f"{order}{entry}", file.read(struct.calcsize(f"{order}{entry}")))
        if tag == NODATA_TAG:
            return _text(file, order, length, value)
    return ""


def _text(file: BinaryIO, order: str, length: int, value: bytes) -> str:
    if length > len(value):
        file.seek(struct.unpack(f"{order}{'Q' if len(value) == 8 else 'I'}", value)[0])
        value = file.read(min(length, MOST_TEXT))
    return value[:length].rstrip(b"\x00 ").decode("ascii")
