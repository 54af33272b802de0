"""Dates and timestamps in filters: pgstac compares properties as text; only temporal operators parse them as times."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from anabranch.serving.stac.search.bounds import refuse

__all__ = [
    "check_order",
    "compare_times",
    "filter_times",
    "is_comparison",
    "is_time",
    "is_time_property",
    "read_texts",
]

# A date is its whole day: `<` is before its start, `>` after its end, and `=` within it.
OPERATORS = {"<": "t_before", ">": "t_after", "=": "t_intersects", "<>": "t_disjoint"}
NEGATED = {"<=": "t_after", ">=": "t_before"}
SYNONYMS = {"lt": "<", "le": "<=", "lte": "<=", "gt": ">", "ge": ">=", "gte": ">=", "eq": "="}
SYNONYMS |= dict.fromkeys(("ne", "neq", "!="), "<>")
PROPERTIES = frozenset({"created", "datetime", "end_datetime", "expires", "published", "start_datetime", "updated"})
COMPARISONS = frozenset({*OPERATORS, *NEGATED, *SYNONYMS, "between", "in"})
QUERY_OPERATORS = frozenset({*SYNONYMS, "in"})
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


def is_comparison(name: str) -> bool:
    """Whether an operator compares values."""
    return name in COMPARISONS


def is_time_property(given: object) -> bool:
    """Whether this is a property whose values are times."""
    name = given.get("property") if isinstance(given, dict) else None
    return isinstance(name, str) and name.removeprefix("properties.") in PROPERTIES


def check_order(name: str, args: object) -> None:
    """Refuse the order of two properties that are not both times: pgstac would compare them as text."""
    parts = args if isinstance(args, list) else []
    named = [part["property"] for part in parts if isinstance(part, dict) and "property" in part]
    is_order = SYNONYMS.get(name, name) not in ("=", "<>", "in")
    if is_order and len(named) > 1 and not all(is_time_property({"property": each}) for each in named):
        both = " and ".join(str(each)[:TEXT_LENGTH] for each in named[:2])
        refuse(
            f"filter asks for the order of {both}, which is not known",
            f"Compare a property with a value, or two times of {', '.join(sorted(PROPERTIES))}.",
        )


def read_texts(args: object) -> object:
    """The arguments of a comparison; beside a time property, text is a date or a timestamp."""
    if not isinstance(args, list) or not any(map(is_time_property, args)):
        return args
    return [[_read_text(each) for each in part] if isinstance(part, list) else _read_text(part) for part in args]


def _read_text(given: object) -> object:
    if not isinstance(given, str):
        return given
    return {"date": given} if DAY.fullmatch(given) else {"timestamp": given}


def filter_times(query: Mapping[str, Any]) -> Any:  # JSON
    """A `query` that compares times, as a filter, since pgstac compares text in it; None for any other."""
    if not any(is_time_property({"property": name}) for name in query):
        return None
    comparisons = [(name, *one) for name, wanted in query.items() for one in wanted.items()]
    if other := next((operator for _, operator, _ in comparisons if operator not in QUERY_OPERATORS), None):
        refuse(f"query compares a time and uses {other}", "Send a filter, in which LIKE does the same.")
    conditions = [
        {"op": SYNONYMS.get(operator, operator), "args": [{"property": name}, value]}
        for name, operator, value in comparisons
    ]
    return {"op": "and", "args": conditions}


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
