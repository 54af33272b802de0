"""The names of tables: those that readers know, from files and layers, and our own, which no other job has."""

import unicodedata
from collections.abc import Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from re import sub

from anabranch.plugins.vector.cleaning.names import has_other_letters, make_words, number_name
from anabranch.plugins.vector.models import CleanedTable, Family

__all__ = ["make_unique", "name_base", "name_layers", "name_table"]

MAX_BASE_CHARS = 40
MAX_NAME_CHARS = 63
HASH_CHARS = 8
SUFFIXES = {Family.POINT: "points", Family.LINE: "lines", Family.POLYGON: "polygons"}


def name_base(file: str) -> str:
    """The name of a layer from that of its file: small letters, digits and underscores, the first one a letter.

    It is the id of the item, too. One that is too long, or has letters of other scripts, ends with a hash of the file's
    name; files whose names differ in case, accents or punctuation alone have the same one.
    """
    return _plain(PurePosixPath(file).stem, MAX_BASE_CHARS, digit_prefix="t_")


def name_layers(base: str, tables: Sequence[CleanedTable]) -> list[str]:
    """The name of each table: the base, with the layer where there are several, and the family where it is mixed."""
    layers = {table.layer for table in tables}
    names: list[str] = []
    for table in tables:
        mixed = sum(other.layer == table.layer for other in tables) > 1
        parts = [
            base,
            _plain(table.layer, MAX_NAME_CHARS) if len(layers) > 1 else "",
            SUFFIXES[table.family] if mixed else "",
        ]
        names.append(make_unique("_".join(filter(None, parts)), names))
    return names


def name_table(name: str, job_id: str) -> str:
    """The name of a job's own table, which follows from the job, so that a repeated attempt finds it."""
    return f"{name[:MAX_BASE_CHARS]}_{sha256(f'{job_id}/{name}'.encode()).hexdigest()[:8]}"


def _plain(text: str, max_chars: int, *, digit_prefix: str = "") -> str:
    words = sub("_+", "_", make_words(text))
    if words[:1].isdigit():
        words = f"{digit_prefix}{words}"
    if words and len(words) <= max_chars and not has_other_letters(text):
        return words
    # Composed, for the same name is written in two ways; without case, for so are the names of tables.
    digest = sha256(unicodedata.normalize("NFC", text.casefold()).encode()).hexdigest()[:HASH_CHARS]
    return f"{words[: max_chars - HASH_CHARS - 1].rstrip('_') or 'layer'}_{digest}"


def make_unique(name: str, taken: Sequence[str], most: int = MAX_NAME_CHARS) -> str:
    """The name, with a number where another has it; of at most so many characters."""
    return number_name(name[:most].rstrip("_"), taken, most, first=2)
