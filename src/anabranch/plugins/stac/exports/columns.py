"""The types of columns for JSON whose keys and values are only known when all of it was seen."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from anabranch.canonical import JsonObject, canonical

__all__ = ["MAX_FIELDS", "Column"]

MAX_FIELDS = 2_000  # of all columns together: a Parquet file has a column for each
INT64 = range(-(2**63), 2**63)
SCALARS = {
    frozenset({"bool"}): pa.bool_(),
    frozenset({"int"}): pa.int64(),
    frozenset({"float"}): pa.float64(),
    frozenset({"int", "float"}): pa.float64(),
}
LIST, OBJECT = frozenset({"list"}), frozenset({"object"})


class Column:
    """A column for values of JSON. What no other type fits is text: JSON, or itself where it is a text already."""

    def __init__(self, known: list[int] | None = None) -> None:
        """Nothing was seen; `known` counts all columns that belong together."""
        self._kinds: set[str] = set()
        self._items: Column | None = None
        self._known = known if known is not None else [0]
        self._known[0] += 1
        self.fields: dict[str, Column] = {}

    def add(self, value: Any) -> None:  # JSON
        """Look at a value; nulls say nothing."""
        match value:
            case None:
                return
            case bool():
                self._kinds.add("bool")
            case int():
                self._kinds.add("int" if value in INT64 else "text")
            case float():
                self._kinds.add("float")
            case str():
                self._kinds.add("text")
            case list():
                self._kinds.add("list")
                self._items = self._items or Column(self._known)
                for each in value:
                    self._items.add(each)
            case _:
                self._kinds.add("object")
                self._add_fields(value)

    def _add_fields(self, value: JsonObject) -> None:
        for key, each in value.items():
            if key not in self.fields:
                if self._known[0] >= MAX_FIELDS:
                    self._kinds.add("text")  # too many keys to be columns
                    return
                self.fields[key] = Column(self._known)
            self.fields[key].add(each)

    @property
    def type(self) -> pa.DataType:
        """The type for all values that were seen."""
        kinds = frozenset(self._kinds)
        if kinds == LIST and self._items:
            return pa.list_(self._items.type)
        if kinds == OBJECT and self.fields:  # Parquet has no struct without fields
            return pa.struct([(key, column.type) for key, column in self.fields.items()])
        return SCALARS.get(kinds, pa.string())

    def find_texts(self, name: str) -> Iterator[str]:
        """The names of columns that hold other values than text as text."""
        kinds = frozenset(self._kinds)
        if pa.types.is_string(self.type):
            if kinds - {"text"}:
                yield name
        elif kinds == LIST and self._items:
            yield from self._items.find_texts(f"{name}[]")
        elif kinds == OBJECT:
            for key, column in self.fields.items():
                yield from column.find_texts(f"{name}.{key}")

    def convert(self, values: Iterable[Any]) -> pa.Array:
        """An array of values that were seen."""
        return pa.array(map(self._plain, values), self.type)

    def _plain(self, value: Any) -> Any:
        """A value as Arrow takes it for the type."""
        if value is None:
            return None
        kinds = frozenset(self._kinds)
        if kinds == LIST and self._items:
            return [self._items._plain(each) for each in value]
        if kinds == OBJECT and self.fields:
            return {key: column._plain(value.get(key)) for key, column in self.fields.items()}
        if kinds not in SCALARS and not isinstance(value, str):
            return canonical(value)
        return float(value) if kinds == {"int", "float"} else value
