"""Dates and timestamps in filters: pgstac's comparisons take a property for text, its temporal operators for a time."""

import re
from datetime import date, datetime
from typing import Any

from anabranch.serving.stac.search.bounds import refuse

__all__ = ["compare_times", "is_time"]

# A date is its whole day: `<` is before its start, `>` after its end, and `=` within it.
OPERATORS = {"<": "t_before", ">": "t_after", "=": "t_intersects", "<>": "t_disjoint"}
NEGATED = {"<=": "t_after", ">=": "t_before"}
SYNONYMS = {"lt": "<", "le": "<=", "lte": "<=", "gt": ">", "ge": ">=", "gte": ">=", "eq": "="}
SYNONYMS |= dict.fromkeys(("ne", "neq", "!="), "<>")
DAY = re.compile(r"\d{4}-\d\d-\d\d")
TEXT_LENGTH = 40


def is_time(given: object) -> bool:
    """Whether this is a date or a timestamp; InputError where it is not one of the calendar."""
    if not isinstance(given, dict) or not ("date" in given or "timestamp" in given):
        return False
    kind = "date" if "date" in given else "timestamp"
    text = given[kind]
    try:
        if not isinstance(text, str) or (kind == "date" and not DAY.fullmatch(text)):
            raise ValueError(text)
        _ = date.fromisoformat(text) if kind == "date" else datetime.fromisoformat(text)
    except ValueError:
        refuse(
            f"filter has the {kind} {str(text)[:TEXT_LENGTH]!r}, which is not one",
            "Write DATE('2026-03-21') or TIMESTAMP('2026-03-21T10:15:00Z'), with a day that exists.",
        )
    return True


def compare_times(name: str, args: list[Any]) -> Any:  # JSON
    """A comparison with a date or timestamp, in temporal operators; either side may be the property."""
    name = SYNONYMS.get(name, name)
    if name == "between" and len(args) == 3:
        value, low, high = args
        return _join("and", [compare_times(">=", [value, low]), compare_times("<=", [value, high])])
    if name == "in" and len(args) == 2 and isinstance(args[1], list):
        return _join("or", [compare_times("=", [args[0], each]) for each in args[1]])
    if name in NEGATED:
        return {"op": "not", "args": [{"op": NEGATED[name], "args": args}]}
    if name not in OPERATORS:
        refuse(
            f"filter uses a date or timestamp in {name[:TEXT_LENGTH]!r}",
            "Compare it by =, <>, <, <=, >, >=, BETWEEN or IN, or use a temporal operator, like T_AFTER.",
        )
    return {"op": OPERATORS[name], "args": args}


def _join(name: str, parts: list[Any]) -> Any:  # JSON
    return {"op": name, "args": parts}
