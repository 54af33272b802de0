"""Columns whose values we read or parse, since GDAL would change them; what is not of a column's type becomes null."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.plugins.vector.models import Notes

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Rows

__all__ = ["FindUnreadable", "OwnValues", "ReadColumns", "TakeRows", "TextFacts", "note_misfits", "parse_texts", "trim"]

NOT_OF_ITS_TYPE = "not_of_its_type"
MAX_DIGITS = 38  # of a decimal
DAY_CHARS = 8
_MANY_DIGITS = "^[+-]?[0-9]{16,}$"  # more than floating point has of any number
_WHOLE = "^[+-]?[0-9]{1,38}$"
_LOGICAL = {
    **dict.fromkeys(("T", "t", "Y", "y", "true", "1"), True),
    **dict.fromkeys(("F", "f", "N", "n", "false", "0"), False),
}
ReadColumns = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
TakeRows = Callable[[pa.RecordBatch, "Rows"], dict[str, pa.Array]]
# What the file has as the geometries of some places of a batch of GDAL, whose rows have numbers.
FindUnreadable = Callable[[pa.RecordBatch, "Rows", "Rows"], dict[int, str]]


class OwnValues(Protocol):
    """Some columns of a layer."""

    def find_types(self, given: Sequence[pa.Field]) -> dict[str, pa.DataType]:
        """The types of these columns by their names, of those and beside those that GDAL gives."""

    def open(self, types: Mapping[str, pa.DataType], changed: Notes) -> TakeRows:
        """What returns their values for the next batch of GDAL and the numbers of its rows; notes what is lost."""


@dataclass
class TextFacts:
    """What the values of a column are."""

    values: int = 0
    lost: int = 0
    is_whole: bool = True
    exceeds_type: bool = False  # whole numbers beyond the type given
    exceeds_int64: bool = False
    exceeds_digits: bool = False  # beyond the 15 digits that floating point has of any number
    exceeds_double: bool = False  # whole numbers that floating point does not have exactly

    def add(self, texts: pa.Array, given: pa.DataType) -> None:
        """Look at more values."""
        found = parse_texts(texts, pa.float64() if _is_number(given) else given)
        self.values += len(texts) - texts.null_count
        self.lost += found.null_count - texts.null_count
        numbers = texts.filter(found.is_valid())
        self.is_whole = self.is_whole and pc.all(pc.match_substring_regex(numbers, _WHOLE)).as_py() is not False
        if not _is_number(given):
            return
        if self.is_whole:
            self.exceeds_type = self.exceeds_type or parse_texts(numbers, given).null_count > 0
            self.exceeds_int64 = self.exceeds_int64 or parse_texts(numbers, pa.int64()).null_count > 0
        long = numbers.filter(pc.match_substring_regex(numbers, _MANY_DIGITS)).to_pylist()
        self.exceeds_digits = self.exceeds_digits or bool(long)
        self.exceeds_double = self.exceeds_double or any(Decimal(text) != Decimal(float(text)) for text in long)

    def choose(self, given: pa.DataType) -> pa.DataType:
        """The type given, one that has all numbers exactly, or text where most values are not of the type."""
        if self.lost * 2 > self.values:
            return pa.string()
        if not _is_number(given) or (pa.types.is_integer(given) and self.is_whole and not self.exceeds_type):
            return given
        if not self.is_whole:
            return pa.string() if self.exceeds_double else pa.float64()
        if pa.types.is_floating(given) and not self.exceeds_digits:
            return pa.float64()
        return pa.decimal128(MAX_DIGITS) if self.exceeds_int64 else pa.int64()


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def parse_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values of texts, null where one is not of the type."""
    if pa.types.is_date(kind):
        return pa.array(map(_as_day, texts.to_pylist()), kind)
    if pa.types.is_boolean(kind):
        return pa.array(map(_LOGICAL.get, texts.to_pylist()), kind)
    if kind == pa.string():
        return texts
    values = _cast_all(pc.replace_substring_regex(texts, r"^[+]", ""), kind)
    return pc.if_else(pc.is_finite(values), values, None) if pa.types.is_floating(kind) else values


def trim(texts: pa.Array) -> pa.Array:
    """The texts without space around them; null where nothing is left."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed)


def _as_day(text: str | None) -> date | None:
    with suppress(ValueError):
        return date(int(text[:4]), int(text[4:6]), int(text[6:])) if text and len(text) == DAY_CHARS else None
    return None


def _cast_all(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values of texts; null where one has no value of the type."""
    try:
        return pc.cast(texts, kind)
    except pa.ArrowInvalid:
        return pa.array([_cast(text, kind) for text in texts], kind)


def _cast(text: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        return None


def note_misfits(
    changed: Notes,
    rows: "Rows",
    texts: Mapping[str, pa.Array],
    values: Mapping[str, pa.Array],
    why: str = NOT_OF_ITS_TYPE,
) -> None:
    """Note the rows with texts that have no value; each counts once."""
    found: dict[int, str] = {}
    for name, column in texts.items():
        lost = pc.and_(column.is_valid(), values[name].is_null()).to_numpy(zero_copy_only=False)
        for place in np.flatnonzero(lost).tolist():
            found.setdefault(place, f"column {name}: {column[place].as_py()}")
    changed.add(why, rows[list(found)].tolist(), list(found.values()))
