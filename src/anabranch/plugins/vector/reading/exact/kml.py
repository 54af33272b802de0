"""Values of KML: those of a schema as they are written, times with their zones, and no number for what is not given."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.plugins.vector.models import Notes
from anabranch.plugins.vector.reading.exact.columns import ReadColumns, TakeRows, TextFacts, note_misfits, parse_texts
from anabranch.plugins.vector.reading.exact.times import TimeTexts

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Rows

__all__ = ["KmlValues", "declare_texts"]

NOT_GIVEN = -1
_MAY_LACK = ("tessellate", "visibility")  # where a placemark has none, GDAL gives -1
_TYPES = {
    **dict.fromkeys((b"int", b"short", b"ushort"), pa.int32()),
    b"uint": pa.int64(),
    b"bool": pa.bool_(),
    **dict.fromkeys((b"float", b"double"), pa.float64()),
}
_SCHEMA = re.compile(rb"<Schema\b.*?</Schema\s*>", re.DOTALL)
_FIELD = re.compile(rb"<SimpleField\b[^>]*>")
_TYPE = re.compile(rb"(\btype\s*=\s*)([\"'])\s*(\w+)\s*\2")
_NAME = re.compile(rb"\bname\s*=\s*([\"'])(.*?)\1", re.DOTALL)


def declare_texts(kml: bytes) -> tuple[bytes, dict[str, pa.DataType]]:
    """The file with texts as the type of all fields of its schemas, and their types: GDAL would change values."""
    types: dict[str, set[pa.DataType]] = {}

    def note(field: "re.Match[bytes]") -> bytes:
        kind, name = _TYPE.search(field[0]), _NAME.search(field[0])
        if not kind or not name:
            return field[0]
        types.setdefault(name[2].decode("utf-8", "replace"), set()).add(_TYPES.get(kind[3], pa.string()))
        return _TYPE.sub(rb"\1\2string\2", field[0])

    text = _SCHEMA.sub(lambda schema: _FIELD.sub(note, schema[0]), kml)
    return text, {name: found.pop() for name, found in types.items() if len(found) == 1}


@dataclass
class KmlValues:
    """The columns of a layer that we parse; `declared` has the types of a schema, whose fields GDAL gives as texts."""

    declared: Mapping[str, pa.DataType]
    read: ReadColumns

    def find_types(self, given: Sequence[pa.Field]) -> dict[str, pa.DataType]:
        """The types of the columns."""
        facts = {field.name: TextFacts() for field in given if _is_text(self.declared.get(field.name), field)}
        for batch in self.read(list(facts)) if facts else ():
            for name, found in facts.items():
                found.add(_trim(batch.column(name)), self.declared[name])
        lacking = {field.name: field.type for field in given if field.name in _MAY_LACK and field.type == pa.int32()}
        self._times = TimeTexts(self.read).find_types(given)
        return {name: found.choose(self.declared[name]) for name, found in facts.items()} | self._times | lacking

    def open(self, types: Mapping[str, pa.DataType], changed: Notes) -> TakeRows:
        """What returns the values of rows."""
        take_times = TimeTexts(self.read).open(self._times, changed)
        fields = [name for name in types if name in self.declared and name not in self._times]
        lacking = [name for name in types if name not in self._times and name not in fields]

        def take(batch: pa.RecordBatch, rows: "Rows") -> dict[str, pa.Array]:
            texts = {name: _trim(batch.column(name)) for name in fields}
            values = {name: parse_texts(texts[name], types[name]) for name in fields}
            note_misfits(changed, rows, texts, values)
            for name in lacking:
                values[name] = pc.if_else(pc.equal(batch.column(name), NOT_GIVEN), None, batch.column(name))
            return values | take_times(batch, rows)

        return take


def _is_text(declared: pa.DataType | None, field: pa.Field) -> bool:
    return declared not in (None, pa.string()) and field.type == pa.string()


def _trim(texts: pa.Array) -> pa.Array:
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed)
