"""Runs claimed attempts where their handlers want to run, and makes their reports."""

import asyncio
import errno
import os
import shutil
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import structlog

from anabranch.canonical import Json, JsonObject
from anabranch.durations import spell_duration
from anabranch.engine.child_jobs import ChildJobs, is_child_job
from anabranch.engine.exhaustion import FREE_ATTEMPTS, Environment, is_exhausted, is_free_attempt
from anabranch.engine.failure import CRASH_LIMIT, Failure, describe_error, next_delay
from anabranch.engine.model import Claim, Ended, Purpose, Report, SessionId
from anabranch.engine.ports import NO_TRACER, Span, Store, Tracer
from anabranch.engine.registry import Registry
from anabranch.engine.sessions.live_session import HeldTask
from anabranch.engine.task_parameters import Definitions, TaskValues, fill_in
from anabranch.engine.worker.checkpoints import CheckpointWriter, HandlerLine
from anabranch.engine.worker.context import NoLink
from anabranch.engine.worker.handler import place_of
from anabranch.engine.worker.perform import Call, Outcome, perform, perform_async
from anabranch.engine.worker.previous_results import collect_results
from anabranch.engine.worker.processes.pool import ChildDied, HandlerProcesses, Overdue
from anabranch.errors import AnabranchError, TaskError, Unavailable
from anabranch.storage.large_results import Results
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import ExpressionError
from anabranch.workflows.work import Handler, Runs

__all__ = ["Runner"]

log = structlog.get_logger()
MISSING_DELAYS = {"handler.missing": timedelta(seconds=1), "workflow.unreadable": timedelta(seconds=30)}
MAX_DELAY_SECONDS = 30
MAX_QUICK_TIME = timedelta(seconds=10)
QUICK_TURN_TIME = timedelta(milliseconds=50)
RESULTS_SUFFIX = ".results"
# How long a large result waits for storage that does not answer; a quick handler's thread is needed by others.
STORAGE_PAUSES_SECONDS = (0.2, 1.0, 3.0, 10.0, 20.0, 30.0)
QUICK_STORAGE_PAUSES_SECONDS = (0.2, 1.0)
NO_RESULT = Failure(code="task.failed", message="it ended without a result")


class Runner:
    """Runs attempts: async ones in the loop, quick ones in a thread, all others in children."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        children: HandlerProcesses,
        results: Results,
        scratch: Path,
        session: SessionId,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._store = store
        self._tracer = tracer
        self._registry = registry
        self._children = children
        self.results = results
        self._definitions = Definitions(store)
        self._checkpoints = CheckpointWriter(store, session)
        self._child_jobs = ChildJobs(store, registry, self._definitions, session)
        self._scratch = scratch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="quick")
        self.environment = Environment(scratch)
        self._now: HeldTask | None = None
        self._beginning = threading.Lock()
        self.quick_busy = False
        self.quick_moved = 0.0
        self.stuck = False

    def is_quick(self, claim: Claim) -> bool:
        """Whether a task may run in the quick thread; one that crashed before runs alone in a child."""
        found = self._handler(claim)
        return found is not None and found.runs is Runs.QUICKLY and not claim.crashes and not claim.lane.shape.collected

    async def run(self, chunk: Sequence[HeldTask]) -> Sequence[tuple[HeldTask, Report | None]]:
        """Run attempts to their end: one of any kind, or several quick ones, of which some may have had no turn. None
        for a report: the task became a job of its own."""
        if is_child_job(chunk[0].claim):
            return [(chunk[0], await self._run_traced(chunk[0], self._spawn))]
        if not self.is_quick(chunk[0].claim):
            return [(chunk[0], await self._run_traced(chunk[0], self._run_one))]
        self.quick_busy = True
        for held in chunk:
            try:
                held.workflow = await self._define(held.claim)
            except AnabranchError as error:
                held.fault = error
        try:
            done = asyncio.get_running_loop().run_in_executor(self._thread, self._run_quick, chunk)
        except RuntimeError:  # there is no thread for it now
            self.quick_busy = False
            raise
        while not done.done():
            await asyncio.wait([done], timeout=MAX_QUICK_TIME.total_seconds() / 10)
            if not done.done() and self._now is not None and _runs_too_long(self._now):
                self.stuck = True
                return [(held, _stuck(held)) for held in chunk]
        self.quick_busy = False
        return done.result()

    def give_up(self, held: HeldTask) -> bool:
        """Prevent a task from starting; False when it has started."""
        with self._beginning:
            held.given_up = held.given_up or not held.started
            return not held.started

    def cancel(self, held: HeldTask) -> None:
        """Let a running handler know that it is cancelled."""
        held.cancelled = True
        self._children.send_signal(held.call_id, signal.SIGUSR1)

    def stop(self, held: HeldTask) -> None:
        """Let a running handler know that the worker stops."""
        held.stopping = True
        self._children.send_signal(held.call_id, signal.SIGTERM)

    def kill(self, held: HeldTask) -> bool:
        """Kill the child that runs it; False when its handler does not run in one."""
        return self._children.kill(held.call_id)

    def close(self) -> None:
        """Start nothing more in the quick thread; what runs in it continues, because a thread can't be killed."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _handler(self, claim: Claim) -> Handler | None:
        return self._registry.handlers.get(claim.handler) if claim.lane.purpose is Purpose.WORK else None

    def _run_quick(self, chunk: Sequence[HeldTask]) -> list[tuple[HeldTask, Report | None]]:
        """Run one after the other for a short time; what had no turn may go to others meanwhile."""
        ran: list[tuple[HeldTask, Report | None]] = []
        deadline = time.monotonic() + QUICK_TURN_TIME.total_seconds()
        for held in list(chunk):
            if ran and time.monotonic() > deadline:
                break
            with self._beginning:
                if held.given_up:
                    continue
                held.started = True
            with self._begin_span(held.claim) as span:
                held.traceparent = span.traceparent
                report = self._run_quickly(held)
                _note_end(span, report)
            ran.append((held, report))
            self.quick_moved = time.monotonic()
        return ran

    def _begin_span(self, claim: Claim) -> AbstractContextManager[Span]:
        lane = claim.lane
        return self._tracer.span(
            f"task {claim.handler}",
            "consumer",
            lane.traceparent,
            lambda: {"anabranch.node": lane.node, "anabranch.workflow": lane.workflow, **claim.ids},
        )

    async def _run_traced(self, held: HeldTask, run: Callable[[HeldTask], Awaitable[Report | None]]) -> Report | None:
        with self._begin_span(held.claim) as span:
            held.traceparent = span.traceparent
            report = await run(held)
            _note_end(span, report)
            return report

    def _run_quickly(self, held: HeldTask) -> Report:
        if held.fault is not None:
            return _undefined(held, held.fault)
        held.begun = time.monotonic()
        self._now = held
        folder = self._folder(held.claim)
        try:
            call = Call.of(held.claim, _params(held), folder, self.results, traceparent=held.traceparent)
            performed = perform(self._registry, call, NoLink(), self._children.resources)
            if performed.has_scratch:
                shutil.rmtree(folder, ignore_errors=True)
            self._check_descriptors(held, performed)
            report = self._settle(held, performed, time.monotonic() - held.begun, QUICK_STORAGE_PAUSES_SECONDS)
            self.environment.note_success()
        except ExpressionError as error:
            report = _failed(held.claim, _unfilled(error), timedelta(0), None)
        except Unavailable as error:
            report = _hand_to_others(held, error)
        except Exception as error:  # noqa: BLE001  # one task of a chunk must not take the others with it
            if is_exhausted(error, in_handler=False):
                report = _hand_to_others(held, self.environment.note_failure(error))
            else:
                report = _failed(held.claim, replace(describe_error(error), category="bug"), timedelta(0), None)
        held.ended = True
        return report

    async def _spawn(self, held: HeldTask) -> Report | None:
        try:
            held.workflow = await self._define(held.claim)
            spawned = await self._child_jobs.spawn(held.claim, _params(held), held.traceparent)
        except Unavailable as error:
            return _hand_to_others(held, error)
        except ExpressionError as error:
            return _failed(held.claim, _unfilled(error), timedelta(0), None)
        except OSError as error:
            return _hand_to_others(held, self.environment.note_failure(error))
        except (AnabranchError, ValueError) as error:
            return _failed(held.claim, describe_error(error), timedelta(0), None)
        if spawned is None:
            return Report(held.claim.fence, Ended.HANDED_BACK)
        held.rights = spawned.rights
        log.info("job.spawned", **held.claim.ids, child=spawned.job_id)
        return None

    async def _run_one(self, held: HeldTask) -> Report:
        try:
            report = await self._run_to_end(held)
        except Unavailable as error:
            if error.code == "worker.no_children":
                self.environment.note_failure(error)
            return _hand_to_others(held, error)
        except Exception as error:
            if not is_exhausted(error, in_handler=False):
                raise
            return _hand_to_others(held, self.environment.note_failure(error))
        self.environment.note_success()
        return report

    async def _run_to_end(self, held: HeldTask) -> Report:
        """Run a task; Unavailable, or what `is_exhausted` knows, when it could not run here."""
        begun = time.perf_counter()
        try:
            performed = await self._perform(held)
        except ChildDied as error:
            return self._died(held, error, time.perf_counter() - begun)
        except Overdue as error:
            performed = Outcome(error=error.failure, log=error.log)
        except Unavailable:
            raise
        except ExpressionError as error:
            performed = Outcome(error=_unfilled(error))
        except (AnabranchError, ValueError) as error:
            performed = Outcome(error=describe_error(error))
        finally:
            await asyncio.to_thread(_remove, self._folder(held.claim))
        return await asyncio.to_thread(self._settle, held, performed, time.perf_counter() - begun)

    async def _perform(self, held: HeldTask) -> Outcome:
        claim, policy = held.claim, held.claim.lane.policy
        found = self._handler(claim)
        if found is None and claim.lane.purpose is Purpose.WORK:
            raise Unavailable("handler.missing", f"this worker has no handler {claim.handler!r}")
        previous = await self._load_previous(claim)
        held.workflow = await self._define(claim)
        folder, trace = self._folder(claim), held.traceparent
        call = await asyncio.to_thread(Call.of, claim, _params(held), folder, self.results, previous, trace)
        line, longest = HandlerLine(held, self._checkpoints), policy.timeout
        held.begun = time.monotonic()
        held.started = True
        if found is not None and found.runs is Runs.IN_LOOP and not claim.crashes:
            try:
                performing = perform_async(found, call, line, self._children.resources)
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
                raise Overdue("task.timed_out", f"it ran longer than {spell_duration(longest)}", None) from None
        alone = claim.crashes > 0 or (found is not None and found.runs is Runs.HEAVILY)
        return await self._children.run(call, policy, line, alone=alone)

    def _check_descriptors(self, held: HeldTask, performed: Outcome) -> None:
        """Raise when a handler in this process had no descriptors: that is the worker's trouble, for a while (E1)."""
        if performed.lacked_descriptors and _count_tries(held.claim) <= FREE_ATTEMPTS:
            raise self.environment.note_failure(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))

    async def _define(self, claim: Claim) -> Workflow | None:
        """The workflow whose template a task's parameters are filled into, where they are."""
        has_template = claim.lane.values is not None
        return await self._definitions.get(claim.lane.workflow_hash) if has_template else None

    async def _load_previous(self, claim: Claim) -> Sequence[Json] | None:
        if (nodes := claim.lane.shape.collected) is None:
            return None
        path = self._folder(claim) + RESULTS_SUFFIX
        return await collect_results(self._store, self.results, claim.lane.job_id, nodes, path)

    def _settle(
        self, held: HeldTask, performed: Outcome, seconds: float, pauses: Sequence[float] = STORAGE_PAUSES_SECONDS
    ) -> Report:
        claim, ran = held.claim, timedelta(seconds=seconds)
        in_time = performed.error is None and not held.cancelled
        if performed.interrupted or (held.given_up and not in_time):
            return Report(claim.fence, Ended.HANDED_BACK, log=performed.log)
        if performed.unanswered and performed.error and is_free_attempt(_count_tries(claim), seconds):
            return replace(_wait_and_try_again(claim, performed.error), log=performed.log)
        if performed.error is not None or performed.result is None:
            return _failed(claim, performed.error or NO_RESULT, ran, performed.log, performed.metrics)
        ended, body = Ended.COMPLETED, performed.result
        try:
            if claim.lane.purpose is not Purpose.PLAN and self.results.is_large(body):
                ended, body = Ended.REFERENCED, self._put_aside(claim, body, pauses)
        except TaskError as error:
            return _failed(claim, describe_error(error), ran, performed.log)
        except Unavailable as error:  # our own storage: that is not the handler's fault (E9)
            return replace(_wait_and_try_again(claim, describe_error(error)), log=performed.log)
        return Report(claim.fence, ended, body, None, ran, performed.log, performed.metrics, performed.handed)

    def _put_aside(self, claim: Claim, body: str, pauses: Sequence[float]) -> str:
        """Put a large result into the work area, again and again while that does not answer; its reference."""
        name = f"{claim.key.lane}-{claim.key.place}-{claim.attempt}"
        for pause in pauses:
            try:
                return self.results.put_aside(claim.lane.job_id, claim.lane.node, name, body)
            except Unavailable as error:
                log.warning("task.result_waiting", **claim.ids, reason=str(error))
                time.sleep(pause)
        return self.results.put_aside(claim.lane.job_id, claim.lane.node, name, body)

    def _died(self, held: HeldTask, error: ChildDied, seconds: float) -> Report:
        claim = held.claim
        if held.given_up or held.stopping:  # what stops the worker may end its children first
            return Report(claim.fence, Ended.HANDED_BACK, log=error.log)
        log.error("task.crashed", **claim.ids, reason=str(error), orphaned=error.orphaned)
        last = claim.crashes + 1 >= CRASH_LIMIT
        body = self._describe_crash(claim, error).to_text()
        # All children of a server die with it: the first time it is unknown whose fault it was.
        ended = Ended.SUSPECT if error.orphaned and not claim.crashes else Ended.FAILED if last else Ended.CRASHED
        return Report(claim.fence, ended, body, None, timedelta(seconds=seconds), error.log)

    def _describe_crash(self, claim: Claim, error: ChildDied) -> Failure:
        """A process that died can't say where it was; the handler's own place is the nearest that is known."""
        found = self._handler(claim)
        where = place_of(found) if found else None
        return Failure(
            code="handler.crashed", message=str(error), category="resource", type=error.ended_by, where=where
        )

    def _folder(self, claim: Claim) -> str:
        return f"{self._scratch}/{claim.key.lane}-{claim.key.place}-{claim.attempt}"


def _note_end(span: Span, report: Report | None) -> None:
    if report is None or report.ended in (Ended.COMPLETED, Ended.REFERENCED):
        return
    if report.ended in (Ended.HANDED_BACK, Ended.MISSING):  # nothing failed: another worker goes on with it
        span.note("anabranch.ended", report.ended)
    else:
        span.fail(f"task.{report.ended}")


def _runs_too_long(held: HeldTask) -> bool:
    """Whether a quick handler runs longer than its time, or than any quick one may."""
    limit = min(MAX_QUICK_TIME, held.claim.lane.policy.timeout).total_seconds()
    return held.begun > 0 and not held.ended and time.monotonic() - held.begun > limit


def _params(held: HeldTask) -> JsonObject:
    claim = held.claim
    if held.workflow is None:
        return claim.parameters
    given = TaskValues(
        claim.lane.job_id, claim.lane.parameters, claim.lane.values, claim.item, claim.index, claim.lane.tick
    )
    return fill_in(held.workflow.node(claim.lane.node), given)


def _undefined(held: HeldTask, error: AnabranchError) -> Report:
    """The report of a task whose workflow can't be read here: another worker may read it, unless it was removed."""
    if isinstance(error, Unavailable):
        return _hand_to_others(held, error)
    log.warning("task.undefined", **held.claim.ids, code=error.code, reason=error.message)
    return _failed(held.claim, describe_error(error), timedelta(0), None)


def _unfilled(error: ExpressionError) -> Failure:
    return Failure(code="expression.failed", message=error.message, category="permanent")


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        Path(folder + RESULTS_SUFFIX).unlink(missing_ok=True)


def _stuck(held: HeldTask) -> Report:
    """A thread can't be killed: what began in it runs alone in a child next time, what had not is free."""
    failure = Failure(code="task.timed_out", message="it blocked the worker's thread", category="transient")
    ended = Ended.CRASHED if held.started and not held.ended else Ended.HANDED_BACK
    return Report(held.claim.fence, ended, failure.to_text())


def _hand_to_others(held: HeldTask, error: Unavailable) -> Report:
    """Hand a task back that can't run here. What this worker lacks costs no attempt, however often it is met."""
    described = describe_error(error)
    if error.code in MISSING_DELAYS:
        log.warning("task.handed_back", **held.claim.ids, code=error.code, reason=error.message)
        return Report(held.claim.fence, Ended.MISSING, described.to_text(), MISSING_DELAYS[error.code])
    return _wait_and_try_again(held.claim, described)


def _wait_and_try_again(claim: Claim, failure: Failure) -> Report:
    log.warning("task.handed_back", **claim.ids, code=failure.code, reason=failure.message)
    seconds = min(2.0 ** min(_count_tries(claim) - 1, 10), MAX_DELAY_SECONDS)
    return Report(claim.fence, Ended.HANDED_BACK, failure.to_text(), timedelta(seconds=seconds))


def _count_tries(claim: Claim) -> int:
    """How often a task was tried since its job was submitted or retried."""
    return max(claim.attempt - claim.lane.tried, 1)


def _failed(claim: Claim, failure: Failure, ran: timedelta, printed: str | None, metrics: str | None = None) -> Report:
    delay = next_delay(claim.lane.policy.retry, claim.failures, failure)
    ended = Ended.FAILED if delay is None else Ended.RETRY
    log.warning("task.failed", **claim.ids, end=ended, code=failure.code)
    return Report(claim.fence, ended, failure.to_text(), delay, ran, printed, metrics)
