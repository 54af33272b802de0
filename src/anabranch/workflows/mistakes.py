"""A mistake in a definition: what, where, and what may have been meant."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from anabranch.workflows.yaml.scalars import shorten

__all__ = ["MAX_MISTAKES", "Mistake", "Path", "article", "guess", "nearest", "quote", "refuse", "show"]

MAX_MISTAKES = 100
Path = tuple[str | int, ...]
_MOST_GUESSES = 500  # words that one is compared with: each takes some microseconds


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


def guess(word: str, known: Sequence[str]) -> str | None:
    """What may have been meant."""
    if len(word) > 63:
        return None
    same = [other for other in known if other.lower() == word.lower()]
    return next(iter(same or get_close_matches(word, known[:_MOST_GUESSES], 1, 0.6)), None)


def nearest(word: str, known: Sequence[str]) -> str:
    """A hint at what may have been meant."""
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
