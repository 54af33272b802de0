"""Columns of a Shapefile's table with texts that are not of their type: GDAL makes other values of them."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.plugins.vector.models import Notes
from anabranch.plugins.vector.reading.exact.columns import TakeRows, TextFacts, note_misfits, parse_texts

if TYPE_CHECKING:
    import numpy.typing as npt

    from anabranch.plugins.vector.models import Rows

    Records = npt.NDArray[np.uint8]

__all__ = ["DbfColumns"]

FIELD = struct.Struct("<11xc4xBB14x")
HEADER_BYTES, END_OF_FIELDS = 32, b"\r"
PIECE_ROWS = 10_000
LAST_OF_ASCII = 127
_INTEGER = r"^ *([+-]?[0-9]+)? *$"
_NUMBER = r"^ *([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?0?[0-9]{1,2})?)? *$"
_FEW_DIGITS = "^ *-?[0-9]{0,15} *$"  # that floating point has exactly
# A 29th of February is looked at by us.
_DAY = "^( *|0+|[0-9]{4}((0[1-9]|1[0-2])(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])(29|30)|(0[13578]|1[02])31))$"


@dataclass(frozen=True)
class _Field:
    """Where a field is in a record."""

    start: int
    width: int
    is_whole: bool  # it has numbers without decimals

    @property
    def end(self) -> int:
        """Where the next field begins."""
        return self.start + self.width


class DbfColumns:
    """The columns of a table that we read, if any: almost all have texts that GDAL reads as they are."""

    def __init__(self, path: Path, encoding: str) -> None:
        self._path = path
        self._encoding = encoding
        with path.open("rb") as file:
            self._rows, self._start, self._width = struct.unpack("<4xIHH20x", file.read(HEADER_BYTES))
            self._fields = list(_list_fields(file.read(self._start - HEADER_BYTES)))
        self._given: dict[str, tuple[_Field, pa.DataType]] = {}

    def find_types(self, given: Sequence[pa.Field]) -> dict[str, pa.DataType]:
        """The types of these columns."""
        if len(self._fields) != len(given) or any(field.end > self._width for field in self._fields):
            return {}  # its header is damaged, or it has no fields
        self._given = {each.name: (place, each.type) for each, place in zip(given, self._fields, strict=True)}
        checks = {
            name: check for name, held in self._given.items() if held[0].width and (check := _find_pattern(*held))
        }
        facts: dict[str, TextFacts] = {}
        for records in self._read_all():
            for name, check in checks.items():
                texts = self._read(records, name)
                if name not in facts and not pc.all(pc.match_substring_regex(texts, check)).as_py():
                    facts[name] = TextFacts()
        for records in self._read_all() if facts else ():
            for name, found in facts.items():
                found.add(self._trim(records, name), self._given[name][1])
        return {name: found.choose(self._given[name][1]) for name, found in facts.items()}

    def open(self, types: Mapping[str, pa.DataType], changed: Notes) -> TakeRows:
        """What returns the values of rows, whose numbers are those of the table's records."""

        def take(batch: pa.RecordBatch, rows: "Rows") -> dict[str, pa.Array]:
            records = self._read_records(int(rows[0]) - 1, int(rows[-1]))[rows - rows[0]]
            texts = {name: self._trim(records, name) for name in types}
            values = {name: parse_texts(texts[name], kind) for name, kind in types.items()}
            note_misfits(changed, rows, texts, values)
            return values

        return take

    def _read_all(self) -> Iterator["Records"]:
        for first in range(0, self._rows, PIECE_ROWS):
            yield self._read_records(first, min(first + PIECE_ROWS, self._rows))

    def _read_records(self, first: int, end: int) -> "Records":
        count = (end - first) * self._width
        return np.fromfile(self._path, np.uint8, count, offset=self._start + first * self._width).reshape(
            -1, self._width
        )

    def _read(self, records: "Records", name: str) -> pa.Array:
        """The texts of a field."""
        field, _ = self._given[name]
        data = np.ascontiguousarray(records[:, field.start : field.end])
        if data.size and data.max() > LAST_OF_ASCII:
            return pa.array([each.tobytes().decode(self._encoding, "replace") for each in data], pa.string())
        ends = np.arange(0, data.size + 1, field.width, dtype=np.int32)
        return pa.Array.from_buffers(pa.string(), len(data), [None, pa.py_buffer(ends), pa.py_buffer(data)])

    def _trim(self, records: "Records", name: str) -> pa.Array:
        """The texts of a field, null where they stand for no value."""
        texts = pc.utf8_trim(self._read(records, name), " \0")
        return pc.if_else(pc.match_substring_regex(texts, _find_null(self._given[name][1])), None, texts)


def _list_fields(header: bytes) -> Iterator[_Field]:
    start = 1  # after the mark of deleted records
    for at in range(0, len(header) - FIELD.size + 1, FIELD.size):
        if header[at : at + 1] == END_OF_FIELDS:
            return
        kind, width, more = FIELD.unpack_from(header, at)
        width += 256 * more if kind == b"C" else 0
        yield _Field(start, width, is_whole=kind == b"N" and not more)
        start += width


def _find_pattern(field: _Field, kind: pa.DataType) -> str:
    """What all texts of a column look like that GDAL reads as they are; empty where it reads any so."""
    if pa.types.is_integer(kind):
        return _INTEGER
    if pa.types.is_floating(kind):
        return _FEW_DIGITS if field.is_whole else _NUMBER
    if pa.types.is_boolean(kind):
        return "^[TtYyFfNn]$"
    return _DAY if pa.types.is_date(kind) else ""


def _find_null(kind: pa.DataType) -> str:
    """What stands for no value: stars are a number that did not fit."""
    if pa.types.is_date(kind):
        return "^0*$"
    return "^[?]?$" if pa.types.is_boolean(kind) else r"^\**$"
