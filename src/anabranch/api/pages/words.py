"""How pages write values: statuses with a sign and a word, times, durations, numbers, sizes and JSON."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi.encoders import jsonable_encoder
from markupsafe import Markup

from anabranch.api.security.root_path import at_root
from anabranch.codes import find_code
from anabranch.contract.jobs import JobError, JobStatus
from anabranch.durations import spell_duration
from anabranch.enums import JobState, NodeStatus

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
    "queued": Sign("○", "Queued", "quiet"),
    "processing": Sign("▶", "Processing", "live"),
    "pending_review": Sign("◔", "Waits for review", "wait"),
    "approved": Sign("✓", "Approved", "good"),
    "rejected": Sign("✕", "Rejected", "bad"),
    "revoked": Sign("⊘", "Revoked", "quiet"),
    "expired": Sign("⊘", "Expired", "quiet"),
    "published": Sign("✓", "Published", "good"),
    "delivered": Sign("✓", "Delivered", "good"),
    "dead": Sign("✕", "Dead letter", "bad"),
    "inactive": Sign("⊘", "Inactive", "quiet"),
    "valid": Sign("✓", "Valid", "good"),
    "invalid": Sign("✕", "Invalid", "bad"),
}


REASONS: Mapping[JobState, str] = {
    JobState.COMPLETED: "All of its nodes have ended, and it has its result.",
    JobState.CANCELLED: "Somebody cancelled it, or the job that it ran for ended.",
    JobState.PENDING: "Nothing of it has started; it waits for its turn and for a worker.",
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
    given = {name: value for name, value in values.items() if value not in (None, "", False, [])}
    return at_root(f"{path}?{urlencode(given, doseq=True)}" if given else path)


def mark(line: str, words: str) -> Markup:
    """A line with the first place of some words marked."""
    at = line.lower().find(words.lower())
    parts = line[:at], line[at : at + len(words)], line[at + len(words) :]
    return Markup("{}<mark>{}</mark>{}").format(*parts) if at >= 0 else Markup("{}").format(line)


def reason_of(job: JobStatus) -> str:
    """Why a job stands where it does, in words, where nothing keeps it from going on."""
    running = [node.name for node in job.nodes if node.status is NodeStatus.RUNNING]
    if job.status is JobState.FAILED:
        node = f" in node {job.error.node}" if job.error and job.error.node else ""
        return f"It ended because something failed{node}; what had not started then was cancelled."
    if job.status not in REASONS and running:
        return f"Running: {', '.join(running[:5])}{' and more' if len(running) > 5 else ''}."
    return REASONS.get(job.status, "It goes on by itself.")


def cause_of(error: JobError | Mapping[str, Any]) -> str:  # or as it is stored
    """The likely cause of a failure: what its code means."""
    known = find_code(error["code"] if isinstance(error, Mapping) else error.code)
    return known.meaning if known else "The handler's own code raised it; its log and the bundle have the traceback."


def segment(text: object) -> str:
    """A text as one segment of a path."""
    return quote(str(text), safe="")


FILTERS: dict[str, Callable[..., Any]] = {
    "ago": ago,
    "bytes": spell_bytes,
    "duration": spell_duration,
    "json_text": spell_json,
    "marked": mark,
    "number": spell_number,
    "segment": segment,
    "short": short,
    "sign": find_sign,
    "time_text": spell_time,
}
GLOBALS: dict[str, Callable[..., Any]] = {
    "cause_of": cause_of,
    "link": link,
    "now": lambda: datetime.now(UTC),
    "reason_of": reason_of,
}
