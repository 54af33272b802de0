"""Names of columns that every client of PostgreSQL can use without quotes (V1)."""

import re
import unicodedata
from collections.abc import Container, Sequence

from anabranch.plugins.vector.cleaning.reserved_words import RESERVED_WORDS, SYSTEM_COLUMNS

__all__ = ["OWN_COLUMNS", "has_other_letters", "make_words", "name_columns", "number_name"]

OWN_COLUMNS = frozenset({"gid", "geom"})
MAX_NAME_BYTES = 63
_FORBIDDEN = RESERVED_WORDS | SYSTEM_COLUMNS
_PLAIN = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th"})


def name_columns(sources: Sequence[str]) -> list[str]:
    """The name of each column: plain ones keep theirs, others are made plain, and collisions get numbers."""
    names = [_make_plain(source, place) for place, source in enumerate(sources, start=1)]
    taken = set(OWN_COLUMNS)
    result = [""] * len(names)
    # A column that has its name already keeps it, whatever comes before.
    for place in sorted(range(len(names)), key=lambda place: names[place] != sources[place]):
        result[place] = number_name(names[place], taken)
        taken.add(result[place])
    return result


def _make_plain(source: str, place: int) -> str:
    if _PLAIN.fullmatch(source) and source not in _FORBIDDEN:
        return source
    name = make_words(source) or f"column_{place}"
    if name in _FORBIDDEN or name[0].isdigit():
        name = f"_{name}"
    return name[:MAX_NAME_BYTES]


def make_words(text: str) -> str:
    """The text in small letters a to z, digits and underscores; letters that have none of these are left out."""
    return re.sub(r"[^a-z0-9_]+", "_", _to_ascii(text)).strip("_")


def has_other_letters(text: str) -> bool:
    """Whether letters or digits of the text are left out of its words, as those of other scripts are."""
    return any(letter.isalnum() and not _to_ascii(letter) for letter in text)


def _to_ascii(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text.casefold().translate(_LETTERS))
    return letters.encode("ascii", "ignore").decode().lower()


def number_name(name: str, taken: Container[str], most: int = MAX_NAME_BYTES, *, first: int = 1) -> str:
    """The name, with the first number that makes it unique where it is taken; of at most so many characters."""
    found, number = name, first
    while found in taken:
        end = f"_{number}"
        found, number = name[: most - len(end)] + end, number + 1
    return found
