"""Values of columns in the types of their table; what PostgreSQL refuses is repaired and noted (V1)."""

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from anabranch.plugins.vector.cleaning.json_values import to_json
from anabranch.plugins.vector.cleaning.types import ARROW_TYPES
from anabranch.plugins.vector.models import Column, ColumnType, Notes

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Rows

__all__ = ["Repairs", "convert", "unwrap"]

DAY_SECONDS = 86_400
# Years 1 to 9999: PostgreSQL has more, but other readers of dates don't.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class Repairs:
    """Collects which rows of a batch had values that were repaired: a row counts once for each kind of repair."""

    def __init__(self, numbers: "Rows") -> None:
        self._numbers = numbers
        self._found: dict[str, dict[int, str]] = {}

    def add(self, what: str, mask: pa.Array, column: str) -> None:
        """Note the rows of a mask, in which null is no."""
        places = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
        rows = self._found.setdefault(what, {})
        for number in self._numbers[places].tolist():
            rows.setdefault(number, f"column {column}")

    def note(self, changed: Notes) -> None:
        """Note them as changes."""
        for what, rows in self._found.items():
            changed.add(what, list(rows), list(rows.values()))


def convert(array: pa.Array, column: Column, repairs: Repairs) -> pa.Array:
    """The values in the type that `ARROW_TYPES` has for the column."""
    special = _SPECIAL.get(column.type)
    if special:
        array = special(array, column.name, repairs)
    target = ARROW_TYPES[column.type]
    return array if array.type == target else array.cast(target)


def unwrap(array: pa.Array) -> pa.Array:
    """The values themselves, of extension types, dictionaries and views, of which rows can be taken."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    if kinds.is_string_view(array.type):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if kinds.is_binary_view(array.type) else array


def _repair_text(array: pa.Array, column: str, repairs: Repairs) -> pa.Array:
    if not kinds.is_string(array.type):
        array = array.cast(pa.string())
    array = _repair_encoding(array, column, repairs)
    if _has_nul(array):
        repairs.add("nul_removed", pc.match_substring(array, "\0"), column)
        array = pc.replace_substring(array, "\0", "")
    return array


def _repair_encoding(array: pa.Array, column: str, repairs: Repairs) -> pa.Array:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        values = array.cast(pa.binary()).to_pylist()
        texts = [None if value is None else value.decode(errors="replace") for value in values]
        broken = [text is not None and text.encode() != value for text, value in zip(texts, values, strict=True)]
        repairs.add("not_utf8", pa.array(broken), column)
        return pa.array(texts, pa.string())
    return array


def _has_nul(array: pa.Array) -> bool:
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return False
    ends = np.frombuffer(offsets, np.int32)[[array.offset, array.offset + len(array)]]
    return not np.frombuffer(data, np.uint8)[ends[0] : ends[1]].all()


def _repair_number(array: pa.Array, column: str, repairs: Repairs) -> pa.Array:
    texts = array.cast(pa.string())
    if kinds.is_decimal(array.type) and pc.any(pc.match_substring(texts, "E")).as_py():
        texts = pa.array([None if text is None else f"{Decimal(text):f}" for text in texts.to_pylist()], pa.string())
    return texts


def _repair_duration(array: pa.Array, column: str, repairs: Repairs) -> pa.Array:
    return array.cast(pa.int64())


def _repair_date(array: pa.Array, column: str, repairs: Repairs) -> pa.Array:
    if kinds.is_date64(array.type):
        milliseconds = DAY_SECONDS * 1_000
        days = np.floor_divide(array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), milliseconds)
        array = pc.if_else(array.is_valid(), pa.array(days), None)
    days = array.cast(pa.int32() if kinds.is_date32(array.type) else pa.int64())
    return _null_outside(days, FIRST_DAY, LAST_DAY, column, repairs).cast(pa.int32()).cast(pa.date32())


def _repair_time(array: pa.Array, column: str, repairs: Repairs) -> pa.Array:
    unit = _UNITS[array.type.unit]
    ticks = array.cast(pa.int32() if unit <= _UNITS["ms"] else pa.int64())
    ticks = _null_outside(ticks, 0, DAY_SECONDS * unit - 1, column, repairs)
    _note_nanoseconds(ticks, unit, column, repairs)
    return ticks.cast(array.type).cast(pa.time64("us"), safe=False)


def _repair_timestamp(array: pa.Array, column: str, repairs: Repairs) -> pa.Array:
    second = _UNITS[array.type.unit]
    first, last = FIRST_DAY * DAY_SECONDS * second, ((LAST_DAY + 1) * DAY_SECONDS) * second - 1
    int64 = np.iinfo(np.int64)
    ticks = _null_outside(array.cast(pa.int64()), max(first, int64.min), min(last, int64.max), column, repairs)
    _note_nanoseconds(ticks, second, column, repairs)
    return ticks.cast(array.type).cast(pa.timestamp("us", "UTC" if array.type.tz else None), safe=False)


def _note_nanoseconds(ticks: pa.Array, unit: int, column: str, repairs: Repairs) -> None:
    """Note times of which PostgreSQL, which has microseconds, loses digits."""
    if unit == _UNITS["ns"]:
        rest = np.remainder(ticks.fill_null(0).to_numpy(zero_copy_only=False), _UNITS["ns"] // _UNITS["us"])
        if rest.any():
            repairs.add("nanoseconds_cut", pa.array(rest != 0), column)


def _null_outside(ticks: pa.Array, first: int, last: int, column: str, repairs: Repairs) -> pa.Array:
    """The numbers of days or of parts of seconds, and null for those that no date has."""
    ends = pc.min_max(ticks).as_py()
    if ends["min"] is None or (first <= ends["min"] and ends["max"] <= last):
        return ticks
    outside = pc.or_(pc.less(ticks, first), pc.greater(ticks, last))
    repairs.add("impossible_date", outside, column)
    return pc.if_else(outside, pa.scalar(None, ticks.type), ticks)


def _repair_json(array: pa.Array, column: str, repairs: Repairs) -> pa.Array:
    if not kinds.is_nested(array.type):
        array = _repair_encoding(array.cast(pa.string()), column, repairs)
    texts, notes = to_json(array)
    for what, places in notes.items():
        repairs.add(what, pa.array(np.isin(np.arange(len(array)), places)), column)
    return texts


_SPECIAL: dict[ColumnType, Callable[[pa.Array, str, Repairs], pa.Array]] = {
    ColumnType.TEXT: _repair_text,
    ColumnType.NUMERIC: _repair_number,
    ColumnType.BIGINT: _repair_duration,
    ColumnType.DATE: _repair_date,
    ColumnType.TIME: _repair_time,
    ColumnType.TIMESTAMP: _repair_timestamp,
    ColumnType.TIMESTAMPTZ: _repair_timestamp,
    ColumnType.JSONB: _repair_json,
}
