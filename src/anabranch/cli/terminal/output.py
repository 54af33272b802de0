"""Output of commands: data on stdout, notes on stderr, colour only on terminals that allow it."""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

__all__ = [
    "age",
    "coloured",
    "cut",
    "escape",
    "format_error",
    "format_progress",
    "in_one_line",
    "note",
    "print_json",
    "print_line",
    "print_result",
    "print_row",
    "print_table",
    "span",
    "wants_colour",
]

MAX_CELL_WIDTH = 80
# Characters that move the cursor, change colours or reverse the text direction could display false text.
UNSAFE_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
COLOURS = {
    "completed": 32, "ok": 32, "running": 36, "ready": 36,
    "waiting": 33, "warn": 33, "cancelled": 33, "failed": 31, "fail": 31,
}  # fmt: skip


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print a value as JSON."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    print_line(UNSAFE_CHARACTERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def print_line(text: str) -> None:
    """Print a line of data."""
    sys.stdout.write(f"{text}\n")


def print_result(value: object, text: str, *, json: bool) -> None:
    """Print a result: as JSON, or the text that describes it."""
    if json:
        print_json(value)
    else:
        print_line(text)


def note(text: str) -> None:
    """Print a note to stderr."""
    sys.stderr.write(f"{text}\n")


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows in aligned columns; states are coloured."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    for row in ([name.upper() for name in head], *cells):
        print_row(row, widths)


def print_row(row: Sequence[object], widths: Sequence[int]) -> None:
    """Print a row in columns of at least these widths; states are coloured."""
    padded = (_cell(cell).ljust(width) for cell, width in zip(row, widths, strict=True))
    print_line("  ".join(map(coloured, padded)).rstrip())


def _cell(value: object) -> str:
    return "-" if value is None else escape(str(value)).replace("\n", "\\n").replace("\t", "\\t")


def coloured(text: str) -> str:
    """A state in its colour; other text unchanged."""
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


def age(moment: str | None) -> str:
    """The age of a timestamp of the API, as one number and its unit."""
    if not moment:
        return "-"
    seconds = max(0.0, (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def format_progress(progress: Mapping[str, Any] | None) -> str | None:
    """The progress that a task reported, in a few words; None stays None."""
    if not progress:
        return None
    known = f"{progress['done']:g}" + (f" of {progress['total']:g}" if progress["total"] is not None else "")
    return cut(": ".join(filter(None, (known, in_one_line(progress["message"])))))


def format_error(error: Mapping[str, Any]) -> str:  # as the API returns it
    """An error in one line, with the exception's type if the handler's own code raised it."""
    kind, message = str(error.get("type") or ""), str(error.get("message") or "")
    return f"{kind}: {message}" if error.get("code") == "handler.error" and kind else message


def span(start: str | None, end: str | None) -> str:
    """The time between two timestamps of the API."""
    if not start or not end:
        return "-"
    return f"{(datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds():.2f} s"
