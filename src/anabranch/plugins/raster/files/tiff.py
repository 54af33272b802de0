"""The tags of a TIFF, where GDAL does not report them or reports something else."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from anabranch.plugins.raster.files.source import Openable

__all__ = ["Image", "read_images", "read_nodata"]

MAX_IMAGES = 256
MAX_TAGS = 4096
MAX_VALUE_BYTES = 64
SUBFILE, WIDTH, HEIGHT, BITS, COMPRESSION, TILE_WIDTH, NODATA = 254, 256, 257, 258, 259, 322, 42113
_REDUCED, _MASK = 1, 4
# The size in bytes of each tag type, and the struct formats of the integer types.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_INTEGER_FORMATS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}


@dataclass(frozen=True)
class Image:
    """One image of a TIFF: the raster itself, an overview of it, or the mask of either."""

    width: int
    height: int
    tiled: bool
    reduced: bool
    mask: bool
    bits: int
    compression: int
    nodata: str


@dataclass(frozen=True)
class _Layout:
    """The byte order and the variant (classic or BigTIFF) of a file."""

    order: str
    big: bool

    def unpack(self, small: str, large: str, data: bytes) -> tuple[int, ...]:
        return struct.unpack(f"{self.order}{large if self.big else small}", data)

    def read(self, file: BinaryIO, small: str, large: str) -> tuple[int, ...]:
        form = large if self.big else small
        return self.unpack(small, large, file.read(struct.calcsize(f"{self.order}{form}")))


def read_images(source: Openable, most: int = MAX_IMAGES) -> tuple[Image, ...]:
    """The first images of a TIFF in their order; empty for other files; those before the damage of a truncated one."""
    found: list[Image] = []
    try:
        with source.open("rb") as file:
            for image in islice(_walk(file), most):
                found.append(image)
    except (struct.error, OSError, UnicodeDecodeError, OverflowError):
        pass
    return tuple(found)


def read_nodata(source: Openable) -> str:
    """The text of the nodata tag of the first image, whether or not a pixel can have it; empty where there is none."""
    images = read_images(source, most=1)
    return images[0].nodata if images else ""


def _walk(file: BinaryIO) -> Iterator[Image]:
    head = file.read(16)
    order = {b"II": "<", b"MM": ">"}.get(head[:2])
    if order is None:
        return
    layout = _Layout(order, big=struct.unpack(f"{order}H", head[2:4]) == (43,))
    (start,) = layout.unpack("I", "Q", head[8:16] if layout.big else head[4:8])
    seen: set[int] = set()
    while start and start not in seen:
        seen.add(start)
        file.seek(start)
        tags, start = _read_directory(file, layout)
        yield _describe(file, layout, tags)


_Tag = tuple[int, int, bytes]


def _read_directory(file: BinaryIO, layout: _Layout) -> tuple[dict[int, _Tag], int]:
    (count,) = layout.read(file, "H", "Q")
    tags = {}
    for _ in range(min(count, MAX_TAGS)):
        tag, kind, length = layout.read(file, "HHI", "HHQ")
        tags[tag] = kind, length, file.read(8 if layout.big else 4)
    (following,) = layout.read(file, "I", "Q")
    return tags, following


def _describe(file: BinaryIO, layout: _Layout, tags: dict[int, _Tag]) -> Image:
    def number(tag: int, default: int) -> int:
        return _first(layout, tags[tag][0], _value(file, layout, tags[tag])) if tag in tags else default

    what = number(SUBFILE, 0)
    return Image(
        width=number(WIDTH, 0),
        height=number(HEIGHT, 0),
        tiled=TILE_WIDTH in tags,
        reduced=bool(what & _REDUCED),
        mask=bool(what & _MASK),
        bits=number(BITS, 1),
        compression=number(COMPRESSION, 1),
        nodata=_value(file, layout, tags[NODATA]).rstrip(b"\x00 ").decode("ascii") if NODATA in tags else "",
    )


def _value(file: BinaryIO, layout: _Layout, tag: _Tag) -> bytes:
    kind, length, value = tag
    size = _SIZES.get(kind, 1) * length
    if size > len(value):
        (place,) = layout.unpack("I", "Q", value)
        file.seek(place)
        value = file.read(min(size, MAX_VALUE_BYTES))
    return value[:size]


def _first(layout: _Layout, kind: int, value: bytes) -> int:
    form = f"{layout.order}{_INTEGER_FORMATS.get(kind, 'H')}"
    return int(struct.unpack(form, value[: struct.calcsize(form)])[0])
