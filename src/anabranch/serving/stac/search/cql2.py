"""Filters in CQL2: text is scanned before cql2 parses it, and text and JSON have the same limits.

cql2 0.6 holds the GIL, overflows the stack, and reads each bracket twice where it is not closed at once: a text of 20
brackets takes seconds. Its `validate` compiles a schema each time, which takes 84 MB, and more than 3 GB for
`a=a=a=a=a`; pgstac finds the same errors.
"""

import re
from typing import Any

from anabranch.canonical import Json, decode
from anabranch.geo.boxes import Box
from anabranch.serving.stac.search.bounds import BOUNDS, refuse
from anabranch.serving.stac.search.geojson import check_bbox, check_geometry
from anabranch.serving.stac.search.times import (
    check_order,
    compare_times,
    is_comparison,
    is_time,
    is_time_property,
    read_texts,
)

__all__ = ["SHOWN_ONLY", "check_filter", "check_property", "check_text", "check_values", "parse_filter", "spell_out"]

# A sign before a number, as in coordinates, is not an operator: the parser handles any number of them.
TOKEN = re.compile(r"""'[^']*'|"[^"]*"|[^\W\d]\w*|(?<=[\s(,])[+-]?\d[\d.]*|[<>=!|]+|\s+|.""", re.DOTALL)
QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
LONG_INTEGER = re.compile(r"(?<![\w.])[0-9]{16,300}(?![\w.])")
WORDS = frozenset({"and", "or", "not", "in", "between", "like", "is", "div"})
SIGNS = frozenset("+-*/%^<>=!|")
# They compute a value, but a filter must be a condition.
VALUES = frozenset({"+", "-", "*", "/", "%", "^", "div", "casei", "accenti", "upper", "lower"})
TEMPORAL = ("t_", "anyinteracts")
DATETIME = ("datetime", "properties.datetime")
# For an item that has only `datetime`, pgstac uses it as start and end.
ITEM_INTERVAL = {"interval": [{"property": "start_datetime"}, {"property": "end_datetime"}]}
SHOWN_ONLY = "proj:epsg"  # added to items for clients that know only this
EXAMPLE = "Write a comparison, like name = 'x', or several joined by `and` and `or`; the queryables list the names."


def parse_filter(text: str, language: str | None) -> Json:
    """The filter as CQL2 JSON; InputError where it is not valid, or would cost too much."""
    if language == "cql2-text":
        check_text(text)
        _check_integers(text)
        parsed = _parse(text)
    else:
        try:
            parsed = decode(text)
        except ValueError as error:
            refuse(f"filter is not JSON: {error}", "Send CQL2 JSON, or set filter-lang=cql2-text.")
    check_filter(parsed)
    return parsed


def check_text(text: str) -> None:
    """Refuse CQL2 text that is too long, too deep, or would take its parser too many steps."""
    if len(text) > BOUNDS.text_length:
        refuse(f"filter has more than {BOUNDS.text_length:,} characters", "Send it as CQL2 JSON.")
    brackets: list[bool] = []  # whether the parser reads its content twice
    steps = operators = 0
    before = ""
    for part in TOKEN.findall(text):
        calls = before not in WORDS and (before[:1].isalpha() or before[:1] == "_")
        if part == "(":
            brackets.append(not calls)
            operators += calls
        elif part == ")" and brackets:
            brackets.pop()
        operators += part.lower() in WORDS or (part[0] in SIGNS and part[-1] in SIGNS)
        steps += len(part) << sum(brackets)
        _check_counts(len(brackets), operators, steps)
        before = part.lower()
    if brackets or before in ("'", '"'):
        refuse("filter has a bracket or a quote that is not closed", EXAMPLE)


def _check_integers(text: str) -> None:
    """Refuse integers that floating point would round, which is what cql2 reads all numbers of a text as."""
    for number in LONG_INTEGER.findall(QUOTED.sub("''", text)):
        if int(float(number)) != int(number):
            refuse(f"filter has the integer {number}, which is not exact in CQL2 text", "Send the filter as CQL2 JSON.")


def check_filter(given: object) -> None:
    """Refuse CQL2 JSON that is not a condition, or has too many parts."""
    if not isinstance(given, dict) or not isinstance(given.get("op"), str) or given["op"].lower() in VALUES:
        refuse("filter is not a condition", EXAMPLE)
    check_values(given, "filter")


def spell_out(given: Any, *, temporal: bool = False) -> Any:  # JSON
    """A filter in pgstac's terms, which knows no boxes, and takes `datetime` for an item's start.

    A box becomes its area, `datetime` in a temporal operator the item's whole interval, and a comparison of times a
    temporal operator.
    """
    if isinstance(given, list):
        return [spell_out(part, temporal=temporal) for part in given]
    if not isinstance(given, dict):
        return given
    if given.keys() == {"bbox"}:
        check_bbox(given["bbox"])
        return Box.of(given["bbox"]).to_geojson()
    if temporal and given.get("property") in DATETIME:
        return ITEM_INTERVAL
    operator = str(given.get("op")).lower()
    within = operator.startswith(TEMPORAL)
    if not within and is_comparison(operator):
        check_order(operator, given.get("args"))
        given = {**given, "args": read_texts(given.get("args"))}
    if _has_time(given.get("args")) and not within:
        return compare_times(operator, given["args"])
    return {name: spell_out(part, temporal=within) for name, part in given.items()}


def _has_time(args: object) -> bool:
    parts = args if isinstance(args, list) else []
    listed = [each for part in parts if isinstance(part, list) for each in part]
    return sum(map(is_time, (*parts, *listed))) > 0 or (len(parts) > 1 and all(map(is_time_property, parts)))


def check_values(given: object, where: str) -> None:
    """Refuse JSON that has too many parts, or a part that is too long."""
    left: list[tuple[object, int]] = [(given, 1)]
    operators = values = 0
    while left:
        value, depth = left.pop()
        if isinstance(value, dict) and "type" in value and not isinstance(value.get("op"), str):
            check_geometry(value, where)
            continue
        if isinstance(value, dict):
            operators += "op" in value
            check_property(value.get("property"), where)
        parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        values += len(parts)
        if values > BOUNDS.values + 2 * BOUNDS.operators:
            refuse(f"{where} has more than {BOUNDS.values:,} values")
        if isinstance(value, str) and len(value) > BOUNDS.value_length:
            refuse(f"{where} has a text of more than {BOUNDS.value_length:,} characters", "Shorten it.")
        _check_counts(depth, operators, 0)
        left += [(part, depth + (isinstance(value, dict) or isinstance(part, list))) for part in parts]


def check_property(name: object, where: str) -> None:
    """Refuse a property that items show, but that the catalog does not have."""
    if isinstance(name, str) and name.removeprefix("properties.") == SHOWN_ONLY:
        refuse(f"{where} can't use {SHOWN_ONLY}", "Use proj:code, like \"proj:code\" = 'EPSG:4326'.")


def _check_counts(depth: int, operators: int, steps: int) -> None:
    if depth > BOUNDS.depth:
        refuse(f"filter is nested deeper than {BOUNDS.depth} levels", "Make it flatter.")
    if operators > BOUNDS.operators:
        refuse(f"filter has more than {BOUNDS.operators} operators")
    if steps > BOUNDS.text_steps:
        refuse("filter has too much inside its brackets", "Use fewer brackets, or send it as CQL2 JSON.")


def _quote_names(text: str) -> str:
    """The text with names like `_order` in quotes: CQL2 allows them without, and the parser does not."""
    parts, before = list[str](), ""
    for part in TOKEN.findall(text):
        parts.append(f'"{part}"' if part[0] == "_" and before not in (":", ".") else part)
        before = part
    return "".join(parts)


def _parse(text: str) -> Json:
    import cql2

    try:
        parsed: Json = cql2.parse_text(_quote_names(text)).to_json()
    except Exception as error:  # noqa: BLE001  # it raises a bare Exception
        refuse(f"filter is not CQL2 text: {' '.join(str(error).split())[:200]}", EXAMPLE)
    return parsed
