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

_TIME = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]*)?)?(?: *(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?"
_QUOTE = "quote it if it is text."
_ODD_NUMBERS = tuple(
    (re.compile(pattern), meaning, remedy)
    for pattern, meaning, remedy in (
        (
            rf"[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}(?:(?:[Tt]| +){_TIME})?",
            "a date",
            "",
        ),
        (
            r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?",
            "a number to base 60",
            "Write the number in decimal, or ",
        ),
        (
            r"[-+]?0(?:[oO][0-7_]+|[xX][0-9A-Fa-f_]+|[bB][01_]+)",
            "an octal, hexadecimal or binary number",
            "Write the number in decimal, or ",
        ),
        (
            r"[-+]?0[0-9_]+(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?",
            "an octal or a decimal number",
            "Leave out the leading zero, or ",
        ),
        (
            r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?",
            "a number",
            "Leave out the underscores, or ",
        ),
        (r"(?i:[-+]?\.inf|\.nan)", "infinity or no number", ""),
    )
)


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
    for pattern, meaning, remedy in _ODD_NUMBERS:
        if pattern.fullmatch(plain):
            raise _odd(plain, meaning, remedy)
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
