"""Decimals of texts without types: which of them a number of floating point has as they are written."""

import json
import re
from decimal import Decimal

__all__ = ["MANY_DIGITS", "WrittenNumber", "has_inexact", "is_exact", "parse_exactly"]

MANY_DIGITS = r"[1-9](\.?[0-9]){15,}"  # floating point holds any number of 15
_MIN_CHARS = 17  # of such a number, with its point
_LONG_MEMBER = re.compile(
    rb":[ \t\r\n]*(-?(?=[0-9.]{17})[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))",
)


class WrittenNumber(float):
    """A number that floating point would round, with its text."""

    def __new__(cls, text: str) -> "WrittenNumber":
        """The rounded number that keeps its text."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


def is_exact(text: str) -> bool:
    """Whether a number of floating point is written so: as short as possible, or with 16 or 17 digits."""
    number = float(text)
    if repr(number) == text:
        return True
    exact = Decimal(text)
    return any(Decimal(written) == exact for written in (repr(number), f"{number:.15e}", f"{number:.16e}"))


def has_inexact(text: bytes) -> bool:
    """Whether a member of an object in JSON may be a number that floating point would round."""
    return not all(is_exact(found[1].decode()) for found in _LONG_MEMBER.finditer(text))


def parse_exactly(text: bytes) -> object:
    """A value of valid JSON, in which each number that floating point would round has its text."""
    return json.loads(text, parse_float=_read)


def _read(text: str) -> float:
    return float(text) if len(text) < _MIN_CHARS or is_exact(text) else WrittenNumber(text)
