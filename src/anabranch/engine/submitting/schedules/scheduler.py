"""The duty that makes the jobs of schedules."""

import asyncio
import time
from datetime import timedelta
from functools import partial
from uuid import uuid4

import structlog

from anabranch.engine.advancing.advancer import BackgroundAdvances
from anabranch.engine.advancing.lanes import OpenLane
from anabranch.engine.model import SessionId
from anabranch.engine.ports import Refused, SessionGone
from anabranch.engine.sessions.doorbell import Doorbell
from anabranch.engine.submitting.schedules.planning import plan_ticks
from anabranch.engine.submitting.schedules.ports import (
    MadeTick,
    ScheduleRow,
    Tick,
    TickStore,
    WaitingTick,
    spell_instant,
)
from anabranch.engine.submitting.submission import Submission, prepare_submission
from anabranch.engine.task_parameters import Definitions
from anabranch.errors import AnabranchError
from anabranch.workflows.definition import Workflow
from anabranch.workflows.inputs import check_inputs
from anabranch.workflows.schedules.schedule import mix_inputs

__all__ = ["Scheduler", "build_submission"]

log = structlog.get_logger()
POLL_SECONDS = 1.0
TURN_INTERVAL = timedelta(seconds=5)
CLEAN_INTERVAL = timedelta(minutes=10)
RETRY_INTERVAL = timedelta(minutes=1)
KEEP_TICKS = timedelta(days=90)


class Scheduler:
    """Makes ticks under the session of its process; several processes may do so at once."""

    def __init__(
        self,
        store: TickStore,
        definitions: Definitions,
        advances: BackgroundAdvances,
        bell: Doorbell,
        session: SessionId,
    ) -> None:
        """Jobs begin in the commit that makes them; `advances` spend what rights are left."""
        self._store = store
        self._definitions = definitions
        self._advances = advances
        self._bell = bell
        self._session = session
        self._retry_at: dict[int, float] = {}
        self._turn_at = self._clean_at = 0.0

    async def run(self) -> None:
        """Make ticks until cancelled."""
        while True:
            is_busy = False
            try:
                await self._keep_up()
                is_busy = await self.make_due()
            except AnabranchError as error:
                log.warning("scheduler.interrupted", reason=error.message)
            except Exception:  # the loop must go on; without its heartbeat, health shows it
                log.exception("scheduler.failed")
            if not is_busy:
                await asyncio.sleep(POLL_SECONDS)

    async def make_due(self) -> bool:
        """Make one tick of each schedule that is due, and those that waited; whether there was any."""
        count, after = 0, 0
        while due := await self._store.find_due(after):
            after = due[-1].id
            count += sum([await self._try(schedule, None) for schedule in due])
        after = 0
        while waiting := await self._store.find_waiting(after):
            after = waiting[-1].schedule.id
            count += sum([await self._try(one.schedule, one) for one in waiting])
        return count > 0

    async def _keep_up(self) -> None:
        """Follow a clock that was set back, note that the duty is performed, and remove old ticks, now and then."""
        if time.monotonic() >= self._turn_at:
            await self._store.note_turn(self._session, TURN_INTERVAL)
            await self._store.rewind()
            self._turn_at = time.monotonic() + TURN_INTERVAL.total_seconds()
        if time.monotonic() >= self._clean_at and not await self._store.remove_old(KEEP_TICKS):
            self._clean_at = time.monotonic() + CLEAN_INTERVAL.total_seconds()

    async def _try(self, schedule: ScheduleRow, waiting: WaitingTick | None) -> bool:
        """Make a tick; one schedule that can't be understood must not keep the others from theirs (E10)."""
        if time.monotonic() < self._retry_at.get(schedule.id, 0):
            return False
        try:
            made = await (self._make(schedule) if waiting is None else self._start(waiting))
        except SessionGone:
            raise
        except AnabranchError as error:
            log.warning(
                "schedule.interrupted", schedule=schedule.name, platform=schedule.platform, reason=error.message
            )
            return False
        except Exception:
            log.exception("schedule.failed", schedule=schedule.name, platform=schedule.platform)
            self._retry_at[schedule.id] = time.monotonic() + RETRY_INTERVAL.total_seconds()
            return False
        return made is not None and made.state != "waiting"

    async def _make(self, schedule: ScheduleRow) -> MadeTick | None:
        plan = plan_ticks(schedule)
        if plan.tick is None:
            return await self._store.make(self._session, schedule, plan, None, None)
        submission, reason = await self._prepare(schedule, plan.tick)
        try:
            made = await self._store.make(self._session, schedule, plan, submission, reason)
        except Refused as error:  # the fault of what is submitted: the tick fails, and the next one has its chance
            made = await self._store.make(self._session, schedule, plan, None, error.message)
        return self._note(schedule, plan.tick, submission, made)

    async def _start(self, waiting: WaitingTick) -> MadeTick | None:
        submission, reason = await self._prepare(waiting.schedule, waiting.tick)
        try:
            made = await self._store.start(self._session, waiting, submission, reason)
        except Refused as error:
            made = await self._store.start(self._session, waiting, None, error.message)
        return self._note(waiting.schedule, waiting.tick, submission, made)

    async def _prepare(self, schedule: ScheduleRow, tick: Tick) -> tuple[Submission | None, str | None]:
        """What a tick submits, or why it can't."""
        if schedule.trouble is not None:
            return None, schedule.trouble
        workflow = await self._definitions.get(schedule.workflow_hash)
        build = partial(build_submission, schedule, workflow, tick)
        return prepare_submission(build, schedule=schedule.name, platform=schedule.platform)

    def _note(
        self, schedule: ScheduleRow, tick: Tick, submission: Submission | None, made: MadeTick | None
    ) -> MadeTick | None:
        if made is None:
            return None
        log.info("schedule.ticked", schedule=schedule.name, platform=schedule.platform, at=tick.at.isoformat(),
                 state=made.state, job=made.job_id)  # fmt: skip
        if made.job_id is not None and submission is not None:
            self._bell.ring(one.queue for one in submission.first_transitions or () if isinstance(one, OpenLane))
            self._advances.start(made.rights)
        return made


def build_submission(schedule: ScheduleRow, workflow: Workflow, tick: Tick, by: str | None = None) -> Submission:
    """The job of a tick: its scope is the schedule and the tick, so that equal inputs make another job.

    InputError, or ExpressionError, where the workflow does not take what its inputs are at the tick.
    """
    times = tick.times
    mixed = mix_inputs(schedule.parameters, schedule.inputs, {"job": times})
    return Submission(
        workflow,
        mixed if workflow.inputs is None else check_inputs(workflow.inputs, mixed),
        f"schedule:{schedule.id}/{spell_instant(tick.at)}",
        workflow.priority,
        rerun=False,
        correlation_id=str(uuid4()),
        begins=True,
        by=by or f"schedule:{schedule.name}",
        labels={"schedule": schedule.name},
        by_scope=schedule.by_scope,
        platform=schedule.platform,
        tick=times,
    ).sound()
