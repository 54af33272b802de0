"""Run the attempts in hand where each handler wants to run, and say how they ended."""

import asyncio
import errno
import os
import shutil
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from anabranch.canonical import Json, encode
from anabranch.engine.child_jobs import ChildJobs, is_child_job
from anabranch.engine.environment import Environment, is_exhausted
from anabranch.engine.failure import CRASH_LIMIT, describe_error, next_delay
from anabranch.engine.filling import Definitions, Given, fill_in
from anabranch.engine.model import Claim, Ended, Purpose, Report, SessionId
from anabranch.engine.plugin import Registry
from anabranch.engine.ports import Store, TakenRight
from anabranch.engine.worker.checkpoints import CheckpointWriter
from anabranch.engine.worker.child import Saved
from anabranch.engine.worker.children import ChildDied, Children, Overdue
from anabranch.engine.worker.context import NoLink
from anabranch.engine.worker.handler import place_of
from anabranch.engine.worker.perform import Call, Outcome, perform, perform_async
from anabranch.engine.worker.result_file import collect_results
from anabranch.errors import AnabranchError, Interrupted, TaskError, Unavailable
from anabranch.storage.results import Results
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import ExpressionError
from anabranch.workflows.handlers import Handler, Runs

__all__ = ["Held", "Runner"]

log = structlog.get_logger()
MISSING = {"handler.missing": timedelta(seconds=1), "workflow.unreadable": timedelta(seconds=30)}
MAX_DELAY_SECONDS = 30
FREE_ATTEMPTS = 5
QUICK = timedelta(seconds=10)
TURN = timedelta(milliseconds=50)
SPOOLED = ".results"
# How long a large result waits for storage that does not answer; a quick handler's thread is needed by others.
PAUSES_SECONDS = (0.2, 1.0, 3.0, 10.0, 20.0, 30.0)
QUICK_PAUSES_SECONDS = (0.2, 1.0)
UNSTORED_DELAY = timedelta(seconds=30)


@dataclass(eq=False, slots=True)
class Held:
    """A task in hand, from its claim to the answer to its report."""

    claim: Claim
    taken: float
    workflow: Workflow | None = None
    fault: AnabranchError | None = None
    started: bool = False
    ended: bool = False
    given_up: bool = False
    cancelled: bool = False
    stopping: bool = False
    said: dict[str, Json] | None = None
    told: dict[str, Json] | None = None
    begun: float = 0.0
    rights: tuple[TakenRight, ...] = ()

    @property
    def runs_too_long(self) -> bool:
        """Whether a quick handler runs longer than its time, or than any quick one may."""
        limit = min(QUICK, self.claim.lane.policy.timeout).total_seconds()
        return self.begun > 0 and not self.ended and time.monotonic() - self.begun > limit

    @property
    def call_id(self) -> tuple[str, int]:
        """The attempt, as the children know it."""
        return self.claim.task_id, self.claim.attempt

    def progress(self, progress: dict[str, Json]) -> None:
        """Note how far it is; the heart tells the store."""
        self.said = progress


class _Line:
    """The worker's end of the line of a handler that runs in a child or in the loop."""

    def __init__(self, held: Held, keeper: CheckpointWriter) -> None:
        """Made in the loop."""
        self._held = held
        self._keeper = keeper
        self._loop = asyncio.get_running_loop()
        self._saved = 0

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled."""
        return self._held.cancelled

    @property
    def stopping(self) -> bool:
        """Whether the worker is about to stop."""
        return self._held.stopping

    def end(self) -> None:
        """Note that the handler's answer is here: whatever comes now, it counts (W3)."""
        self._held.ended = True

    def progress(self, progress: dict[str, Json]) -> None:
        """Note how far it is."""
        self._held.progress(progress)

    def save(self, phase: str, state: str) -> Callable[[], Awaitable[None]]:
        """For a handler in the loop: what it must await."""
        self._saved += 1
        return partial(self._save, Saved(self._saved, phase, state))

    def keep(self, saved: Saved) -> "Future[TaskError | None]":
        """For a handler in a child, from the thread that waits for it."""
        return asyncio.run_coroutine_threadsafe(self._keep(saved), self._loop)

    async def _save(self, saved: Saved) -> None:
        if error := await self._keep(saved):
            raise error

    async def _keep(self, saved: Saved) -> TaskError | None:
        claim = self._held.claim
        error = await self._keeper.keep(claim.fence, saved.number, saved.phase, saved.state)
        if isinstance(error, Interrupted):
            log.warning("checkpoint.stale", task=claim.task_id, attempt=claim.attempt)
            self._held.cancelled = True
        return error


class Runner:
    """Runs attempts: async ones in the loop, quick ones in a thread, all others in children."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        children: Children,
        results: Results,
        scratch: Path,
        thread: Executor,
        session: SessionId,
    ) -> None:
        """With these parts, for this session; `thread` runs quick handlers, one at a time."""
        self._store = store
        self._registry = registry
        self._children = children
        self.results = results
        self._definitions = Definitions(store)
        self._keeper = CheckpointWriter(store, session)
        self._child_jobs = ChildJobs(store, registry, self._definitions, session)
        self._scratch = scratch
        self._thread = thread
        self.environment = Environment(scratch)
        self._now: Held | None = None
        self._beginning = threading.Lock()
        self.quick_busy = False
        self.quick_moved = 0.0
        self.stuck = False

    def is_quick(self, claim: Claim) -> bool:
        """Whether a task may run in the quick thread; one that crashed before runs alone in a child."""
        found = self._handler(claim)
        return found is not None and found.runs is Runs.QUICKLY and not claim.crashes and not claim.lane.shape.previous

    async def run(self, chunk: Sequence[Held]) -> Sequence[tuple[Held, Report | None]]:
        """Run attempts to their end: one of any kind, or several quick ones, of which some may have had no turn. None
        for a report: the task became a job of its own."""
        if is_child_job(chunk[0].claim):
            return [(chunk[0], await self._spawn(chunk[0]))]
        if not self.is_quick(chunk[0].claim):
            return [(chunk[0], await self._run_one(chunk[0]))]
        self.quick_busy = True
        for held in chunk:
            try:
                held.workflow = await self._define(held.claim)
            except AnabranchError as error:
                held.fault = error
        done = asyncio.get_running_loop().run_in_executor(self._thread, self._run_quick, chunk)
        while not done.done():
            await asyncio.wait([done], timeout=QUICK.total_seconds() / 10)
            if not done.done() and self._now is not None and self._now.runs_too_long:
                self.stuck = True
                return [(held, _stuck(held)) for held in chunk]
        self.quick_busy = False
        return done.result()

    def give_up(self, held: Held) -> bool:
        """Keep a task from being begun; False when it has begun."""
        with self._beginning:
            held.given_up = held.given_up or not held.started
            return not held.started

    def tell_cancelled(self, held: Held) -> None:
        """Tell a running handler that it is cancelled."""
        held.cancelled = True
        self._children.tell(held.call_id, signal.SIGUSR1)

    def tell_stopping(self, held: Held) -> None:
        """Tell a running handler that the worker stops."""
        held.stopping = True
        self._children.tell(held.call_id, signal.SIGTERM)

    def kill(self, held: Held) -> bool:
        """Kill the child that runs it; False when its handler does not run in one."""
        return self._children.kill(held.call_id)

    def _handler(self, claim: Claim) -> Handler | None:
        return self._registry.handlers.get(claim.handler) if claim.lane.purpose is Purpose.WORK else None

    def _run_quick(self, chunk: Sequence[Held]) -> list[tuple[Held, Report | None]]:
        """Run one after the other for a short time; what had no turn may go to others meanwhile."""
        ran: list[tuple[Held, Report | None]] = []
        deadline = time.monotonic() + TURN.total_seconds()
        for held in list(chunk):
            if ran and time.monotonic() > deadline:
                break
            with self._beginning:
                if held.given_up:
                    continue
                held.started = True
            ran.append((held, self._run_quickly(held)))
            self.quick_moved = time.monotonic()
        return ran

    def _run_quickly(self, held: Held) -> Report:
        if held.fault is not None:
            return _undefined(held, held.fault)
        held.begun = time.monotonic()
        self._now = held
        folder = self._folder(held.claim)
        try:
            call = Call.of(held.claim, _params(held), folder, self.results)
            performed = perform(self._registry, call, NoLink(), self._children.resources)
            if performed.has_scratch:
                shutil.rmtree(folder, ignore_errors=True)
            self._check_descriptors(held, performed)
            report = self._settle(held, performed, time.monotonic() - held.begun, QUICK_PAUSES_SECONDS)
            self.environment.note_success()
        except ExpressionError as error:
            report = _failed(held.claim, _unfilled(error), timedelta(0), None)
        except Unavailable as error:
            report = _for_others(held, error)
        except Exception as error:  # noqa: BLE001  # one task of a chunk must not take the others with it
            if is_exhausted(error, in_handler=False):
                report = _for_others(held, self.environment.note_failure(error))
            else:
                report = _failed(held.claim, {**describe_error(error), "category": "bug"}, timedelta(0), None)
        held.ended = True
        return report

    async def _spawn(self, held: Held) -> Report | None:
        try:
            held.workflow = await self._define(held.claim)
            spawned = await self._child_jobs.spawn(held.claim, _params(held))
        except Unavailable as error:
            return _for_others(held, error)
        except ExpressionError as error:
            return _failed(held.claim, _unfilled(error), timedelta(0), None)
        except OSError as error:
            return _for_others(held, self.environment.note_failure(error))
        except (AnabranchError, ValueError) as error:
            return _failed(held.claim, describe_error(error), timedelta(0), None)
        if spawned is None:
            return _again(held)
        held.rights = spawned.rights
        log.info("job.spawned", **held.claim.ids, child=spawned.job_id)
        return None

    async def _run_one(self, held: Held) -> Report:
        try:
            report = await self._run_to_end(held)
        except Unavailable as error:
            if error.code == "worker.no_children":
                self.environment.note_failure(error)
            return _for_others(held, error)
        except Exception as error:
            if not is_exhausted(error, in_handler=False):
                raise
            return _for_others(held, self.environment.note_failure(error))
        self.environment.note_success()
        return report

    async def _run_to_end(self, held: Held) -> Report:
        """Run a task; Unavailable, or what `is_exhausted` knows, when it could not run here."""
        begun = time.perf_counter()
        try:
            performed = await self._perform(held)
        except ChildDied as error:
            return self._died(held, error, time.perf_counter() - begun)
        except Overdue as error:
            performed = Outcome(error=error.error, log=error.log)
        except Unavailable:
            raise
        except ExpressionError as error:
            performed = Outcome(error=_unfilled(error))
        except (AnabranchError, ValueError) as error:
            performed = Outcome(error=describe_error(error))
        finally:
            await asyncio.to_thread(_remove, self._folder(held.claim))
        return await asyncio.to_thread(self._settle, held, performed, time.perf_counter() - begun)

    async def _perform(self, held: Held) -> Outcome:
        claim, policy = held.claim, held.claim.lane.policy
        found = self._handler(claim)
        if found is None and claim.lane.purpose is Purpose.WORK:
            raise Unavailable("handler.missing", f"this worker has no handler {claim.handler!r}")
        previous = await self._load_previous(claim)
        held.workflow = await self._define(claim)
        call = await asyncio.to_thread(Call.of, claim, _params(held), self._folder(claim), self.results, previous)
        longest = policy.timeout
        held.begun = time.monotonic()
        held.started = True
        if found is not None and found.runs is Runs.IN_LOOP and not claim.crashes:
            try:
                performing = perform_async(found, call, _Line(held, self._keeper), self._children.resources)
                performed = await asyncio.wait_for(performing, longest.total_seconds())
                held.ended = True
                self._check_descriptors(held, performed)
                return performed
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task and task.cancelling():
                    raise
                return Outcome(error=describe_error(error))  # the handler cancelled itself
            except TimeoutError:
                raise Overdue("task.timed_out", f"it ran longer than {longest.total_seconds():g} s", None) from None
        alone = claim.crashes > 0 or (found is not None and found.runs is Runs.HEAVILY)
        return await self._children.run(call, longest, policy.heartbeat_timeout, _Line(held, self._keeper), alone=alone)

    def _check_descriptors(self, held: Held, performed: Outcome) -> None:
        """Raise when a handler in this process had no descriptors: that is the worker's trouble, for a while (E1)."""
        if performed.lacked_descriptors and held.claim.attempt <= FREE_ATTEMPTS:
            raise self.environment.note_failure(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))

    async def _define(self, claim: Claim) -> Workflow | None:
        """The workflow whose template a task's parameters are filled into, where they are."""
        has_template = claim.lane.values is not None
        return await self._definitions.get(claim.lane.workflow_hash) if has_template else None

    async def _load_previous(self, claim: Claim) -> Sequence[Json] | None:
        if (node := claim.lane.shape.previous) is None:
            return None
        path = self._folder(claim) + SPOOLED
        return await collect_results(self._store, self.results, claim.lane.job_id, node, path)

    def _settle(
        self, held: Held, performed: Outcome, seconds: float, pauses: Sequence[float] = PAUSES_SECONDS
    ) -> Report:
        claim, ran = held.claim, timedelta(seconds=seconds)
        in_time = performed.error is None and not held.cancelled
        if performed.interrupted or (held.given_up and not in_time):
            return Report(claim.fence, Ended.HANDED_BACK, log=performed.log)
        if performed.error is not None or performed.result is None:
            return _failed(claim, dict(performed.error or {}), ran, performed.log, performed.metrics)
        ended, body = Ended.COMPLETED, performed.result
        try:
            if claim.lane.purpose is not Purpose.PLAN and self.results.is_large(body):
                ended, body = Ended.REFERENCED, self._put_aside(claim, body, pauses)
        except TaskError as error:
            return _failed(claim, describe_error(error), ran, performed.log)
        except Unavailable as error:  # our own storage: that is not the handler's fault (E9)
            log.error("task.result_unstored", **claim.ids, reason=str(error))
            return Report(
                claim.fence, Ended.HANDED_BACK, encode(describe_error(error)), UNSTORED_DELAY, log=performed.log
            )
        return Report(claim.fence, ended, body, None, ran, performed.log, performed.metrics, performed.handed)

    def _put_aside(self, claim: Claim, body: str, pauses: Sequence[float]) -> str:
        """Put a large result into the work area, again and again while that does not answer; its reference."""
        name = f"{claim.key.lane}-{claim.key.place}-{claim.attempt}"
        for pause in pauses:
            try:
                return self.results.put_aside(claim.lane.job_id, claim.lane.node, name, body)
            except Unavailable as error:
                log.warning("task.result_waits", **claim.ids, reason=str(error))
                time.sleep(pause)
        return self.results.put_aside(claim.lane.job_id, claim.lane.node, name, body)

    def _died(self, held: Held, error: ChildDied, seconds: float) -> Report:
        claim = held.claim
        if held.given_up or held.stopping:  # whoever stops the worker may end its children first
            return Report(claim.fence, Ended.HANDED_BACK, log=error.log)
        log.error("task.crashed", **claim.ids, reason=str(error), orphaned=error.orphaned)
        last = claim.crashes + 1 >= CRASH_LIMIT
        body = encode(self._describe_crash(claim, error))
        # All children of a server die with it: the first time nobody can tell whose fault it was.
        ended = Ended.SUSPECT if error.orphaned and not claim.crashes else Ended.FAILED if last else Ended.CRASHED
        return Report(claim.fence, ended, body, None, timedelta(seconds=seconds), error.log)

    def _describe_crash(self, claim: Claim, error: ChildDied) -> dict[str, Json]:
        """A process that died can't say where it was; the handler's own place is the nearest that is known."""
        described: dict[str, Json] = {
            "code": "handler.crashed", "message": str(error), "category": "resource", "type": error.ended_by
        }  # fmt: skip
        found = self._handler(claim)
        return {**described, "where": place_of(found)} if found else described

    def _folder(self, claim: Claim) -> str:
        return f"{self._scratch}/{claim.key.lane}-{claim.key.place}-{claim.attempt}"


def _params(held: Held) -> dict[str, Json]:
    claim = held.claim
    if held.workflow is None:
        return claim.parameters
    given = Given(claim.lane.job_id, claim.lane.parameters, claim.lane.values, claim.item, claim.index)
    return fill_in(held.workflow.node(claim.lane.node), given)


def _undefined(held: Held, error: AnabranchError) -> Report:
    """What becomes of a task whose workflow can't be read here: another worker may be able to, unless it is gone."""
    if isinstance(error, Unavailable):
        return _for_others(held, error)
    log.warning("task.undefined", **held.claim.ids, code=error.code, reason=error.message)
    return _failed(held.claim, describe_error(error), timedelta(0), None)


def _unfilled(error: ExpressionError) -> dict[str, Json]:
    return {"code": "expression.failed", "message": error.message, "category": "permanent"}


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        Path(folder + SPOOLED).unlink(missing_ok=True)


def _stuck(held: Held) -> Report:
    """A thread can't be killed: what began in it runs alone in a child next time, what had not is free."""
    body = encode({"code": "task.timed_out", "message": "it blocked the worker's thread", "category": "transient"})
    ended = Ended.CRASHED if held.started and not held.ended else Ended.HANDED_BACK
    return Report(held.claim.fence, ended, body)


def _again(held: Held) -> Report:
    return Report(held.claim.fence, Ended.HANDED_BACK)


def _for_others(held: Held, error: Unavailable) -> Report:
    """Hand a task back that can't run here. What this worker lacks costs no attempt, however often it is met."""
    log.warning("task.handed_back", **held.claim.ids, code=error.code, reason=error.message)
    described = encode(describe_error(error))
    if error.code in MISSING:
        return Report(held.claim.fence, Ended.MISSING, described, MISSING[error.code])
    seconds = min(2.0 ** (min(held.claim.attempt, 10) - 1), MAX_DELAY_SECONDS)
    return Report(held.claim.fence, Ended.HANDED_BACK, described, timedelta(seconds=seconds))


def _failed(
    claim: Claim, error: dict[str, Json], ran: timedelta, printed: str | None, metrics: str | None = None
) -> Report:
    delay = next_delay(claim.lane.policy.retry, claim.failures, error)
    ended = Ended.FAILED if delay is None else Ended.RETRY
    log.warning("task.failed", **claim.ids, end=ended, code=error.get("code"))
    return Report(claim.fence, ended, encode(error), delay, ran, printed, metrics)
