"""Which ticks of a schedule get a job: a pure function of the schedule and the time."""

from datetime import datetime, timedelta

from anabranch.engine.submitting.schedules.ports import MissedTick, ScheduleRow, Tick, TickPlan, spell_instant
from anabranch.workflows.schedules.cron import list_last_ticks, next_tick
from anabranch.workflows.schedules.schedule import CatchUp

__all__ = ["MAX_CAUGHT_UP", "ON_TIME", "plan_ticks"]

MAX_CAUGHT_UP = 100
ON_TIME = timedelta(minutes=5)


def plan_ticks(schedule: ScheduleRow) -> TickPlan:
    """What to do with the ticks after the last one that was dealt with, up to now."""
    first = next_tick(schedule.cron, schedule.timezone, schedule.after)
    if first is None or first > schedule.now:
        return TickPlan(next_at=first)
    due = list_last_ticks(schedule.cron, schedule.timezone, schedule.after, schedule.now, MAX_CAUGHT_UP)
    chosen = _choose(schedule, due)
    later = [at for at in due if chosen is not None and at > chosen]
    missed = [] if schedule.catch_up is CatchUp.ALL else [at for at in due if at != chosen]
    return TickPlan(
        _explain(schedule, first, due[0], missed),
        None if chosen is None else _tick(schedule, chosen),
        later[0] if later else next_tick(schedule.cron, schedule.timezone, due[-1]),
    )


def _choose(schedule: ScheduleRow, due: list[datetime]) -> datetime | None:
    if schedule.catch_up is CatchUp.ALL:
        return due[0]
    is_late = schedule.now - due[-1] > ON_TIME
    return None if is_late and schedule.catch_up is CatchUp.NONE else due[-1]


def _explain(schedule: ScheduleRow, first: datetime, earliest: datetime, missed: list[datetime]) -> list[MissedTick]:
    """The missed ticks with the reason; of those before the last hundred, the first stands for all."""
    reason = f"it was missed, and catch_up is {schedule.catch_up}"
    before = [] if first >= earliest else [first]
    further = (
        f"it was missed with all ticks up to {spell_instant(earliest)}, of which the last {MAX_CAUGHT_UP} are kept"
    )
    return [
        *(MissedTick(_tick(schedule, at), further) for at in before),
        *(MissedTick(_tick(schedule, at), reason) for at in missed),
    ]


def _tick(schedule: ScheduleRow, at: datetime) -> Tick:
    return Tick.of(schedule.cron, schedule.timezone, at)
