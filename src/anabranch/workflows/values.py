"""The values of a workflow file that need more than a type: how each is read, and its JSON Schema."""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from anabranch.canonical import Json
from anabranch.workflows.mistakes import nearest, quote, refuse, show
from anabranch.workflows.rules import MAX_WHOLE, Seconds, Whole


class Fold(StrEnum):
    """How a fan-in makes one value of many."""

    COLLECT = "collect"
    CONCAT = "concat"
    SUM = "sum"
    FIRST = "first"
    LAST = "last"


ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")
ID_PATTERN = f"^{ID.pattern}$"
ID_HINT = "Begin with a letter or _, go on with letters, digits, _, . and -; at most 63."
MAX_KEY = 255
OUTPUT: Json = {"size": "{{ nodes.check.output.size }}"}

NAMES_SCHEMA: dict[str, list[Json]] = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "uniqueItems": True}]
}
CONDITION_SCHEMA: Mapping[str, Json] = {"type": ["string", "number", "boolean", "null"]}
TOLERANCE_SCHEMA: Mapping[str, Json] = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": MAX_WHOLE},
        {"type": "string", "pattern": r"^(?:100|[0-9]{1,2})(?:\.[0-9]*)? *%$"},
    ]
}
FOLDING_SCHEMA: Mapping[str, Json] = {
    "anyOf": [
        {"enum": [*map(str, Fold)]},
        {
            "type": "object",
            "propertyNames": {"not": {"enum": ["count", "failed"]}},
            "additionalProperties": {
                "type": "object",
                "propertyNames": {"enum": [*map(str, Fold)]},
                "additionalProperties": {"type": "string", "minLength": 1},
                "minProperties": 1,
                "maxProperties": 1,
            },
        },
    ]
}
DURATION_SCHEMA: Mapping[str, Json] = {
    "anyOf": [dict(Seconds(zero=True).schema), {"type": "string", "pattern": r"\{\{"}]
}
TIME_SCHEMA: Mapping[str, Json] = {
    "type": "string",
    "pattern": r"\{\{|[T ].*(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)$",
}


def read_any(value: Any) -> Any:
    """Any value of the right type: what is wrong with an expression is found when the whole workflow is known."""
    return value


def read_text(value: Any) -> Any:
    """A text that is not empty; pydantic refuses what is no text."""
    if value == "":
        raise refuse("{key} is empty")
    return value


def read_names(value: Any) -> tuple[str, ...]:
    """The nodes that a key names: one, or a list."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        raise refuse(f"{{key}} is the name of a node or a list of names, not {show(value)}")
    for number, name in enumerate(value):
        if not isinstance(name, str):
            raise refuse(f"a node's name is text, not {show(name)}", "", number)
        if name in value[:number]:
            raise refuse(f"{quote(name)} is a duplicate", "Keep one of them.", number)
    return tuple(value)


def read_dependencies(value: Any) -> Any:
    """What a node waits for: nodes of which all must be done, or all_of and any_of."""
    return {"all_of": value} if isinstance(value, str | list) or not isinstance(value, dict) else value


def read_limit(value: Any) -> str:
    """A key that tasks share, or an expression that gives it."""
    if not isinstance(value, str):
        raise refuse(f"{{key}} is text, not {show(value)}", "" if isinstance(value, list | dict) else "Quote it.")
    if len(read_text(value)) > MAX_KEY and "{{" not in value:
        raise refuse(f"{{key}} has at most {MAX_KEY} characters, and this has {len(value):,}")
    return value


def read_workflow_id(value: Any) -> Any:
    """The id of a workflow; pydantic refuses what is no text."""
    if not isinstance(value, str) or ID.fullmatch(read_text(value)):
        return value
    if "{{" in value:
        hint = "Name one; a conditional can choose between nodes that run different ones."
        raise refuse("which workflow runs must be known when this one is loaded", hint)
    raise refuse(f"{quote(value)} can't be a workflow's id", ID_HINT)


def read_duration(value: Any) -> Any:
    """How long something lasts, in seconds; or an expression that gives it."""
    if isinstance(value, str) and "{{" not in value:
        is_number = value.strip().replace(".", "", 1).isdecimal()
        hint = "Leave out the quotes." if is_number else 'Write an expression: "{{ inputs.seconds }}".'
        raise refuse(f"{{key}} is a number of seconds, not {show(value)}", hint)
    if not isinstance(value, str):
        Seconds(zero=True).read(value)
    return value


def read_time(value: Any) -> str:
    """A time with its zone, or an expression that gives it."""
    if isinstance(value, str) and "{{" in value:
        return value
    try:
        read = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        wrong = f"is a time, not {show(value)}" if read is None else f"has no time zone: {show(value)}"
        raise refuse(f"{{key}} {wrong}", 'Write it like "2030-01-31T12:00:00Z".')
    return str(value)


def read_tolerance(value: Any) -> dict[str, Json]:
    """How many tasks may fail: a number, or a share as text."""
    if isinstance(value, str) and value.endswith("%"):
        share = value[:-1].strip()
        if share.isascii() and share.replace(".", "", 1).isdecimal():
            if float(share) <= 100:
                return {"percent": float(share)}
            raise refuse(f"{{key}} is a share of at most 100 %, not {show(value)}")
    elif not Whole(0).find_mistake(value):
        return {"count": value}
    raise refuse(f"{{key}} is a number of tasks or a share like 5 %, not {show(value)}")


def read_folding(value: Any) -> list[Json]:
    """What a fan-in makes: one fold of the results, or several by name, each of a field, in the order of names."""
    if isinstance(value, dict):
        return [_named_fold(name, part) for name, part in sorted(value.items())]
    if value not in list(Fold):
        hint = nearest(value, list(Fold)) if isinstance(value, str) else ""
        raise refuse(f"{{key}} is one of {', '.join(Fold)}, not {show(value)}", hint)
    return [{"name": "items" if value in ("collect", "concat") else value, "fold": value}]


def _named_fold(name: str, value: Any) -> Json:
    if name in ("count", "failed", "skipped"):
        raise refuse(f"{name!r} can't be folded into: every fan_in has it", "Use another name.", name, of_value=False)
    if not isinstance(value, dict) or len(value) != 1:
        raise refuse(f"{{key}} is a fold and its field, like {{sum: size}}, not {show(value)}", _FOLD_HINT, name)
    ((fold, part),) = value.items()
    if fold not in list(Fold):
        raise refuse(
            f"there is no fold {quote(fold)}", nearest(fold, list(Fold)) or _FOLD_HINT, name, fold, of_value=False
        )
    if not isinstance(part, str) or not part:
        raise refuse(f"{{key}} is a field of the results, not {show(part)}", "", name, fold)
    return {"name": name, "fold": fold, "field": part}


_FOLD_HINT = f"Folds: {', '.join(Fold)}."
