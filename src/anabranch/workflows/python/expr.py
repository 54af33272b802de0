"""The functions and operators of expressions that Python has no spelling for."""

import dataclasses
from typing import Any

from anabranch.workflows.expressions.syntax import Call, Comparison, Expression, Lookup, Reference
from anabranch.workflows.python.places import mistake_here
from anabranch.workflows.python.recorder import recording
from anabranch.workflows.python.symbols import Symbol, expression_of, item

__all__ = [
    "at",
    "basename",
    "contains",
    "default",
    "ends_with",
    "extension",
    "index",
    "integer",
    "is_in",
    "is_not_null",
    "is_null",
    "item",
    "job_ending",
    "job_id",
    "join",
    "length",
    "lower",
    "max",
    "min",
    "not_in",
    "optional",
    "range",
    "replace",
    "split",
    "starts_with",
    "stem",
    "trim",
    "upper",
]

# Values are of any type here: they are JSON, or symbols of any JSON.
index: Any = Symbol(Lookup(Reference("index")), None)
job_ending: Any = Symbol(Lookup(Reference("job", ("ending",))), None)
job_id: Any = Symbol(Lookup(Reference("job", ("id",))), None)


def default(value: Any, otherwise: Any) -> Any:
    """The value; or the other, where it is null or missing."""
    expression = expression_of(value)
    if isinstance(expression, Lookup):  # what may be missing there needs no mark
        expression = dataclasses.replace(
            expression, reference=dataclasses.replace(expression.reference, optional=False)
        )
    return _symbol(Call("default", (expression, expression_of(otherwise))))


def optional(value: Any) -> Any:
    """The value; null, where it is missing."""
    expression = expression_of(value)
    if not isinstance(expression, Lookup):
        raise mistake_here("only inputs, items and results can be optional", "Write expr.default(x, None).")
    return _symbol(dataclasses.replace(expression, reference=dataclasses.replace(expression.reference, optional=True)))


def length(value: Any) -> Any:
    """How many characters a string has, or how many items an array or an object."""
    return _call("length", value)


def join(values: Any, separator: str) -> Any:
    """The items as one text, with the separator between them."""
    return _call("join", values, separator)


def lower(text: Any) -> Any:
    """The text in small letters."""
    return _call("lower", text)


def upper(text: Any) -> Any:
    """The text in capital letters."""
    return _call("upper", text)


def basename(path: Any) -> Any:
    """The last segment of a path, or of a URL without its query and fragment."""
    return _call("basename", path)


def stem(path: Any) -> Any:
    """The last segment of a path without its extension."""
    return _call("stem", path)


def extension(path: Any) -> Any:
    """The extension of a path with its dot; empty, where it has none."""
    return _call("extension", path)


def split(text: Any, separator: str) -> Any:
    """The parts of a text between separators, as an array."""
    return _call("split", text, separator)


def replace(text: Any, old: str, new: Any) -> Any:
    """The text with another in place of each that it has."""
    return _call("replace", text, old, new)


def trim(text: Any) -> Any:
    """The text without blanks at its ends."""
    return _call("trim", text)


def integer(value: Any) -> Any:
    """The whole number that a text spells, or that a number is."""
    return _call("integer", value)


def min(one: Any, other: Any) -> Any:  # noqa: A001  # as expressions have it
    """The smaller of two numbers."""
    return _call("min", one, other)


def max(one: Any, other: Any) -> Any:  # noqa: A001  # as expressions have it
    """The larger of two numbers."""
    return _call("max", one, other)


def range(*ends: Any) -> Any:  # noqa: A001  # as expressions have it
    """The whole numbers from 0 to before an end; or from a start to before it."""
    if len(ends) not in (1, 2):
        raise mistake_here("range takes an end, or a start and an end")
    return _call("range", *ends)


def at(array: Any, position: Any) -> Any:
    """The item of an array at a position, from 0; -1 is the last."""
    return _call("at", array, position)


def is_in(value: Any, array: Any) -> Any:
    """Whether an item of the array equals the value."""
    return _compare("in", value, array)


def not_in(value: Any, array: Any) -> Any:
    """Whether no item of the array equals the value."""
    return _compare("not_in", value, array)


def contains(whole: Any, part: Any) -> Any:
    """Whether an array has the item, or a string the text."""
    return _compare("contains", whole, part)


def starts_with(text: Any, start: Any) -> Any:
    """Whether a string starts with another."""
    return _compare("starts_with", text, start)


def ends_with(text: Any, end: Any) -> Any:
    """Whether a string ends with another."""
    return _compare("ends_with", text, end)


def is_null(value: Any) -> Any:
    """Whether it is null."""
    return _symbol(Comparison("is_null", expression_of(value)))


def is_not_null(value: Any) -> Any:
    """Whether it is not null."""
    return _symbol(Comparison("is_not_null", expression_of(value)))


def _call(function: str, *arguments: Any) -> Symbol:
    return _symbol(Call(function, tuple(map(expression_of, arguments))))


def _compare(operator: str, left: Any, right: Any) -> Symbol:
    return _symbol(Comparison(operator, expression_of(left), expression_of(right)))


def _symbol(expression: Expression) -> Symbol:
    return Symbol(expression, recording())
