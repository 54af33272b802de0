"""Mistakes in definitions, and hints at what was meant."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from anabranch.workflows.yaml.scalars import shorten

__all__ = [
    "MAX_MISTAKES",
    "Mistake",
    "Path",
    "article",
    "guess",
    "list_errors",
    "nearest",
    "quote",
    "refuse",
    "reword",
    "said_by_model",
    "show",
]

MAX_MISTAKES = 100
Path = tuple[str | int, ...]
_PATTERN, _AFTER = "String should match pattern '", r" after validation(?=, not |$)"
_FORMS = {
    **dict.fromkeys((r"^[^\x00-\x1f]+$", r"^[^\x00-\x1f\x7f]+$"), "text without control characters"),
    r"^[a-z][a-z0-9_-]{0,39}$": "1 to 40 lowercase letters, digits, hyphens or underscores, the first one a letter",
    r"^[a-z][a-z0-9_]{0,39}$": "1 to 40 lowercase letters, digits or underscores, the first one a letter",
    r"^[a-z_][a-z0-9_]{0,62}$": "1 to 63 lowercase letters, digits or underscores, the first one no digit",
    r"^[a-z][a-z0-9_]*=[^\x00-\x1f\x7f]+$": "NAME=VALUE of a reference, without control characters",
    r"^[0-9]{1,18}\.[0-9]{1,9}$": "the `next` of another page",
    r"^[0-9]{1,18}(\.[0-9]{1,9}){2}$": "the `next` of another page",
    **dict.fromkeys((r"^[0-9a-f]{64}$", r"^[0-9a-fA-F]{64}$"), "64 hexadecimal digits"),
    r"^[\x20-\x7e]{1,128}$": "1 to 128 printable ASCII characters",
}
_MAX_LISTED_ERRORS = 10_000  # pydantic lists all of them or none, at a kilobyte and some microseconds each
_MAX_COMPARED_WORDS = 500  # each comparison takes some microseconds


@dataclass(frozen=True)
class Mistake:
    """What is wrong, where in the definition, and what to do.

    The place is a key, or its value, or the character of a text that `offset` counts to.
    """

    path: Path
    message: str
    hint: str = ""
    offset: int | None = None
    of_value: bool = False


def refuse(message: str, hint: str = "", *at: str | int, of_value: bool = True) -> ValueError:
    """What a validator raises; `{key}` in the message becomes the key that is wrong, here or deeper."""
    error = PydanticCustomError("mistake", "{said}", {"said": message, "hint": hint, "of_value": of_value})
    if not at:
        return error
    return ValidationError.from_exception_data("", [{"type": error, "loc": at, "input": None}])


def said_by_model(found: ErrorDetails) -> str:
    """What a pydantic model says of a value."""
    return re.sub("^Input", "it", reword(found["msg"]))


def reword(message: str) -> str:
    """What pydantic says of a value, without the words of its own."""
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if message.startswith(_PATTERN):
        pattern = message.removeprefix(_PATTERN).removesuffix("'")
        return f"Input should be {_FORMS.get(pattern, f'text of the form {pattern}')}"
    # Of a secret, which has no type of its own, the length is said as that of a list.
    message = re.sub(r"^Value (should have at \w+ \d+) items? after validation.*", r"Input \1 characters", message)
    return "There is no such name" if message == "Extra inputs are not permitted" else re.sub(_AFTER, "", message)


def list_errors(error: ValidationError) -> tuple[list[ErrorDetails], str]:
    """The first of what a pydantic model found, without the given values, and what to say of the others, if any."""
    count = error.error_count()
    if count > _MAX_LISTED_ERRORS:
        return [], f"there are {count:,} mistakes, too many to list"
    listed = error.errors(include_url=False, include_context=False, include_input=False)
    # A list of wrong members is too short as well, for pydantic counts the others only.
    lists = {one["loc"][:depth] for one in listed for depth in range(len(one["loc"]))}
    found = [one for one in listed if one["type"] != "too_short" or one["loc"] not in lists]
    more = len(found) - MAX_MISTAKES
    return found[:MAX_MISTAKES], f"there are {more:,} more mistakes" if more > 0 else ""


def guess(word: str, known: Sequence[str]) -> str | None:
    """The closest known word, if one is close."""
    if len(word) > 63:
        return None
    same = [other for other in known if other.lower() == word.lower()]
    return next(iter(same or get_close_matches(word, known[:_MAX_COMPARED_WORDS], 1, 0.6)), None)


def nearest(word: str, known: Sequence[str]) -> str:
    """ "Did you mean …?" with the closest known word, or ""."""
    close = guess(word, known)
    return f"Did you mean {str(close)!r}?" if close else ""


def article(noun: str) -> str:
    """A type with its article."""
    return noun if noun in ("null", "any") else f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"


def quote(word: str) -> str:
    """A word as a message shows it."""
    return repr(shorten(word))


def show(value: object) -> str:
    """A value as a message shows it."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    return quote(value) if isinstance(value, str) else shorten(str(value))
