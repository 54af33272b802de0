"""Output of commands: data on stdout, notes on stderr, colour only on terminals that allow it."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.contract.answer import Answer, Page
from anabranch.durations import spell_duration

if TYPE_CHECKING:
    from anabranch.contract.jobs import Progress

__all__ = [
    "StdoutError",
    "age",
    "ago",
    "coloured",
    "cut",
    "escape",
    "format_labels",
    "format_progress",
    "format_size",
    "format_time",
    "in_one_line",
    "note",
    "print_findings",
    "print_json",
    "print_line",
    "print_list",
    "print_page",
    "print_result",
    "print_row",
    "print_table",
    "span",
    "wants_colour",
]

Found = TypeVar("Found")

MAX_CELL_WIDTH = 80
# Characters that move the cursor, change colours or reverse the text direction could display false text.
UNSAFE_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
COLOURS = {
    "completed": 32, "ok": 32, "running": 36, "ready": 36,
    "waiting": 33, "warn": 33, "cancelled": 33, "degraded": 33, "down": 31, "failed": 31, "fail": 31,
}  # fmt: skip


class StdoutError(Exception):
    """Stdout can't be written, for example because a disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"error: stdout can't be written: {error.strerror}")


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print a value as JSON."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=_to_json)
    print_line(UNSAFE_CHARACTERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def _to_json(value: object) -> object:
    if isinstance(value, Answer):
        return value.raw
    return format_time(value) if isinstance(value, datetime) else str(value)


def print_line(text: str) -> None:
    """Print a line of data; StdoutError when it can't be written."""
    try:
        sys.stdout.write(f"{text}\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StdoutError(error) from error


def print_result(value: object, text: str, *, json: bool) -> None:
    """Print a result: as JSON, or the text that describes it."""
    if json:
        print_json(value)
    else:
        print_line(text)


def print_findings(found: Sequence[Any], *, json: bool) -> None:  # dataclasses
    """Print what a check found, one finding in a line; "ok" if there is none."""
    print_result([asdict(one) for one in found], "\n".join(map(str, found)) or coloured("ok"), json=json)


def note(text: str) -> None:
    """Print a note to stderr."""
    sys.stderr.write(f"{text}\n")


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows in aligned columns; a status is coloured."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    for row in ([name.upper() for name in head], *cells):
        print_row(row, widths)


def print_list(
    found: Iterable[Found], head: Sequence[str], row: Callable[[Found], Sequence[object]], *, json: bool
) -> None:
    """Print what was found: as JSON, or a row of a table for each."""
    if json:
        print_json(list(found))
    else:
        print_table(head, map(row, found))


def print_page(
    page: Page[Found], head: Sequence[str], row: Callable[[Found], Sequence[object]], *, json: bool, option: str
) -> None:
    """Print a page of a list, and the option that gives the next one."""
    print_list(page.items, head, row, json=json)
    if page.next:
        note(f"next page: {option} {page.next}")


def print_row(row: Sequence[object], widths: Sequence[int]) -> None:
    """Print a row in columns of at least these widths; a status is coloured."""
    padded = (_cell(cell).ljust(width) for cell, width in zip(row, widths, strict=True))
    print_line("  ".join(map(coloured, padded)).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    text = format_time(value) if isinstance(value, datetime) else str(value)
    return escape(text).replace("\n", "\\n").replace("\t", "\\t")


def coloured(text: str) -> str:
    """A status in its colour; other text unchanged."""
    number = COLOURS.get(text.strip())
    return f"\x1b[{number}m{text}\x1b[0m" if number and wants_colour(sys.stdout.isatty()) else text


def wants_colour(terminal: bool) -> bool:
    """Whether colour may be used on a stream."""
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def in_one_line(value: object) -> str | None:
    """A value in one line: whitespace becomes single blanks; None stays None."""
    return None if value is None else " ".join(str(value).split())


def cut(value: object) -> str | None:
    """A JSON value truncated to the width of a cell; None stays None."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_CELL_WIDTH else f"{text[: MAX_CELL_WIDTH - 1]}…"


def escape(text: str) -> str:
    """The text with unsafe terminal characters escaped; line breaks and tabs stay."""
    return UNSAFE_CHARACTERS.sub(
        lambda found: f"\\x{ord(found[0]):02x}" if ord(found[0]) < 256 else f"\\u{ord(found[0]):04x}", text
    )


def format_time(moment: datetime) -> str:
    """A timestamp as the API writes it."""
    return moment.isoformat().replace("+00:00", "Z")


def age(moment: datetime | None) -> str:
    """The age of a timestamp."""
    if not moment:
        return "-"
    return spell_duration(round(max(0.0, (datetime.now(UTC) - moment).total_seconds())))


def ago(moment: datetime | None) -> str:
    """How long ago a timestamp was."""
    return f"{age(moment)} ago" if moment else "-"


def format_labels(labels: Mapping[str, str]) -> str:
    """Labels in one line."""
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def format_progress(progress: "Progress | None") -> str | None:
    """The progress that a task reported, in a few words; None stays None."""
    if not progress:
        return None
    known = f"{progress.done:g}" + (f" of {progress.total:g}" if progress.total is not None else "")
    return cut(": ".join(filter(None, (known, in_one_line(progress.message)))))


def format_size(size: int) -> str:
    """A number of bytes, in the largest unit that leaves at least one of it."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"


def span(start: datetime | None, end: datetime | None) -> str:
    """The time between two timestamps."""
    return spell_duration(end - start) if start and end else "-"
