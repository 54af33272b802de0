"""The steps of a sweep: each has separate transactions, and a failing one does not stop the others."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

import psycopg
import structlog

from anabranch.adapters.postgres.database import Database
from anabranch.canonical import Json, encode
from anabranch.engine.model import SessionId
from anabranch.engine.ports import Refused, Swept
from anabranch.errors import AnabranchError

__all__ = ["LAST_LANE", "PostgresSweep", "may_be_a_rows"]

log = structlog.get_logger()
BATCH_ROWS = 1000
BATCH_ORPHANS = 50
BATCH_REPEATS = 100
BATCH_DURATIONS = 50_000
DURATION_SERIES = (300, timedelta(days=30))  # of each kind, and when one that is not counted any more makes room
ACT_SECONDS = 10.0  # an act that finds ever more to do lets the others go on after this
BAD_LANE_SECONDS = 60.0  # when a lane that an act failed at is tried again
MAX_BAD_LANES = 100  # more are no fault of theirs
FAILED_ROUNDS = 2  # an act that failed once may have waited for a lock in vain
LAST_LANE = 2**63 - 1
DAMAGED = "XX"  # SQLSTATE: internal error, damaged data or index
MAX_HALF_LANES = 2**32


@dataclass(frozen=True)
class Act:
    """A function of the schema that does up to `batch` things; one that goes by lanes can be given which."""

    name: str
    batch: int
    call: Callable[..., Awaitable[int]]
    by_lanes: bool = False


@dataclass(frozen=True)
class BadLane:
    """A lane that an act failed at, why, and when it is tried again, alone."""

    reason: str
    again_at: float


class PostgresSweep:
    """Rounds of the sweeper, and what failed in them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._failed: dict[str, tuple[int, str]] = {}
        self._bad_lanes: dict[str, dict[int, BadLane]] = {}

    async def round(
        self, session: SessionId, every: timedelta, grace: timedelta, latest: Callable[[], datetime]
    ) -> Swept:
        """Do each act, for some seconds where there is very much to do; then tick the duty, with what failed (O2).

        A clock that shows more than `latest` has stepped in the middle of the round: nothing is ended by it.
        """
        try:
            expired = await self._value("begin_round", session, every, BATCH_ROWS, before=latest)
        except Refused as error:
            expired = self._note_failed("begin_round", error)
        else:
            self._failed.pop("begin_round", None)
        if expired is None:
            return Swept(0, 0)
        tick = partial(self._tick, session, every)
        await self._do(Act("follow_limits", 10, partial(self._value, "follow_limits")), tick)
        released = 0
        for act in (
            self._by_lanes("release_dead", BATCH_ROWS),
            self._by_lanes("end_overdue", BATCH_ROWS, grace, before=latest),
            self._by_lanes("end_expired", BATCH_ROWS, session, before=latest),
            self._by_lanes("end_unserved", BATCH_ROWS, session, before=latest),
        ):
            released += await self._do(act, tick)
        for act in (
            self._by_lanes("heal_holds", BATCH_ROWS),
            self._by_lanes("tidy_due", BATCH_ROWS),
            self._by_lanes("record_repeats", BATCH_REPEATS),
            Act("cancel_orphans", BATCH_ORPHANS, self.cancel_orphans),
            Act(
                "sum_durations",
                BATCH_DURATIONS,
                partial(self._value, "sum_durations", *DURATION_SERIES, BATCH_DURATIONS),
            ),
            Act("purge_idempotency_keys", BATCH_ROWS, partial(self._value, "purge_idempotency_keys", BATCH_ROWS)),
            Act("remove_turns", BATCH_ROWS, partial(self._value, "remove_turns", BATCH_ROWS)),
        ):
            await self._do(act, tick)
        await tick()
        return Swept(expired, released)

    async def cancel_orphans(self) -> int:
        """Cancel child jobs whose task has ended, and their children; how many, of a bounded batch."""
        ends, cancelled, before = monotonic() + ACT_SECONDS, 0, -1
        while before < cancelled < BATCH_ORPHANS:
            before, after = cancelled, 0
            while cancelled < BATCH_ORPHANS and monotonic() < ends:
                found = await self._database.call("find_orphans", after, BATCH_ORPHANS)
                if not found:
                    break
                children = [row["find_orphans"] for row in found]
                after = children[-1]
                cancelled += await self._cancel(children, ends)
        return cancelled

    async def _cancel(self, children: list[int], ends: float) -> int:
        """Cancel orphans one by one; those that others are at come last, and are waited for while there is time."""
        answers = []
        for wait in (False, True):
            busy = []
            for child in children:
                if monotonic() > ends:
                    break
                try:
                    answers.append(answer := await self._value("cancel_orphan", child, wait))
                except AnabranchError as error:
                    log.warning("sweeper.act_failed", act="cancel_orphan", child=child, reason=_reason(error))
                else:
                    busy += [child] if answer is None else []
            children = busy
        return answers.count(True)

    async def _do(self, act: Act, tick: Callable[[], Awaitable[None]]) -> int:
        """Do an act while there is more of it; how much was done."""
        ends, total, done = monotonic() + ACT_SECONDS, 0, act.batch
        try:
            while done >= act.batch and monotonic() < ends:
                done = await (self._in_all_lanes(act, ends) if act.by_lanes else act.call())
                total += done
                if done >= act.batch:
                    await tick()
        except AnabranchError as error:
            self._note_failed(act.name, error)
        else:
            self._failed.pop(act.name, None)
        return total

    def _note_failed(self, name: str, error: AnabranchError) -> int:
        """Note why an act failed; what it did is nothing."""
        rounds, _ = self._failed.get(name, (0, ""))
        self._failed[name] = (rounds + 1, _reason(error))
        log.warning("sweeper.act_failed", act=name, reason=_reason(error))
        return 0

    async def _in_all_lanes(self, act: Act, ends: float) -> int:
        total = 0
        for first, last in list(self._ranges(act.name)):
            total += await self._in_lanes(act, first, last, ends)
        return total

    def _ranges(self, name: str) -> Iterator[tuple[int, int]]:
        """All lanes but the bad ones; those that are tried again by themselves."""
        first = 0
        for lane, bad in sorted(self._bad_lanes.get(name, {}).items()):
            yield first, lane - 1
            first = lane + 1
            if bad.again_at < monotonic():
                yield lane, lane
        yield first, LAST_LANE

    async def _in_lanes(self, act: Act, first: int, last: int, ends: float) -> int:
        """Do an act in these lanes, and where it is refused, in each half of them: a bad lane hurts itself alone."""
        bad_lanes = self._bad_lanes.setdefault(act.name, {})
        try:
            done = await act.call(first, last) or 0
        except AnabranchError as error:
            if not may_be_a_rows(error):
                raise
            if first == last and len(bad_lanes) < MAX_BAD_LANES:
                bad_lanes[first] = BadLane(_reason(error), monotonic() + BAD_LANE_SECONDS)
                log.warning("sweeper.act_failed", act=act.name, lane=first, reason=_reason(error))
                return 0
            if first == last or monotonic() > ends:
                raise
            if (first, last) == (0, LAST_LANE):
                await act.call(0, -1)  # what fails without any lane is no lane's fault
            middle = min((first + last) // 2, first + MAX_HALF_LANES)
            return await self._in_lanes(act, first, middle, ends) + await self._in_lanes(act, middle + 1, last, ends)
        bad_lanes.pop(first if first == last else -1, None)
        return done

    async def _tick(self, session: SessionId, every: timedelta) -> None:
        await self._value("end_round", session, every, encode(self._trouble()))

    def _trouble(self) -> Json:
        """Which acts fail, and why; None where none does."""
        trouble: dict[str, Json] = {
            name: f"lane {lane}: {bad.reason}" for name, lanes in self._bad_lanes.items() for lane, bad in lanes.items()
        }
        trouble |= {name: reason for name, (rounds, reason) in self._failed.items() if rounds >= FAILED_ROUNDS}
        return trouble or None

    def _by_lanes(self, name: str, batch: int, *arguments: object, before: Callable[[], datetime] | None = None) -> Act:
        return Act(name, batch, partial(self._value, name, *arguments, batch, before=before), by_lanes=True)

    async def _value(
        self, function: str, *arguments: object, before: Callable[[], datetime] | None = None
    ) -> Any:  # each caller says which type
        rows = await self._database.call(function, *arguments, before=before and before())
        return next(iter(rows[0].values())) if rows else None


def may_be_a_rows(error: AnabranchError) -> bool:
    """Whether some row may be the cause: its data, or a page or index that the server can't read."""
    cause = error.__cause__
    damaged = isinstance(cause, psycopg.Error) and (cause.sqlstate or "").startswith(DAMAGED)
    return isinstance(error, Refused) or damaged


def _reason(error: AnabranchError) -> str:
    """What a server said, without the statement that follows."""
    return error.message.split("\n")[0]
