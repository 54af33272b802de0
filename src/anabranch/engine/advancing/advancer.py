"""Advance jobs: load what a right's holder needs, plan, apply."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog

from anabranch.engine.advancing.evaluator import plan
from anabranch.engine.advancing.lanes import KeepLane, OpenLane
from anabranch.engine.advancing.node_outputs import Outputs
from anabranch.engine.advancing.transitions import (
    BeginCleanup,
    EndJob,
    Event,
    Facts,
    LaneEnded,
    Needs,
    SetJob,
    SetNode,
    Signalled,
    Started,
    TimeUp,
    Transition,
    Values,
)
from anabranch.engine.child_jobs import collect_children
from anabranch.engine.exhaustion import exhausted_error
from anabranch.engine.failure import Failure, describe_error
from anabranch.engine.model import (
    TERMINAL_STATES,
    ApplyResult,
    JobState,
    NodeState,
    Purpose,
    RightId,
    RightView,
    SessionId,
)
from anabranch.engine.ports import Applied, JobStore, Refused, SessionGone, TakenRight
from anabranch.engine.sessions.doorbell import Doorbell
from anabranch.engine.task_parameters import Definitions
from anabranch.errors import AnabranchError, Unavailable
from anabranch.storage.large_results import Results
from anabranch.workflows.definition import Workflow

__all__ = ["Advancer", "BackgroundAdvances", "end_orphans"]

log = structlog.get_logger()
RETRY_PAUSES_SECONDS = (0.1, 0.2, 0.5, 1, 1, 1, 1, 2, 2, 2, 2, 2)
MAX_BACKOFF = timedelta(seconds=60)


@dataclass(frozen=True)
class AdvanceResult:
    """How many rights were applied, and which could not be, each with the reason."""

    applied: int
    left: Mapping[TakenRight, str]


class Advancer:
    """Spends advance rights for one session."""

    def __init__(
        self, store: JobStore, session: SessionId, results: Results, in_hand: set[RightId] | None = None
    ) -> None:
        """For this session only: a new session needs a new one.

        `in_hand` gets the rights that are being spent or wait to be; the heartbeat renews them as long as they are.
        """
        self._store = store
        self._outputs = Outputs(store, results)
        self._session = session
        self._bell = Doorbell(store)
        self._definitions = Definitions(store)
        self._in_hand = set() if in_hand is None else in_hand

    async def advance(self, rights: Sequence[TakenRight]) -> AdvanceResult:
        """Spend rights and those that follow from them; the ones that can't be spent now are returned, still held."""
        waiting, applied, left = deque(rights), 0, dict[TakenRight, str]()
        self._in_hand.update(right.id for right in rights)
        while waiting:
            right, known = waiting.popleft(), dict[str, str]()
            try:
                spent = await self._advance_one(right, known)
            except SessionGone:
                raise
            except AnabranchError as error:
                log.warning("advance.interrupted", right=right.id, **known, reason=error.message)
                left[right] = error.message
                continue
            except Exception as error:  # a poison job hurts only itself (E10)
                log.exception("advance.failed", right=right.id, **known)
                left[right] = f"{type(error).__name__}: {error}"
                continue
            self._in_hand.discard(right.id)
            self._in_hand.update(made.id for made in spent.rights)
            applied += spent.result is ApplyResult.APPLIED
            waiting.extend(spent.rights)
        return AdvanceResult(applied, left)

    async def advance_patiently(self, rights: Sequence[TakenRight]) -> None:
        """Spend rights, with retries while the store is unavailable; in the end, free them for other processes."""
        left: Mapping[TakenRight, str] = dict.fromkeys(rights, "")
        for pause in RETRY_PAUSES_SECONDS:
            left = (await self.advance(list(left))).left
            if not left:
                return
            await asyncio.sleep(pause)
        await self._free(left)

    async def take_free(self, limit: int = 100, before: datetime | None = None) -> int:
        """Take free rights, and those of ended child jobs, and spend them; returns how many were applied.

        One that can't be spent becomes free again after a delay that doubles with every try. No timer ends when the
        server's clock is past `before`.
        """
        applied = 0
        for take in (partial(self._store.take_rights, self._session, limit, before), self.collect):
            spent = await self.advance(await take())
            applied += spent.applied
            await self._free(spent.left)
        return applied

    async def _free(self, left: Mapping[TakenRight, str]) -> None:
        self._in_hand.difference_update(right.id for right in left)  # if this fails, their lease ends
        for right, reason in left.items():
            delay = min(timedelta(seconds=2.0 ** min(right.takes - 1, 10)), MAX_BACKOFF)
            await self._store.free_rights(self._session, [right], reason=reason, delay=delay)

    async def _advance_one(self, right: TakenRight, known: dict[str, str]) -> Applied:
        """Spend one right; the ids of its job, for log lines, are put into `known`."""
        while True:
            view = await self._store.load_right(right, self._session)
            if view is None:
                return Applied(ApplyResult.RIGHT_LOST, ())
            known.update(_ids(view))
            transitions = await self._plan(view)
            try:
                applied = await self._store.apply(right, self._session, view, transitions)
            except Refused as error:
                transitions = await self._fail_job(view, describe_error(error))
                applied = await self._store.apply(right, self._session, view, transitions)
            if applied.result is ApplyResult.APPLIED:
                self._ring(view, transitions)
                return Applied(applied.result, (*applied.rights, *await self._follow(view, transitions)))
            if applied.result is ApplyResult.RIGHT_LOST:
                return applied

    async def _follow(self, view: RightView, transitions: Sequence[Transition]) -> list[TakenRight]:
        """After a job's end, or that of its work: cancel its child jobs, and report to its parent."""
        if not any(map(_ends, transitions)):
            return []
        if (await self._definitions.get(view.workflow_hash)).parts:
            await end_orphans(self._store)
        return await self.collect() if view.is_child else []

    async def collect(self) -> list[TakenRight]:
        """Report ended child jobs to their tasks; returns the new rights."""
        return await collect_children(self._store, self._session, self._outputs.results)

    async def _plan(self, view: RightView) -> tuple[Transition, ...]:
        try:
            planned = await self._evaluate(await self._definitions.get(view.workflow_hash), view)
            return await self._outputs.put_aside(view.job_id, planned)
        except (Unavailable, Refused):  # what can't be read now is not the job's fault
            raise
        except OSError as error:
            raise exhausted_error(error) from error
        except Exception as error:  # a poison job hurts only itself (E10)
            log.exception("job.plan_failed", **_ids(view))
            return await self._fail_job(view, describe_error(error))

    async def _fail_job(self, view: RightView, failure: Failure) -> tuple[Transition, ...]:
        """Fail a job that can't be planned; its cleanup runs if it had begun, unless that is what can't be planned."""
        if view.state in TERMINAL_STATES:
            return ()
        try:
            cleanup = (await self._definitions.get(view.workflow_hash)).cleanup
        except (Unavailable, Refused):
            raise
        except Exception:  # noqa: BLE001  # it is what can't be planned (E10)
            cleanup = ()
        runs_cleanup = bool(cleanup) and view.ending is None and view.state is not JobState.PENDING
        open_nodes = (
            name
            for name, state in view.states.items()
            if state in (NodeState.PENDING, NodeState.RUNNING) and not (runs_cleanup and name in cleanup)
        )
        nodes = (SetNode(name, _fate(view, name), failure if name == view.node else None) for name in open_nodes)
        end = SetJob(JobState.FAILED, failure)
        if runs_cleanup:
            return (*nodes, BeginCleanup(end))
        return (*nodes, end if view.ending in (None, JobState.COMPLETED) else EndJob())

    async def _evaluate(self, workflow: Workflow, view: RightView) -> tuple[Transition, ...]:
        """Plan, and load the outputs that turn out to be needed, until nothing is missing."""
        values: Values = {}
        facts = Facts(
            view.job_id, view.parameters, view.states, view.taken, view.failure, state=view.state, kept=view.kept,
            tick=view.tick, ending=view.ending,
        )  # fmt: skip
        while True:
            planned = plan(workflow, facts, _event(view), values)
            if not isinstance(planned, Needs):
                return planned
            plain = [ref for ref in planned.references if ref not in planned.sources]
            looked_up = await self._outputs.look_up(view.job_id, plain) if plain else []
            values = {**values, **{ref.path: value for ref, value in zip(plain, looked_up, strict=True)}}
            for ref in planned.references & planned.sources:
                values = {**values, ref.path: await self._outputs.look_up_items(view.job_id, ref)}

    def _ring(self, view: RightView, transitions: Sequence[Transition]) -> None:
        for change in transitions:
            if isinstance(change, SetJob):
                log.info("job.status_changed", **_ids(view), state=change.state)
            elif isinstance(change, BeginCleanup):
                log.info("job.ending", **_ids(view), state=change.end.state)
            elif isinstance(change, EndJob):
                log.info("job.status_changed", **_ids(view), state=view.ending)
        self._bell.ring({change.queue for change in transitions if isinstance(change, OpenLane | KeepLane)})


class BackgroundAdvances:
    """Spends rights in background tasks, and wakes the process's loop when one is done."""

    def __init__(self, advancer: Advancer, wake: asyncio.Event) -> None:
        self._advancer = advancer
        self._wake = wake
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many are running."""
        return len(self._tasks)

    def start(self, rights: Sequence[TakenRight]) -> None:
        """Start to spend rights, if there are any."""
        if rights:
            task = asyncio.create_task(self._advance(rights))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """Stop: other processes have the rights now."""
        for task in self._tasks:
            task.cancel()

    async def _advance(self, rights: Sequence[TakenRight]) -> None:
        try:
            await self._advancer.advance_patiently(rights)
        except (AnabranchError, OSError) as error:  # an orchestrator takes the right when it is free again
            log.warning("advance.interrupted", reason=str(error))

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._wake.set()


async def end_orphans(store: JobStore) -> None:
    """Cancel the child jobs whose task has ended, and their children."""
    while await store.cancel_orphans():
        pass


def _ids(view: RightView) -> dict[str, str]:
    return {"job": view.job_id, "correlation_id": view.correlation_id}


def _event(view: RightView) -> Event:
    match view.purpose:
        case Purpose.START:
            return Started()
        case Purpose.GATE | Purpose.WAIT:  # a signal in the last moment counts
            return Signalled(view.node, view.signal[0]) if view.signal else TimeUp(view.node)
        case _:
            return LaneEnded(view.node, view.purpose, view.failed or 0, view.error, view.width or 0)


def _ends(change: Transition) -> bool:
    return isinstance(change, BeginCleanup | EndJob) or (isinstance(change, SetJob) and change.state in TERMINAL_STATES)


def _fate(view: RightView, name: str) -> NodeState:
    if name == view.node:
        return NodeState.FAILED
    return NodeState.SKIPPED if view.states[name] is NodeState.PENDING else NodeState.CANCELLED
