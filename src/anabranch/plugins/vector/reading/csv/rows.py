"""The rows of a CSV file as batches of text, with the line that each begins at."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from anabranch.errors import Permanent
from anabranch.plugins.vector.reading.csv.dialect import Dialect
from anabranch.redaction import show_text

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Rows

__all__ = ["TextBatch", "read_text"]

QUOTE = '"'
MAX_BLOCK_BYTES = 16 * 2**20


@dataclass(frozen=True)
class TextBatch:
    """Some rows: the lines they begin at, and their values as text, or null where nothing, not even quotes, is."""

    lines: "Rows"
    columns: list[pa.Array]
    wrong: list[tuple[int, str]]  # rows with too many or too few fields: the line, and what is wrong


def read_text(path: Path, dialect: Dialect, block_bytes: int) -> Iterator[TextBatch]:
    """The rows after the header."""
    if not dialect.rows:
        return
    lines = _Lines(dialect.skipped_lines)
    names = [str(place) for place in range(len(dialect.header))]
    try:
        reader = csv.open_csv(
            path,
            read_options=csv.ReadOptions(
                use_threads=False,  # else rows have no numbers
                block_size=max(1024, min(MAX_BLOCK_BYTES, block_bytes)),
                skip_rows=dialect.skipped_lines,
                column_names=names,
                skip_rows_after_names=1,
                encoding=dialect.encoding,
            ),
            parse_options=csv.ParseOptions(
                delimiter=dialect.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=lines.note,
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        lines.add_header(dialect.header)
        for batch in reader:
            numbers, wrong = lines.number(batch)
            yield TextBatch(numbers, batch.columns, wrong)
    except pa.ArrowInvalid as error:
        raise _explain(path.name, str(error), dialect, lines.last) from error
    except UnicodeDecodeError as error:
        raise _explain(path.name, "invalid UTF8", dialect, lines.last) from error
    if wrong := lines.rest():
        yield TextBatch(np.empty(0, np.int64), [pa.array([], pa.string()) for _ in names], wrong)


def _explain(name: str, message: str, dialect: Dialect, line: int) -> Permanent:
    if "straddling" in message:
        return Permanent(
            f"{name} has a row after line {line:,} that does not end: a quote is opened there, and never closed",
            code="vector.csv",
            remedy="Close the quote, or double it if it belongs to the text.",
        )
    if "UTF8" in message:
        return Permanent(
            f"{name} is not written in {dialect.encoding}: a character after line {line:,} is none of that encoding",
            code="vector.encoding",
            remedy="Omit `encoding` to have it detected, or set it to that of the file, like cp1252.",
        )
    return Permanent(f"{name} can't be read as CSV: {message}", code="vector.csv", remedy="Write the file again.")


class _Lines:
    """Counts lines: a record may have several, and records that don't fit are skipped by the parser."""

    def __init__(self, skipped: int) -> None:
        self._next = 2  # the number of the next record; that of the header is 1
        self._extra = skipped  # lines beyond one for each record
        self._skipped: list[tuple[int, str, int]] = []
        self._base = 0
        self.last = 1

    def add_header(self, header: tuple[str, ...]) -> None:
        """Count the lines of the header."""
        self._extra += sum(name.count("\n") for name in header)

    def note(self, row: csv.InvalidRow) -> str:
        """Keep a record that does not fit; the parser is ahead of the batches."""
        what = f"{row.actual_columns} fields instead of {row.expected_columns}"
        if row.text.count(QUOTE) % 2:
            what = f"the quote before {show_text(row.text.rpartition(QUOTE)[2])} is never closed"
        self._skipped.append((row.number, what, row.text.count("\n")))
        return "skip"

    def number(self, batch: pa.RecordBatch) -> "tuple[Rows, list[tuple[int, str]]]":
        """The lines of a batch's records, and the records that were skipped before or among them."""
        start, end = self._next, self._next + len(batch)
        passed = 0
        while passed < len(self._skipped) and self._skipped[passed][0] < end:
            passed, end = passed + 1, end + 1
        skipped, self._skipped = self._skipped[:passed], self._skipped[passed:]
        numbers = np.arange(start, end, dtype=np.int64)
        kept = np.isin(numbers, [number for number, _, _ in skipped], invert=True)
        more = np.zeros(len(numbers), np.int64)
        more[kept] = _count_newlines(batch)
        for number, _, newlines in skipped:
            more[number - start] = newlines
        lines = numbers + self._extra + np.concatenate([[0], np.cumsum(more)[:-1]]) if len(numbers) else numbers
        self._next, self._extra = end, self._extra + int(more.sum())
        self.last = int(lines[-1]) if len(lines) else self.last
        wrong = [(int(lines[number - start]), what) for number, what, _ in skipped]
        return lines[kept], wrong

    def rest(self) -> list[tuple[int, str]]:
        """Records after the last that fits."""
        found = []
        for number, what, newlines in self._skipped:
            found.append((number + self._extra, what))
            self._extra += newlines
        return found


def _count_newlines(batch: pa.RecordBatch) -> "Rows":
    total = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        total += pc.fill_null(pc.count_substring(column, "\n"), 0).to_numpy(zero_copy_only=False)
    return total
