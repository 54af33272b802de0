"""Schedules and their ticks in schema app, by its functions only."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, Literal

from psycopg.rows import DictRow

from anabranch.adapters.postgres.database import Database
from anabranch.adapters.postgres.store.definitions import PostgresDefinitions
from anabranch.adapters.postgres.store.rows import read_rights, write_batch
from anabranch.canonical import JsonObject, encode
from anabranch.contract.answer import Page
from anabranch.contract.schedules import BackfillTick, ScheduleTick
from anabranch.engine.model import SessionId
from anabranch.engine.submitting.schedules.ports import MadeTick, ScheduleRow, Tick, TickPlan, WaitingTick
from anabranch.engine.submitting.submission import Submission
from anabranch.enums import Scope
from anabranch.platform.action_by import ActionBy
from anabranch.platform.schedules.ports import CheckedSchedule, Pin, SaveVerdict, StoredSchedule
from anabranch.storage.read_access import ReadRights
from anabranch.workflows.schedules.schedule import CatchUp, Overlap, Schedule

__all__ = ["PostgresSchedules", "PostgresTicks"]

DUTY = "scheduler"
BATCH_SCHEDULES = 100
BATCH_TICKS = 1_000
WATCH_KEYS = ("watch", "pattern", "stable_seconds", "poll_seconds", "existing")
ROW_FIELDS = frozenset(field.name for field in fields(ScheduleRow))
STORED_FIELDS = frozenset(field.name for field in fields(StoredSchedule)) - {"row", "declared"}


class PostgresTicks:
    """Schedules for the processes that make their ticks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_due(self, after: int) -> list[ScheduleRow]:
        """Some schedules with ticks to plan or make, in order, after one of them."""
        return [_row(row) for row in await self._database.call("find_due_schedules", after, BATCH_SCHEDULES)]

    async def find_waiting(self, after: int) -> list[WaitingTick]:
        """Some ticks that no job of an earlier one keeps any more, of schedules after one of them."""
        rows = await self._database.call("find_waiting_ticks", after, BATCH_SCHEDULES)
        return [WaitingTick(_row(row), Tick(row["at"], row["interval_start"])) for row in rows]

    async def make(
        self,
        session: SessionId,
        schedule: ScheduleRow,
        plan: TickPlan,
        submission: Submission | None,
        reason: str | None,
    ) -> MadeTick | None:
        """Follow a plan in one commit; None where no tick was made, or another process did."""
        missed = encode([{**_write_tick(one.tick), "reason": one.reason} for one in plan.missed])
        at, start = (plan.tick.at, plan.tick.interval_start) if plan.tick else (None, None)
        rows = await self._database.call(
            "tick_schedule", session, *_batch(submission), schedule.id, schedule.version, schedule.after,
            schedule.next_at, missed, at, start, reason, plan.next_at,
        )  # fmt: skip
        return _read_made(rows)

    async def start(
        self, session: SessionId, waiting: WaitingTick, submission: Submission | None, reason: str | None
    ) -> MadeTick | None:
        """Make the job of a tick that waits; None where another process does."""
        schedule, tick = waiting.schedule, waiting.tick
        known = schedule.id, schedule.version, tick.at
        rows = await self._database.call("start_waiting_tick", session, *_batch(submission), *known, reason)
        return _read_made(rows)

    async def rewind(self) -> int:
        """Plan schedules again that are ahead of the clock; how many."""
        return int(await _value(self._database, "rewind_schedules"))

    async def remove_old(self, age: timedelta) -> int:
        """Remove some old ticks; how many, and 0 at the end."""
        return int(await _value(self._database, "remove_ticks", age, BATCH_TICKS))

    async def note_turn(self, session: SessionId, every: timedelta) -> None:
        """Note that the duty is performed (O2)."""
        await self._database.call("note_turn", DUTY, session, every)


class PostgresSchedules:
    """Schedules as their owners see them; a platform of None is the operator's view of all."""

    def __init__(self, database: Database, definitions: PostgresDefinitions) -> None:
        self._database = database
        self._definitions = definitions

    async def list_schedules(
        self, platform: str | None, name: str | None, *, before: int | None, limit: int
    ) -> list[StoredSchedule]:
        """Schedules, the newest first."""
        rows = await self._database.call("list_schedules", platform, name, before, limit)
        return [_stored(row) for row in rows]

    async def save(
        self, platform: str, name: str, version: int | None, checked: CheckedSchedule, by: ActionBy, *, most: int
    ) -> SaveVerdict:
        """Add a schedule, or change the one that still has this version; or why that can't be."""
        await self._definitions.store((checked.workflow, *checked.parts))
        wanted = encode(_write_checked(name, checked))
        known = by.actor, by.scope, by.correlation_id
        verdict: SaveVerdict = await _value(
            self._database, "save_schedule", platform, name, version, wanted, most, *known
        )
        return verdict

    async def register(self, platform: str, found: Sequence[CheckedSchedule], *, complete: bool) -> list[str]:
        """Take over what workflow files declare; the names that other schedules have already."""
        for one in found:
            await self._definitions.store((one.workflow, *one.parts))
        wanted = [{**_write_checked(one.workflow.id, one), "by_scope": Scope.SUBMIT} for one in found]
        rows = await self._database.call("register_schedules", platform, encode(wanted), complete)
        return [row["taken"] for row in rows]

    async def pin(self, pins: Sequence[Pin]) -> int:
        """Pin schedules to the definitions that their workflows have now; how many."""
        for one in pins:
            if one.checked:
                await self._definitions.store((one.checked.workflow, *one.checked.parts))
        return int(await _value(self._database, "pin_schedules", encode([_write_pin(one) for one in pins])))

    async def pause(self, schedule: ScheduleRow, by: ActionBy, *, paused: bool) -> bool:
        """Pause or resume a schedule; False when there is no such one."""
        known = by.owner, schedule.id, paused, by.actor, by.correlation_id
        return bool(await _value(self._database, "pause_schedule", *known))

    async def remove(self, schedule: ScheduleRow, by: ActionBy) -> Literal["removed", "absent", "of_workflow"]:
        """Remove a schedule with its history."""
        known = by.owner, schedule.id, by.actor, by.correlation_id
        verdict: Literal["removed", "absent", "of_workflow"] = await _value(self._database, "remove_schedule", *known)
        return verdict

    async def run(
        self, session: SessionId, schedule: ScheduleRow, tick: Tick, submission: Submission, by: ActionBy
    ) -> MadeTick | None:
        """Make a manual tick with its job; None where the schedule was changed meanwhile."""
        rows = await self._database.call(
            "run_schedule", session, *_batch(submission), schedule.id, schedule.version, tick.at, tick.interval_start,
            by.actor, by.correlation_id,
        )  # fmt: skip
        return _read_made(rows)

    async def backfill(
        self, schedule: ScheduleRow, ticks: Sequence[Tick], by: ActionBy, *, dry_run: bool
    ) -> list[BackfillTick]:
        """Let ticks of the past wait for their jobs."""
        given = encode([_write_tick(tick) for tick in ticks])
        known = dry_run, by.actor, by.correlation_id
        rows = await self._database.call("backfill_schedule", schedule.id, given, *known)
        return [BackfillTick(scheduled_at=row.pop("at"), **row) for row in rows]

    async def find_rights(self, platform: str, tier: str) -> ReadRights:
        """What new jobs of a platform may read of a tier."""
        (row,) = await self._database.call("find_readable", platform, "", tier, [])
        return ReadRights(**row)

    async def history(self, schedule: ScheduleRow, *, before: datetime | None, limit: int) -> Page[ScheduleTick]:
        """The ticks of a schedule, the newest first."""
        rows = await self._database.call("list_ticks", schedule.id, before, limit + 1)
        more = rows[limit - 1]["at"].isoformat() if len(rows) > limit else None
        found = (
            ScheduleTick(scheduled_at=row.pop("at"), job_status=row.pop("job_state"), **row) for row in rows[:limit]
        )
        return Page(tuple(found), more)


async def _value(database: Database, function: str, *arguments: object) -> Any:  # each caller says which type
    (row,) = await database.call(function, *arguments)
    return next(iter(row.values()))


def _batch(submission: Submission | None) -> tuple[str, str]:
    return write_batch([submission] if submission else [])


def _read_made(rows: Sequence[DictRow]) -> MadeTick | None:
    if not rows:
        return None
    (row,) = rows
    return MadeTick(row["state"], row["job_id"], tuple(read_rights(row)))


def _row(row: DictRow) -> ScheduleRow:
    known = {name: value for name, value in row.items() if name in ROW_FIELDS}
    scope = row["by_scope"] and Scope(row["by_scope"])
    return ScheduleRow(**{**known, "cron": row["cron"] or "", "catch_up": CatchUp(row["catch_up"]), "by_scope": scope})


def _stored(row: DictRow) -> StoredSchedule:
    overlap, catch_up = Overlap(row["overlap"]), CatchUp(row["catch_up"])
    declared = Schedule(row["cron"], row["timezone"], row["inputs"], overlap, catch_up, **(row["watch"] or {}))
    known = {name: value for name, value in row.items() if name in STORED_FIELDS}
    return StoredSchedule(row=_row({**row, "next_at": None}), declared=declared, **known)


def _write_tick(tick: Tick) -> JsonObject:
    start = None if tick.interval_start is None else tick.interval_start.isoformat()
    return {"at": tick.at.isoformat(), "interval_start": start}


def _write_checked(name: str, checked: CheckedSchedule) -> JsonObject:
    declared = checked.schedule
    return {
        "name": name,
        "workflow": checked.workflow.id,
        "workflow_hash": checked.workflow.hash,
        "cron": declared.cron,
        "timezone": declared.timezone,
        "inputs": dict(declared.inputs or {}),
        "parameters": checked.parameters,
        "overlap": declared.overlap,
        "catch_up": declared.catch_up,
        "trouble": checked.trouble,
        "watch": None if declared.watch is None else {key: getattr(declared, key) for key in WATCH_KEYS},
    }


def _write_pin(pin: Pin) -> JsonObject:
    known: JsonObject = {"id": pin.row.id, "version": pin.row.version, "trouble": pin.trouble}
    if pin.checked is None:
        return known
    return {**known, "workflow_hash": pin.checked.workflow.hash, "parameters": pin.checked.parameters}
