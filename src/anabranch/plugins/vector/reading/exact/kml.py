"""Values of KML: those of a schema as they are written, times with their zones, and no number for what is not given."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.plugins.vector.models import Notes
from anabranch.plugins.vector.reading.exact.columns import (
    ReadColumns,
    TakeRows,
    TextFacts,
    note_misfits,
    parse_texts,
    trim,
)
from anabranch.plugins.vector.reading.exact.times import TimeTexts

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Rows

__all__ = ["KmlValues", "declare_texts"]

NOT_GIVEN = -1
_MAY_LACK = ("tessellate", "visibility")  # where a placemark has none, GDAL gives -1
_SCHEMA = re.compile(rb"<Schema\b.*?</Schema\s*>", re.DOTALL)
_FIELD = re.compile(rb"<SimpleField\b[^>]*>")
_TYPE = re.compile(rb"(\btype\s*=\s*)([\"'])\s*(\w+)\s*\2")
_NAME = re.compile(rb"\bname\s*=\s*([\"'])(.*?)\1", re.DOTALL)


def declare_texts(kml: bytes) -> tuple[bytes, frozenset[str]]:
    """The file with texts as the type of all fields of its schemas, since GDAL would change values of others.

    And the names of fields that have several types: a layer may have values of more than one schema.
    """
    types: dict[str, set[bytes]] = {}

    def note(field: "re.Match[bytes]") -> bytes:
        kind, name = _TYPE.search(field[0]), _NAME.search(field[0])
        if kind and name:
            types.setdefault(unescape(name[2].decode("utf-8", "replace")), set()).add(kind[3])
        return _TYPE.sub(rb"\1\2string\2", field[0])

    text = _SCHEMA.sub(lambda schema: _FIELD.sub(note, schema[0]), kml)
    return text, frozenset(name for name, found in types.items() if len(found) > 1)


@dataclass
class KmlValues:
    """The columns of a layer that we parse.

    `declared` are the types that GDAL gives to its columns by the schemas, and `mixed` those with several types there.
    """

    declared: Mapping[str, pa.DataType]
    mixed: frozenset[str]
    read: ReadColumns

    def find_types(self, given: Sequence[pa.Field]) -> dict[str, pa.DataType]:
        """The types of the columns."""
        facts = {field.name: TextFacts() for field in given if _is_text(self.declared.get(field.name), field)}
        for batch in self.read(list(facts)) if facts else ():
            for name, found in facts.items():
                found.add(trim(batch.column(name)), self.declared[name])
        lacking = {field.name: field.type for field in given if field.name in _MAY_LACK and field.type == pa.int32()}
        self._fields = list(facts)
        self._times = TimeTexts(self.read).find_types(given)
        return {name: self._choose(name, found) for name, found in facts.items()} | self._times | lacking

    def open(self, types: Mapping[str, pa.DataType], changed: Notes) -> TakeRows:
        """What returns the values of rows."""
        take_times = TimeTexts(self.read).open(self._times, changed)
        lacking = [name for name in types if name not in self._times and name not in self._fields]

        def take(batch: pa.RecordBatch, rows: "Rows") -> dict[str, pa.Array]:
            texts = {name: trim(batch.column(name)) for name in self._fields}
            values = {name: parse_texts(texts[name], types[name]) for name in self._fields}
            note_misfits(changed, rows, texts, values)
            for name in lacking:
                values[name] = pc.if_else(pc.equal(batch.column(name), NOT_GIVEN), None, batch.column(name))
            return values | take_times(batch, rows)

        return take

    def _choose(self, name: str, found: TextFacts) -> pa.DataType:
        return pa.string() if found.lost and name in self.mixed else found.choose(self.declared[name])


def _is_text(declared: pa.DataType | None, field: pa.Field) -> bool:
    return declared not in (None, pa.string()) and field.type == pa.string()
