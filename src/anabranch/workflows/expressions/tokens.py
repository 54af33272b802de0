"""The words of an expression, read from left to right in one pass."""

import math
import re
from typing import NamedTuple

from anabranch.workflows.expressions.syntax import MAX_SOURCE, ExpressionError

__all__ = ["Token", "read_number", "read_text", "tokenize"]

# Every repetition is possessive: there is nothing to go back to, so the time is linear in the text.
_TOKEN = re.compile(
    r"""[ \t\r\n]*+ (?:
        (?P<word> [A-Za-z_][A-Za-z0-9_]*+ )
      | (?P<number> -?+ [0-9] [0-9A-Za-z_.+-]*+ )
      | (?P<text> ' (?: [^'\\] | \\. )*+ ' | " (?: [^"\\] | \\. )*+ " )
      | (?P<close> \}\} )
      | (?P<sign> == | != | <= | >= | // | [<>()\[\],.?+*%-] )
      | (?P<end> \Z )
    )""",
    re.VERBOSE | re.DOTALL,
)
_BLANK = re.compile(r"[ \t\r\n]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?P<fraction>\.[0-9]++)?(?P<exponent>[eE][+-]?[0-9]++)?")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", **{sign: sign for sign in "\\/'\""}}
_INSTEAD = {
    "=": "Write == to compare.",
    "!": "Write not, or != to compare.",
    "&": "Write and.",
    "|": "Write or.",
    "{": "Write the expression without braces inside it.",
    "/": "Write // to divide: the result is a whole number.",
}


class Token(NamedTuple):
    """One word of the text: its kind is word, number, text, sign, close or end."""

    kind: str
    text: str
    offset: int

    def __str__(self) -> str:
        return "the end" if self.kind in ("close", "end") else repr(self.text)


def tokenize(text: str, start: int = 0, *, braces: bool = False) -> list[Token]:
    """The tokens from `start` to the end of the text, or to the `}}` that closes its braces."""
    found: list[Token] = []
    position = start
    while not found or found[-1].kind != ("close" if braces else "end"):
        token = _next(text, position)
        if token.offset - start > MAX_SOURCE:
            raise ExpressionError(f"the expression is longer than {MAX_SOURCE:,} characters", start)
        if token.kind == "end" and braces:
            raise ExpressionError("the {{ is never closed", start - 2, "Close it with }}.")
        if token.kind == "close" and not braces:
            raise ExpressionError("unexpected '}}'", token.offset)
        found.append(token)
        position = token.offset + len(token.text)
    return found


def read_number(token: Token) -> int | float:
    """The value of a number's token; whole numbers stay exact."""
    written = _NUMBER.fullmatch(token.text)
    if written is None:
        sums = re.search(r"[0-9][+-]", token.text)
        hint = "Write a blank before + and -, or quote text." if sums else "Write numbers as JSON does."
        raise ExpressionError(f"{token.text[:40]!r} is not a number", token.offset, hint)
    if written["fraction"] is None and written["exponent"] is None:
        return int(token.text)
    value = float(token.text)
    if math.isinf(value):
        raise ExpressionError("the number is too large", token.offset)
    return value


def read_text(token: Token) -> str:
    """The value of a quoted text's token, its escapes read."""

    def unescape(escape: re.Match[str]) -> str:
        offset = token.offset + 1 + escape.start()
        if escape[1] is not None:
            return _character(int(escape[1], 16), offset)
        if escape[2] not in _ESCAPES:
            hint = r"Use \\ \/ \' \" \b \f \n \r \t, or \u and four hex digits."
            raise ExpressionError(f"unknown escape \\{escape[2]}", offset, hint)
        return _ESCAPES[escape[2]]

    return _ESCAPE.sub(unescape, token.text[1:-1])


def _next(text: str, position: int) -> Token:
    if (match := _TOKEN.match(text, position)) and match.lastgroup:
        return Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
    blank = _BLANK.match(text, position)
    offset = blank.end() if blank else position
    sign = text[offset]
    if sign in "'\"":
        raise ExpressionError("the quote is never closed", offset)
    raise ExpressionError(f"unexpected {sign!r}", offset, _INSTEAD.get(sign, ""))


def _character(code: int, offset: int) -> str:
    if code == 0 or 0xD800 <= code <= 0xDFFF:
        hint = "Write a character beyond U+FFFF as itself." if code else ""
        raise ExpressionError(f"\\u{code:04x} can't be stored", offset, hint)
    return chr(code)
