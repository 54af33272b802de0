"""The dialect of a CSV file: encoding, delimiter and header."""

import codecs
import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import ReadOptions
from anabranch.plugins.vector.reading.encodings import check_encoding, detect_encoding
from anabranch.redaction import show_text

__all__ = ["Dialect", "find_dialect"]

SAMPLE_BYTES = 256 * 1024
MAX_SAMPLE_ROWS = 200
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
_GIVEN = {"tab": "\t", "\\t": "\t", **{title: letter for letter, title in DELIMITERS.items()}}


@dataclass(frozen=True)
class Dialect:
    """How a file is written, and the names in its header."""

    encoding: str
    delimiter: str
    header: tuple[str, ...]
    skipped_lines: int  # before the header
    rows: bool  # whether anything follows the header

    @property
    def title(self) -> str:
        """The delimiter in words."""
        return DELIMITERS.get(self.delimiter, self.delimiter)


def find_dialect(path: Path, options: ReadOptions) -> Dialect:
    """The dialect of a file, by a sample of it and by what the caller says."""
    encoding = check_encoding(options.encoding) if options.encoding else detect_encoding(path)
    lines, whole = _read_lines(path, encoding)
    csv.field_size_limit(SAMPLE_BYTES)  # a geometry is longer than what is usual for a field
    skipped, delimiter = 0, _check_delimiter(options.delimiter)
    if lines and lines[0].lower().startswith("sep=") and len(lines[0].strip()) == 5:  # Excel writes it
        skipped, delimiter = 1, delimiter or lines[0][4]
    delimiter = delimiter or _detect_delimiter(lines[skipped:])
    records = csv.reader(lines[skipped:], delimiter=delimiter)
    header = tuple(next(records, []))
    if not header:
        raise Permanent(
            f"{path.name} begins with a blank line, and not with the names of its columns",
            code="vector.csv",
            remedy="Make the names of the columns the first line.",
        )
    return Dialect(encoding, delimiter, header, skipped, rows=not whole or next(records, None) is not None)


def _read_lines(path: Path, encoding: str) -> tuple[list[str], bool]:
    """The first lines of a file, and whether they are all that it has."""
    with path.open("rb") as file:
        data = file.read(SAMPLE_BYTES)
    whole = len(data) < SAMPLE_BYTES
    text = codecs.getincrementaldecoder(encoding)("replace").decode(data).removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    return (lines if whole or len(lines) < 2 else lines[:-1]), whole  # the last may be cut


def _check_delimiter(given: str | None) -> str | None:
    if given is None:
        return None
    letter = _GIVEN.get(given.lower(), given)
    is_plain = letter == "\t" or (letter.isascii() and letter.isprintable() and not letter.isalnum())
    if len(letter) != 1 or not is_plain or letter in '"\\':
        raise Permanent(
            f"{show_text(given)!r} can't be a delimiter",
            code="vector.csv",
            remedy="Set `delimiter` to one character, like `;`, or to `tab`; or omit it.",
        )
    return letter


def _detect_delimiter(lines: list[str]) -> str:
    """The delimiter by which most rows have as many fields as the header; of equals, that with the most fields."""
    scores = {letter: _score(lines, letter) for letter in DELIMITERS}
    best = max(scores, key=lambda letter: scores[letter])
    return best if scores[best] > (0, 1) else ","


def _score(lines: list[str], delimiter: str) -> tuple[float, int]:
    try:
        widths = [len(row) for row in csv.reader(lines[:MAX_SAMPLE_ROWS], delimiter=delimiter) if row]
    except csv.Error:
        return 0, 0
    if not widths or widths[0] < 2:
        return 0, 0
    return Counter(widths)[widths[0]] / len(widths), widths[0]
