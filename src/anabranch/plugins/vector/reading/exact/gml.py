"""Values of GML that GDAL would change: numbers that its types don't hold, and parts of milliseconds."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import time
from itertools import chain, islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyogrio

from anabranch.plugins.vector.models import Notes
from anabranch.plugins.vector.reading.exact.columns import (
    ReadColumns,
    TakeRows,
    TextFacts,
    note_misfits,
    parse_texts,
    trim,
)
from anabranch.plugins.vector.reading.exact.times import TimeTexts, is_time, parse_time

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Rows

__all__ = ["GmlValues"]

_LONG = "[0-9]{19}"
_INEXACT = r"^\s*[+-]?[0-9]{16,}\s*$|[eE][+-]?[0-9]{3}"
_FINE = r"\.[0-9]{4}"  # GDAL has milliseconds
_TEXTS = pa.list_(pa.string())


@dataclass
class GmlValues:
    """The columns of a layer that we parse: those with a text that GDAL's type of the column does not hold."""

    read: ReadColumns
    _times: dict[str, pa.DataType] = field(default_factory=dict)
    _odd: dict[str, pa.DataType] = field(default_factory=dict)

    def find_types(self, given: Sequence[pa.Field]) -> dict[str, pa.DataType]:
        """The types of the columns."""
        self._times = TimeTexts(self.read).find_types(given)
        odd = self._find_odd({each.name: check for each in given if (check := _find_check(each))})
        kinds = {each.name: each.type for each in given if each.name in odd}
        self._odd = {name: _TEXTS for name, kind in kinds.items() if pa.types.is_list(kind)}
        self._odd |= {name: pa.time64("us") for name, kind in kinds.items() if pa.types.is_time(kind)}
        self._odd |= {name: self._times[name] for name in kinds if name in self._times}
        self._odd |= self._find_numbers({name: kind for name, kind in kinds.items() if name not in self._odd})
        return self._times | self._odd

    def open(self, types: Mapping[str, pa.DataType], changed: Notes) -> TakeRows:
        """What returns the values of rows."""
        take_times = TimeTexts(self.read).open(self._times, changed)
        columns = self._read_rows()

        def take(batch: pa.RecordBatch, rows: "Rows") -> dict[str, pa.Array]:
            values = take_times(batch, rows)
            read = list(islice(columns, len(rows)))
            texts: dict[str, pa.Array] = {}
            for name, kind in self._odd.items():
                found = [row[name] for row in read]
                if kind == _TEXTS:
                    values[name] = pa.array(found, kind)
                elif pa.types.is_temporal(kind):
                    given = values.get(name, batch.column(name)).cast(kind)
                    values[name] = pc.coalesce(pa.array([_parse(text, kind) for text in found], kind), given)
                else:
                    texts[name] = trim(pa.array(found, pa.string()))
                    values[name] = parse_texts(texts[name], kind)
            note_misfits(changed, rows, texts, values)
            return values

        return take

    def _find_odd(self, checks: Mapping[str, str]) -> set[str]:
        """The columns with a text that a pattern of theirs finds."""
        odd: set[str] = set()
        for batch in self._read_texts(list(checks)):
            for name in checks.keys() - odd:
                texts = batch.column(name)
                texts = texts.flatten() if pa.types.is_list(texts.type) else texts
                if texts.type == pa.string() and pc.any(pc.match_substring_regex(texts, checks[name])).as_py():
                    odd.add(name)
        return odd

    def _find_numbers(self, kinds: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        """The types of columns of numbers."""
        facts = {name: TextFacts() for name in kinds}
        for batch in self._read_texts(list(kinds)):
            for name, found in facts.items():
                found.add(trim(batch.column(name)), kinds[name])
        return {name: found.choose(kinds[name]) for name, found in facts.items()}

    def _read_rows(self) -> Iterator[dict[str, str | list[str] | None]]:
        for batch in self._read_texts(list(self._odd)):
            yield from batch.select(list(self._odd)).to_pylist()

    def _read_texts(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The batches of some columns, of texts, if that is what GDAL is asked for while it opens the file."""
        if not names:
            return iter(())
        pyogrio.set_gdal_config_options({"GML_FIELDTYPES": "ALWAYS_STRING"})
        try:
            batches = self.read(names)
            first = list(islice(batches, 1))
        finally:
            pyogrio.set_gdal_config_options({"GML_FIELDTYPES": None})
        return chain(first, batches)


def _find_check(given: pa.Field) -> str:
    """What the texts look like that a column can't have; empty where it can have all."""
    kind = given.type.value_type if pa.types.is_list(given.type) else given.type
    if pa.types.is_time(kind) or is_time(given):
        return _FINE
    if pa.types.is_floating(kind):
        return _INEXACT
    return _LONG if kind == pa.int64() else ""


def _parse(text: object, kind: pa.DataType) -> object:
    if not isinstance(text, str) or kind == pa.string():
        return text
    if pa.types.is_timestamp(kind):
        return parse_time(text, has_zone=kind.tz is not None)
    with suppress(ValueError):
        return time.fromisoformat(text.strip()).replace(tzinfo=None)
    return None
