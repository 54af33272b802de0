"""Points of two dimensions as plain numbers: most are valid as they are, and making objects of them takes longest."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["PlainPoints", "read_points"]

POINT = np.frombuffer(b"\x01\x01\x00\x00\x00", np.uint8)  # little-endian, two dimensions
POINT_BYTES = len(POINT) + 16


@dataclass(frozen=True)
class PlainPoints:
    """The coordinates of points, none of which is empty: x, y."""

    xy: "npt.NDArray[np.float64]"

    def __len__(self) -> int:
        return len(self.xy)

    def __getitem__(self, part: slice) -> "PlainPoints":
        return PlainPoints(self.xy[part])


def read_points(column: pa.Array) -> PlainPoints | None:
    """The points of a column of WKB; nothing where any value is something else, or is not finite."""
    column = getattr(column, "storage", column)
    if column.null_count or not len(column) or not pa.types.is_binary(column.type):
        return None
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    if (np.diff(offsets) != POINT_BYTES).any():
        return None
    letters = np.frombuffer(column.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].reshape(-1, POINT_BYTES)
    if (letters[:, : len(POINT)] != POINT).any():
        return None
    xy = np.ascontiguousarray(letters[:, len(POINT) :]).view("<f8")
    return PlainPoints(xy) if np.isfinite(xy).all() else None
