"""Names of columns that every client of PostgreSQL can use without quotes (V1)."""

import re
import unicodedata
from collections.abc import Container, Sequence

from anabranch.plugins.vector.cleaning.reserved_words import RESERVED_WORDS, SYSTEM_COLUMNS

__all__ = ["OWN_COLUMNS", "name_columns", "number_name"]

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
    letters = unicodedata.normalize("NFKD", source.casefold().translate(_LETTERS)).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9_]+", "_", letters.lower()).strip("_") or f"column_{place}"
    if name in _FORBIDDEN or name[0].isdigit():
        name = f"_{name}"
    return name[:MAX_NAME_BYTES]


def number_name(name: str, taken: Container[str], most: int = MAX_NAME_BYTES, *, first: int = 1) -> str:
    """The name, with the first number that makes it unique where it is taken; of at most so many characters."""
    found, number = name, first
    while found in taken:
        end = f"_{number}"
        found, number = name[: most - len(end)] + end, number + 1
    return found
