"""Arrow arrays of bytes, made of numpy arrays and of parts of buffers without a loop over their values."""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

__all__ = ["EMPTY", "cut", "fixed_width", "join", "offsets_of", "unaligned", "valid_values"]

EMPTY = pa.scalar(b"", pa.large_binary())


def fixed_width(values: "npt.NDArray[np.generic]", valid: "Flags | None" = None) -> pa.Array:
    """The bytes of each value; null where it is not valid."""
    width = values.dtype.itemsize
    offsets = np.arange(0, (len(values) + 1) * width, width, dtype=np.int64)
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.large_binary(), len(values), [bitmap, pa.py_buffer(offsets), data])


def join(*parts: pa.Array) -> pa.Array:
    """The parts of each row one after the other; a null is nothing."""
    return pc.binary_join_element_wise(*parts, EMPTY, null_handling="replace", null_replacement="")


def cut(buffer: pa.Buffer, starts: "Integers", ends: "Integers", valid: "Flags | None" = None) -> pa.Array:
    """The bytes of each range of a buffer, of ranges that are in order and don't overlap; null where not valid."""
    # Every second value is a gap between ranges, so that Arrow copies the ranges themselves.
    offsets = np.zeros(2 * len(starts) + 1, dtype=np.int64)
    offsets[1::2], offsets[2::2] = starts, ends
    both = pa.Array.from_buffers(pa.large_binary(), 2 * len(starts), [None, pa.py_buffer(offsets), buffer])
    wanted = pa.array(np.arange(1, 2 * len(starts), 2), mask=None if valid is None else ~valid)
    return both.take(wanted)


def offsets_of(array: pa.Array) -> "Integers":
    """Where the values of an array of large binaries begin in its data, and where the last one ends."""
    offsets: Integers = np.frombuffer(array.buffers()[1], np.int64)
    return offsets[array.offset : array.offset + len(array) + 1]


def unaligned(buffer: pa.Buffer, dtype: str) -> "npt.NDArray[np.int64]":
    """What stands at each place of a buffer, read as a number of this type."""
    width = np.dtype(dtype).itemsize
    return np.ndarray((max(buffer.size - width + 1, 0),), dtype, buffer, strides=(1,))


def valid_values(array: pa.Array) -> "Flags | None":
    """Which values are not null; nothing if all are."""
    found: Flags = array.is_valid().to_numpy(zero_copy_only=False)
    return found if array.null_count else None
