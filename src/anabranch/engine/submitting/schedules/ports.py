"""All that the duty of schedules asks of a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from anabranch.canonical import JsonObject
from anabranch.engine.model import SessionId
from anabranch.engine.ports import TakenRight
from anabranch.engine.submitting.submission import Submission
from anabranch.enums import Scope
from anabranch.workflows.schedules.cron import previous_tick
from anabranch.workflows.schedules.schedule import CatchUp

__all__ = ["MadeTick", "MissedTick", "ScheduleRow", "Tick", "TickPlan", "TickStore", "WaitingTick", "spell_instant"]


@dataclass(frozen=True)
class ScheduleRow:
    """A schedule as the duty needs it, and the time that decides; one that watches a folder has no cron expression.

    `after` is up to when ticks were dealt with, and `next_at` the first tick after it, if it is planned.
    """

    id: int
    platform: str
    name: str
    workflow_hash: str
    cron: str
    timezone: str
    inputs: JsonObject
    parameters: JsonObject
    catch_up: CatchUp
    by_scope: Scope | None
    trouble: str | None
    version: int
    after: datetime
    next_at: datetime | None
    now: datetime


@dataclass(frozen=True)
class Tick:
    """An instant of a schedule, and the tick before."""

    at: datetime
    interval_start: datetime | None

    @classmethod
    def of(cls, cron: str, zone: str, at: datetime) -> "Tick":
        """The tick at an instant; its interval begins with the last regular tick before it."""
        return cls(at, previous_tick(cron, zone, at))

    @property
    def times(self) -> JsonObject:
        """What expressions may name of it, in whole seconds also for a manual run."""
        start = None if self.interval_start is None else spell_instant(self.interval_start)
        return {"scheduled_at": spell_instant(self.at.replace(microsecond=0)), "interval_start": start}


@dataclass(frozen=True)
class MissedTick:
    """A tick that gets no job, and why."""

    tick: Tick
    reason: str


@dataclass(frozen=True)
class TickPlan:
    """What to do with the ticks that are due: which are missed, which one is made, and when the next one is."""

    missed: Sequence[MissedTick] = ()
    tick: Tick | None = None
    next_at: datetime | None = None


@dataclass(frozen=True)
class WaitingTick:
    """A tick whose turn has come."""

    schedule: ScheduleRow
    tick: Tick


@dataclass(frozen=True)
class MadeTick:
    """What became of a tick: its state, its job, and the rights to advance that."""

    state: str
    job_id: str | None
    rights: tuple[TakenRight, ...]


class TickStore(Protocol):
    """Schedules for the processes that make their ticks; several may do so at once."""

    async def find_due(self, after: int) -> list[ScheduleRow]:
        """Some schedules with ticks to plan or make, in order, after one of them."""

    async def find_waiting(self, after: int) -> list[WaitingTick]:
        """Some ticks that no job of an earlier one keeps any more, of schedules after one of them."""

    async def make(
        self,
        session: SessionId,
        schedule: ScheduleRow,
        plan: TickPlan,
        submission: Submission | None,
        reason: str | None,
    ) -> MadeTick | None:
        """Follow a plan in one commit; None where no tick was made, or another process did."""

    async def start(
        self, session: SessionId, waiting: WaitingTick, submission: Submission | None, reason: str | None
    ) -> MadeTick | None:
        """Make the job of a tick that waits; None where another process does."""

    async def rewind(self) -> int:
        """Plan schedules again that are ahead of the clock; how many."""

    async def remove_old(self, age: timedelta) -> int:
        """Remove some old ticks; how many, and 0 at the end."""

    async def note_turn(self, session: SessionId, every: timedelta) -> None:
        """Note that the duty is performed (O2)."""


def spell_instant(at: datetime) -> str:
    """An instant as expressions and scopes have it."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
