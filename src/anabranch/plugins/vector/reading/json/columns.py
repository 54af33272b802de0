"""The columns of JSON's properties: the type of each holds all of its values exactly, and is text where no other does.

GDAL rounds and converts some values. Columns that have such are read here, in a second pass over the file.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import cached_property
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch.plugins.vector.models import Notes
from anabranch.plugins.vector.reading.csv.types import DAY, TIME, ZONE
from anabranch.plugins.vector.reading.exact.columns import TakeRows
from anabranch.plugins.vector.reading.exact.decimals import WrittenNumber

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Rows

__all__ = ["Feature", "OwnColumns", "PropertyFacts"]

Feature = Mapping[str, Any]  # any JSON
EXACT, LONG = 2**53, 2**63
_NULL = type(None)
_JSON = pa.json_(pa.string())
# GDAL has milliseconds, and zones of quarters of hours.
_ROUNDED = re.compile(r"\.[0-9]{4,}|[+-](?!(0[0-9]|1[0-4]):?(00|15|30|45)$)[0-9]{2}:?[0-9]{2}$")


@dataclass(frozen=True)
class _TimeKind:
    """A type of times: what its texts look like, and how they are parsed."""

    type: pa.DataType
    pattern: re.Pattern[str]
    parse: Callable[[str], object]

    def holds(self, text: str) -> bool:
        """Whether a text is such a time: a 31st of February is none."""
        try:
            return bool(self.pattern.fullmatch(text) and self.parse(text))
        except ValueError:
            return False


_TIMES = (
    _TimeKind(pa.date32(), re.compile(DAY), date.fromisoformat),
    _TimeKind(pa.time64("us"), re.compile(TIME), time.fromisoformat),
    _TimeKind(pa.timestamp("us"), re.compile(f"{DAY}[T ]{TIME}"), datetime.fromisoformat),
    _TimeKind(pa.timestamp("us", "UTC"), re.compile(f"{DAY}[T ]{TIME}{ZONE}"), datetime.fromisoformat),
)
_PARSERS = {kind.type: kind.parse for kind in _TIMES}


def find_properties(feature: Feature) -> dict[str, Any]:  # any JSON
    """The properties of a feature, if it has some."""
    properties = feature.get("properties")
    return properties if isinstance(properties, dict) else {}


class PropertyFacts:
    """What the values of each property are, and the ids of features."""

    def __init__(self) -> None:
        self.types: set[tuple[str, type]] = set()
        self.may_have_nuls = False  # in texts, which GDAL would cut there
        self._inexact: set[str] = set()  # properties with whole numbers that floating point can't hold
        self._long: set[str] = set()  # or that GDAL does not read as 64 bits
        self._times: dict[str, _TimeKind | None] = {}
        self._rounded: set[str] = set()  # properties with times that GDAL would change
        self._ids: set[type] = set()
        self._last_id = -1
        self._ids_rise = self._ids_fit = self._ids_repeated = True
        self._id_lacks = False  # a feature with an id has no property `id`, and GDAL would fill it in

    @property
    def names(self) -> set[str]:
        """The names of the properties."""
        return {name for name, _ in self.types}

    @property
    def id_name(self) -> str | None:
        """The name of the column of ids, if features have some, and a property `id` does not repeat them."""
        if self._ids <= {_NULL} or self._ids_repeated:
            return None
        names = chain(("id", "feature_id"), (f"feature_id_{number}" for number in count(2)))
        return next(name for name in names if name not in self._kinds)

    @property
    def id_type(self) -> pa.DataType:
        """The type of that column."""
        return pa.int64() if self._ids <= {int, _NULL} and self._ids_fit else pa.string()

    @property
    def ids_rise(self) -> bool:
        """Whether each feature has a whole number as its id, and they rise: so GDAL numbers its rows by them."""
        return self._ids == {int} and self._ids_fit and self._ids_rise

    @property
    def ids_are_given(self) -> bool:
        """Whether GDAL has a column of the ids, as it has of texts where no property has its name."""
        return self._ids <= {str, _NULL} and "id" not in self._kinds and not self.may_have_nuls

    def add(self, feature: Feature) -> None:
        """Look at a feature."""
        properties = find_properties(feature)
        self._add_id(feature.get("id"), properties.get("id"))
        types, times = self.types, self._times
        for name, value in properties.items():
            kind = value.__class__
            types.add((name, kind))
            if kind is str:
                if times.get(name, _TIMES) is not None:
                    self._add_text(name, value)
            elif kind is int and not -EXACT < value < EXACT:
                self._add_long(name, value)

    def find_type(self, name: str) -> pa.DataType:
        """The narrowest type that holds every value of a property exactly."""
        kinds = self._kinds[name]
        if kinds & {dict, list} and str not in kinds:
            return _JSON
        if kinds == {bool}:
            return pa.bool_()
        if kinds == {int} and name not in self._long:
            return pa.int64()
        if float in kinds and kinds <= {int, float} and name not in self._inexact:
            return pa.float64()
        times = self._times.get(name) if kinds == {str} else None
        return times.type if times else pa.string()

    def is_exact(self, field: pa.Field) -> bool:
        """Whether GDAL's column of a property has its values as they are."""
        if field.name not in self._kinds:  # it is none of a property
            return True
        if field.name == "id" and self._id_lacks:
            return False
        given, found = field.type, self.find_type(field.name)
        if found == pa.string():
            return not self.may_have_nuls and given == found and self._kinds[field.name] <= {str}
        if pa.types.is_temporal(found):
            is_alike = pa.types.is_time(given) if pa.types.is_time(found) else given.id == found.id
            has_zone = [getattr(kind, "tz", None) is not None for kind in (given, found)]
            return is_alike and len(set(has_zone)) == 1 and field.name not in self._rounded
        return found != _JSON and (given == found or (given, found) == (pa.int32(), pa.int64()))

    @cached_property
    def _kinds(self) -> dict[str, set[type]]:
        found: dict[str, set[type]] = {}
        for name, kind in self.types:
            found.setdefault(name, set()).update({kind} - {_NULL})
        return found

    def _add_id(self, given: object, other: object) -> None:
        kind = given.__class__
        self._ids.add(kind)
        self._ids_repeated = self._ids_repeated and given == other and kind is other.__class__
        self._id_lacks = self._id_lacks or (given is not None and other is None)
        if isinstance(given, int):
            self._ids_rise = self._ids_rise and given > self._last_id
            self._ids_fit = self._ids_fit and -LONG <= given < LONG
            self._last_id = given

    def _add_text(self, name: str, text: str) -> None:
        kind = next((each for each in _TIMES if each.holds(text)), None)
        self._times[name] = kind if self._times.get(name, kind) is kind else None
        if kind and _ROUNDED.search(text):
            self._rounded.add(name)

    def _add_long(self, name: str, value: int) -> None:
        if not -LONG <= value < LONG:
            self._long.add(name)
        if abs(value) > 10**300 or int(float(value)) != value:
            self._inexact.add(name)


@dataclass(frozen=True)
class OwnColumns:
    """The columns of a layer that are not read by GDAL, from features in the order in which it reads them."""

    facts: PropertyFacts
    read: Callable[[], Iterator[Feature]]
    has_ids: bool  # GDAL has the ids of features as they are

    def find_types(self, given: Sequence[pa.Field]) -> dict[str, pa.DataType]:
        """The types of these columns by their names, of those and beside those that GDAL gives."""
        found = {field.name: self.facts.find_type(field.name) for field in given if not self.facts.is_exact(field)}
        name = self.facts.id_name
        return found if name is None or self.has_ids else {name: self.facts.id_type, **found}

    def open(self, types: Mapping[str, pa.DataType], changed: Notes) -> TakeRows:
        """What returns the values of the next rows."""
        features = self.read()
        ids = self.facts.id_name

        def take(batch: pa.RecordBatch, rows: "Rows") -> dict[str, pa.Array]:
            taken = list(islice(features, len(rows)))
            properties = [find_properties(each) for each in taken]
            columns = {name: [each.get(name) for each in properties] for name in types}
            if ids and ids in types:
                columns[ids] = [each.get("id") for each in taken]
            return {name: _convert(columns[name], kind) for name, kind in types.items()}

        return take


def _convert(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == _JSON:
        texts = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
        return pa.ExtensionArray.from_storage(kind, pa.array(texts, pa.string()))
    if kind == pa.string():
        return pa.array([value if value is None else _as_text(value) for value in values], kind)
    if parse := _PARSERS.get(kind):
        return pa.array([value if value is None else parse(value) for value in values], kind)
    if kind == pa.float64():
        return pa.array([value if value is None else float(value) for value in values], kind)
    return pa.array(values, kind)


def _as_text(value: object) -> str:
    if isinstance(value, WrittenNumber):
        return value.text
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
