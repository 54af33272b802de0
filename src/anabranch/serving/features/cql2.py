"""Filters in CQL2 as conditions of SQL: operators of a closed list, columns of the layer, and literals.

cql2's own translation passes every function on to the database, quotes no reserved word, and rounds integers.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime

from anabranch.canonical import Json
from anabranch.geo.boxes import Box
from anabranch.serving.features.layers import GEOMETRY, ID, Layer
from anabranch.serving.features.sql import Part, column_of, compose, join, literal, name_relation
from anabranch.serving.stac.search.bounds import is_finite, refuse
from anabranch.serving.stac.search.cql2 import parse_filter
from anabranch.serving.stac.search.geojson import check_bbox, check_geometry
from anabranch.serving.stac.search.times import is_time

__all__ = ["compile_filter", "find_column"]

JOINED = {"and": " and ", "or": " or "}
COMPARED = {"=": " = ", "<>": " <> ", "<": " < ", "<=": " <= ", ">": " > ", ">=": " >= ", "like": " like "}
TEMPORAL = {"t_after": " > ", "t_before": " < ", "t_equals": " = "}
SPATIAL = ("intersects", "within", "contains", "disjoint", "touches", "crosses", "overlaps", "equals")
OPEN_ENDS = ("..", "")
MIN_SINGLE, MAX_SINGLE = 1.2e-38, 3.4e38
NAMED = 5  # columns that an error names


def compile_filter(text: str, language: str, layer: Layer) -> Part:
    """The condition of a filter; InputError where it is not valid, would cost too much, or names no column."""
    return _Compiler(layer).condition(parse_filter(text, language))


def find_column(layer: Layer, name: object, where: str) -> Part:
    """The column of this name; InputError if there is none."""
    if name == ID or (isinstance(name, str) and layer.find(name)):
        return column_of(str(name))
    known = [column.name for column in layer.columns]
    more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    columns = f"Its columns are {', '.join([ID, *known[:NAMED]])}{more}; see its queryables."
    return refuse(f"{where} names {str(name)[:60]!r}, which layer {layer.name} does not have", columns)


class _Compiler:
    """Translates the parts of a filter; text and JSON were checked for their size."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._operators: Mapping[str, Callable[[str, Sequence[Json]], Part]] = {
            **dict.fromkeys(JOINED, self._join),
            **dict.fromkeys(COMPARED, self._compare),
            **dict.fromkeys(TEMPORAL, self._compare),
            **dict.fromkeys((f"s_{name}" for name in SPATIAL), self._relate),
            **dict.fromkeys(("t_intersects", "t_during"), self._overlap),
            "not": self._negate,
            "isnull": self._is_null,
            "between": self._between,
            "in": self._among,
        }

    def condition(self, given: Json) -> Part:
        """What is true or false of a row."""
        if isinstance(given, bool):
            return literal(given)
        if not isinstance(given, dict):
            refuse("filter has a value where a condition belongs", "Compare it with something.")
        if "property" in given:
            return find_column(self._layer, given["property"], "filter")
        name, args = str(given.get("op")).lower(), given.get("args")
        translate = self._operators.get(name)
        if translate is None or not isinstance(args, list):
            refuse(f"filter uses {name[:40]!r}, which is not supported", f"Use {', '.join(sorted(self._operators))}.")
        return compose("group", part=translate(name, args))

    def _values(self, given: Sequence[Json]) -> list[Part]:
        """What is compared; beside a column of single precision, numbers are rounded as its values are."""
        named = [
            self._layer.find(str(part["property"])) for part in given if isinstance(part, dict) and "property" in part
        ]
        is_single = any(column and column.type == "real" for column in named)
        return [literal(repr(part)) if is_single and _fits_single(part) else self._value(part) for part in given]

    def _value(self, given: Json) -> Part:
        if isinstance(given, dict) and "property" in given:
            return find_column(self._layer, given["property"], "filter")
        if isinstance(given, dict) and is_time(given):
            return literal(str(given.get("date") or given["timestamp"]))
        if isinstance(given, dict) and str(given.get("op")).lower() == "casei":
            (part,) = _expect(given.get("args"), 1, "casei")
            return compose("lower", value=self._value(part))
        if isinstance(given, float) and given.is_integer():
            return literal(int(given))  # cql2 reads all numbers of a text as floats
        if isinstance(given, str | bool) or is_finite(given):
            return literal(given)
        return refuse("filter has a part that is neither a column nor a text, number or time", "Simplify it.")

    def _shape(self, given: Json) -> Part:
        if isinstance(given, dict) and given.get("property") in (GEOMETRY, "geometry"):
            return column_of(GEOMETRY)
        if isinstance(given, dict) and "bbox" in given:
            check_bbox(given["bbox"])
            given = Box.of(given["bbox"]).to_geojson()  # type: ignore[arg-type]  # numbers, as was checked
        else:
            check_geometry(given, "filter")
        return compose("shape", geojson=literal(json.dumps(given)))

    def _join(self, name: str, args: Sequence[Json]) -> Part:
        if not args:
            refuse(f"filter has an empty {name!r}", "Join two conditions or more.")
        return join(JOINED[name], [self.condition(part) for part in args])

    def _negate(self, name: str, args: Sequence[Json]) -> Part:
        (part,) = _expect(args, 1, name)
        return compose("not", condition=self.condition(part))

    def _compare(self, name: str, args: Sequence[Json]) -> Part:
        return join({**COMPARED, **TEMPORAL}[name], self._values(_expect(args, 2, name)))

    def _is_null(self, name: str, args: Sequence[Json]) -> Part:
        (part,) = _expect(args, 1, name)
        is_shape = isinstance(part, dict) and part.get("property") == GEOMETRY
        return compose("is_null", value=self._shape(part) if is_shape else self._value(part))

    def _between(self, name: str, args: Sequence[Json]) -> Part:
        value, low, high = self._values(_expect(args, 3, name))
        return compose("between", value=value, low=low, high=high)

    def _among(self, name: str, args: Sequence[Json]) -> Part:
        value, listed = _expect(args, 2, name)
        if not isinstance(listed, list) or not listed:
            refuse("filter has an `in` without values", "List them in brackets.")
        found, *others = self._values([value, *listed])
        return compose("among", value=found, values=join(", ", others))

    def _relate(self, name: str, args: Sequence[Json]) -> Part:
        left, right = (self._shape(part) for part in _expect(args, 2, name))
        return compose("relate", relation=name_relation(name), left=left, right=right)

    def _overlap(self, name: str, args: Sequence[Json]) -> Part:
        value, other = _expect(args, 2, name)
        ends = other.get("interval") if isinstance(other, dict) else None
        if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
            refuse(f"filter has a {name} without an interval", "Write INTERVAL('2026-01-01','..').")
        bounds = [
            (sign, _time(str(end))) for sign, end in zip((" >= ", " <= "), ends, strict=True) if end not in OPEN_ENDS
        ]
        return join(
            " and ", [join(sign, [self._value(value), bound]) for sign, bound in bounds] or [literal(value=True)]
        )


def _expect(args: object, count: int, name: str) -> Sequence[Json]:
    if not isinstance(args, list) or len(args) != count:
        refuse(f"filter has a {name!r} that needs {count} arguments", "Fix the filter.")
    return args


def _fits_single(given: Json) -> bool:
    """Whether it is a number that single precision rounds, and not to 0 or infinity."""
    if not isinstance(given, float) or given.is_integer() or not is_finite(given):
        return False
    return MIN_SINGLE <= abs(given) <= MAX_SINGLE


def _time(text: str) -> Part:
    try:
        _ = date.fromisoformat(text) if len(text) == len("2026-01-01") else datetime.fromisoformat(text)
    except ValueError:
        refuse(f"filter has the time {text[:40]!r}, which is not one", "Write it like 2026-03-21T10:15:00Z.")
    return literal(text)
