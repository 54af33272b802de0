"""How wide text is, in pixels and in columns, and text made safe to show."""

import unicodedata
from collections.abc import Callable

__all__ = ["clean", "columns", "fit", "pixels"]

_NARROW = frozenset("iljtfrI.,:;'`|!()[]{}/\\ ")
_WIDE = frozenset("mwMW@%")
_UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs"))  # controls, direction marks, surrogates, and what has no glyph
_BREAKS = frozenset("\t\n\v\f\r\x85\u2028\u2029")


def clean(text: str) -> str:
    """The text on one line, without control characters or anything else that XML or a terminal can't show."""
    if text.isascii() and text.isprintable():
        return text
    kept = (" " if c in _BREAKS else c for c in text if c in _BREAKS or unicodedata.category(c) not in _UNSEEN)
    return "".join(kept)


def columns(text: str) -> int:
    """The columns a terminal gives the text: two for a CJK character, none for a combining mark."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def pixels(text: str) -> float:
    """About how wide the text is in a sans-serif font of 13 px."""
    return sum(map(_pixels_of, text))


def fit(text: str, limit: float, width: Callable[[str], float]) -> str:
    """The text, cut with an ellipsis where it is wider than the limit."""
    head = text[: int(limit) + 1]
    if len(head) == len(text) and width(text) <= limit:
        return text
    while head and width(head) + width("…") > limit:
        head = head[:-1]
    return head.rstrip() + "…"


def _columns_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _pixels_of(character: str) -> float:
    if character in _NARROW:
        return 4.5
    if character in _WIDE:
        return 11.5
    return 7.5 * _columns_of(character) + (1.5 if character.isupper() else 0)
