"""Schedules, their ticks, and backfills."""

from datetime import datetime
from typing import Literal

from anabranch.contract.answer import Answer, JsonObject, answer

__all__ = ["Backfill", "BackfillTick", "Schedule", "ScheduleRun", "ScheduleTick", "TickState"]

TickState = Literal["waiting", "submitted", "skipped", "missed", "failed"]


@answer
class Schedule(Answer):
    """When jobs of a workflow are made, and with which inputs; one that watches a folder has no cron expression."""

    name: str
    platform: str
    origin: Literal["workflow", "api"]
    """`workflow`: the workflow's file declares it."""
    workflow: str
    cron: str | None
    timezone: str
    inputs: JsonObject
    """As they were given: text in them may hold the times of the tick, or what is known of the object."""
    overlap: Literal["skip", "queue", "cancel_previous"]
    catch_up: Literal["none", "latest", "all"]
    status: Literal["active", "paused", "retired", "broken"]
    """`retired`: the workflow's file declares it no more. `broken`: its ticks fail; `error` says why."""
    error: str | None
    next_at: datetime | None
    """The next tick; null while it makes none."""
    waiting: int
    """Ticks that wait for a job before them."""
    last_at: datetime | None
    """The last tick that was dealt with; those of backfills and manual runs don't count."""
    last_state: TickState | None
    last_job_id: str | None
    paused_at: datetime | None
    paused_by: str | None
    made_at: datetime
    made_by: str
    changed_at: datetime
    watch: str | None = None
    """The folder whose new and changed objects get a job each."""
    pattern: str | None = None
    stable_seconds: int | None = None
    poll_seconds: int | None = None
    existing: Literal["submit", "skip"] | None = None
    looked_at: datetime | None = None
    """When all of the folder was last seen."""
    look_error: str | None = None
    """Why it can't be seen now."""


@answer
class ScheduleTick(Answer):
    """A tick that was dealt with."""

    scheduled_at: datetime
    interval_start: datetime | None
    """The tick before it."""
    kind: Literal["regular", "manual", "backfill"]
    state: TickState
    reason: str | None
    """Why it has no job."""
    job_id: str | None
    job_status: str | None
    """The status of its job; null where it has none, or it was purged."""
    recorded_at: datetime
    object: str | None = None
    """The address of the object that it was made for."""


@answer
class ScheduleRun(Answer):
    """The job of a manual run."""

    scheduled_at: datetime
    state: TickState
    job_id: str | None


@answer
class BackfillTick(Answer):
    """A tick of a backfill's range."""

    scheduled_at: datetime
    interval_start: datetime | None
    state: TickState | None
    """What became of it before, if anything."""
    job_id: str | None
    runs: bool
    """Whether the backfill makes its job."""


@answer
class Backfill(Answer):
    """The ticks of a range."""

    dry_run: bool
    ticks: tuple[BackfillTick, ...]
    runs: int
    """How many get a job."""
