"""FlatGeobuf: read by GDAL, which ends without a word where a file is cut off."""

import struct
from pathlib import Path

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import ReadOptions, SourceLayer
from anabranch.plugins.vector.reading.choose import choose_layers
from anabranch.plugins.vector.reading.exact.times import TimeTexts
from anabranch.plugins.vector.reading.ogr import OgrFile, count_features, list_layers, open_layer
from anabranch.plugins.vector.settings import VectorSettings

__all__ = ["open_flatgeobuf"]

MAGIC_BYTES = 8
SIZE = struct.Struct("<I")  # before the header, and before each feature


def open_flatgeobuf(path: Path, options: ReadOptions, settings: VectorSettings) -> tuple[SourceLayer, ...]:
    """The layer of a FlatGeobuf file."""
    file = OgrFile(path, path.name, "FlatGeobuf", settings, parse=TimeTexts)
    layers = [(name, True) for name, _ in list_layers(file)]  # none, where its header is damaged
    (name,), _ = choose_layers(path.name, layers, options.layer, settings)
    return (open_layer(file, name, rows=count_features(file) or _count_rows(path)),)


def _count_rows(path: Path) -> int:
    """The rows of a file whose header does not say how many there are: it has no index, so they follow at once."""
    end, rows = path.stat().st_size, 0
    with path.open("rb") as file:
        at = MAGIC_BYTES
        while at + SIZE.size <= end:
            file.seek(at)
            at += SIZE.size + SIZE.unpack(file.read(SIZE.size))[0]
            rows += 1
    if at != end:
        raise Permanent(
            f"{path.name} is cut off: its feature {rows:,} does not end in it",
            code="vector.damaged",
            remedy="Upload it again; open it elsewhere to check that it is complete.",
        )
    return rows - 1  # the header is the first
