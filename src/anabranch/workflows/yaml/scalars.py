"""What unquoted YAML text means: the core schema of YAML 1.2, without the spellings that readers disagree on."""

import math
import re

from anabranch.canonical import Json

__all__ = ["OddScalar", "resolve", "shorten"]

_WORDS: dict[str, Json] = {"": None, "null": None, "true": True, "false": False}
_ODD_NULLS = {"~", "Null", "NULL"}
_ODD_BOOLEANS = {"yes", "no", "on", "off", "y", "n", "true", "false"}

_NUMBER_STARTS = frozenset("+-.0123456789")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INT_DIGITS = 20  # of -2**63, with its sign: more can't fit, and need not be converted to know it

_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]| +)[0-9]{1,2}:[0-9:.]+(?: *(?:Z|[-+][0-9:]{1,6}))?)?")
# Of YAML 1.1 or 1.2: to base 60, 2, 8 or 16, with leading zeros or underscores, infinite, or none.
_ODD_NUMBER = re.compile(
    r"""[-+]?(?:0x[0-9a-f_]+|0b[01_]+|0o[0-7_]+|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|\.inf
    |(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:e[-+]?[0-9]+)?)|\.nan""",
    re.IGNORECASE | re.VERBOSE,
)
_DECIMAL = "Write the number in decimal, without leading zeros and underscores, or "
_QUOTE = "quote it if it is text."


class OddScalar(ValueError):
    """Unquoted text that could mean two things, or a number that can't be held."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint


def resolve(plain: str) -> Json:
    """The value of unquoted text; OddScalar where another reader could take it otherwise."""
    if plain in _WORDS:
        return _WORDS[plain]
    if plain[0] in _NUMBER_STARTS:
        return _resolve_number(plain)
    if plain in _ODD_NULLS:
        raise _odd(plain, "null", "Write null or nothing, or ")
    if len(plain) <= 5 and plain.lower() in _ODD_BOOLEANS:
        raise _odd(plain, "a boolean", "Write true or false, or ")
    return plain


def shorten(text: str) -> str:
    """A text short enough for a message."""
    return text if len(text) <= 40 else f"{text[:37]}..."


def _resolve_number(plain: str) -> Json:
    if _INT.fullmatch(plain):
        return _read_int(plain)
    if _FLOAT.fullmatch(plain):
        return _read_float(plain)
    if _DATE.fullmatch(plain):
        raise _odd(plain, "a date", "")
    if _ODD_NUMBER.fullmatch(plain):
        raise _odd(plain, "a number", _DECIMAL)
    return plain


def _read_int(plain: str) -> int:
    if len(plain) <= _INT_DIGITS and -(2**63) <= int(plain) < 2**63:
        return int(plain)
    raise OddScalar(f"{shorten(plain)} does not fit into 64 bits", f"Write a smaller number, or {_QUOTE}")


def _read_float(plain: str) -> float:
    number = float(plain)
    if math.isinf(number):
        raise OddScalar(f"{shorten(plain)} is too large for a number", f"Write a smaller number, or {_QUOTE}")
    return number


def _odd(plain: str, meaning: str, remedy: str) -> OddScalar:
    hint = f"{remedy}{_QUOTE}"
    return OddScalar(f"{shorten(plain)} may be meant as {meaning} or as text", hint[0].upper() + hint[1:])
