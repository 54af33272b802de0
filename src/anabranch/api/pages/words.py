"""How pages write values: statuses with a sign and a word, times, durations, numbers, sizes and JSON."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi.encoders import jsonable_encoder

from anabranch.api.security.root_path import at_root
from anabranch.durations import spell_duration

__all__ = ["FILTERS", "GLOBALS", "Sign", "ago", "find_sign", "link", "spell_bytes", "spell_json"]

MAX_JSON_CHARS = 20_000
SOON_SECONDS = 1.0


class Sign(NamedTuple):
    """How a status is shown: a mark and a word, and the kind of colour, which never says it alone."""

    mark: str
    word: str
    kind: str


# Of jobs, nodes, tasks, parts of the stack, schedules, releases and deliveries.
SIGNS: Mapping[str, Sign] = {
    "pending": Sign("○", "Pending", "quiet"),
    "ready": Sign("○", "Ready", "quiet"),
    "due": Sign("◷", "Waits to retry", "wait"),
    "running": Sign("▶", "Running", "live"),
    "waiting": Sign("◔", "Waiting", "wait"),
    "completed": Sign("✓", "Completed", "good"),
    "failed": Sign("✕", "Failed", "bad"),
    "skipped": Sign("↷", "Skipped", "quiet"),
    "cancelled": Sign("⊘", "Cancelled", "quiet"),
    "ok": Sign("✓", "OK", "good"),
    "degraded": Sign("!", "Degraded", "wait"),
    "down": Sign("✕", "Down", "bad"),
    "active": Sign("✓", "Active", "good"),
    "paused": Sign("‖", "Paused", "wait"),
    "retired": Sign("⊘", "Retired", "quiet"),
    "broken": Sign("✕", "Broken", "bad"),
    "submitted": Sign("✓", "Submitted", "good"),
    "missed": Sign("!", "Missed", "wait"),
    "draining": Sign("◔", "Draining", "wait"),
    "valid": Sign("✓", "Valid", "good"),
    "invalid": Sign("✕", "Invalid", "bad"),
}


def find_sign(status: str) -> Sign:
    """The sign of a status; one that has none is shown by its own word."""
    return SIGNS.get(str(status), Sign("•", str(status).replace("_", " ").capitalize(), "quiet"))


def ago(at: datetime, now: datetime | None = None) -> str:
    """A time relative to now, as people say it."""
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    if abs(seconds) < SOON_SECONDS:
        return "now"
    words = spell_duration(round(abs(seconds))).partition(" ")
    largest = f"{words[0]} {words[2].split(' ')[0]}"
    return f"in {largest}" if seconds < 0 else f"{largest} ago"


def spell_time(at: datetime) -> str:
    """A time to the second, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def spell_bytes(size: float) -> str:
    """A size in the unit that suits it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def spell_json(value: object) -> str:
    """A value as indented JSON, cut where it is too long for a page."""
    text = json.dumps(jsonable_encoder(value), indent=2, ensure_ascii=False)
    return text if len(text) <= MAX_JSON_CHARS else f"{text[:MAX_JSON_CHARS]}\n… cut; the API has all of it"


def spell_number(number: float) -> str:
    """A number with its thousands set apart by narrow spaces."""
    return f"{number:,}".replace(",", "\u202f")


def short(job_id: str) -> str:
    """The beginning of an id, which is enough for people."""
    return job_id[:12]


def link(path: str, **values: object) -> str:
    """A link below the API's root, with those of the values that say something."""
    given = {name: value for name, value in values.items() if value not in (None, "", False)}
    return at_root(f"{path}?{urlencode(given, doseq=True)}" if given else path)


FILTERS: dict[str, Callable[..., Any]] = {
    "ago": ago,
    "bytes": spell_bytes,
    "duration": spell_duration,
    "json_text": spell_json,
    "number": spell_number,
    "short": short,
    "sign": find_sign,
    "time_text": spell_time,
}
GLOBALS: dict[str, Callable[..., Any]] = {"link": link, "now": lambda: datetime.now(UTC)}
