"""Values as text, for formats that have no type for them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.plugins.vector.tables.binary_arrays import offsets_of, valid_values
from anabranch.plugins.vector.tables.copy_format import DAY_MICROSECONDS

__all__ = ["as_text", "replace_columns"]

DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def as_text(values: pa.Array) -> pa.Array:
    """Dates and times as ISO 8601 writes them, of any year; bytes as hexadecimal digits; all else as it is."""
    kind = values.type
    if pa.types.is_binary(kind):
        return _write_hex(values)
    if pa.types.is_date(kind):
        return _write_iso(values.view(pa.int32()), "D")
    if pa.types.is_timestamp(kind):
        text = _write_iso(values.view(pa.int64()), "us")
        return text if kind.tz is None else pc.binary_join_element_wise(text, "Z", "")
    if pa.types.is_time(kind):
        clock = pc.utf8_slice_codeunits(_write_iso(values.view(pa.int64()), "us"), 11)
        return pc.if_else(pc.equal(values.view(pa.int64()), DAY_MICROSECONDS), "24:00:00.000000", clock)
    return values


def replace_columns(rows: pa.Table, names: list[str]) -> pa.Table:
    """The rows with these columns as text."""
    for place, name in enumerate(rows.schema.names):
        if name in names:
            rows = rows.set_column(place, name, as_text(rows[name].combine_chunks()))
    return rows


def _write_iso(numbers: pa.Array, unit: str) -> pa.Array:
    # Arrow's own cast wraps far years around.
    plain = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False).astype(f"datetime64[{unit}]")
    valid = valid_values(numbers)
    text = pa.array(np.datetime_as_string(plain).astype(object), pa.string(), mask=None if valid is None else ~valid)
    return pc.replace_substring_regex(text, r"^-(\d{3})-", r"-0\1-")


def _write_hex(values: pa.Array) -> pa.Array:
    large = values.cast(pa.large_binary())
    offsets, data = offsets_of(large), large.buffers()[2]
    plain = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data else np.array([], np.uint8)
    digits = np.ascontiguousarray(np.stack([DIGITS[plain >> 4], DIGITS[plain & 15]], axis=1))
    ends = pa.py_buffer(np.ascontiguousarray(2 * (offsets - offsets[0])))
    text = pa.Array.from_buffers(pa.large_string(), len(large), [None, ends, pa.py_buffer(digits)])
    return pc.if_else(values.is_valid(), text, None).cast(pa.string())
