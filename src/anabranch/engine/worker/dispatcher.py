"""Decides which of a worker's tasks runs next, and which must stop."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import structlog

from anabranch.engine.advancing.advancer import BackgroundAdvances
from anabranch.engine.advancing.lanes import is_internal_queue
from anabranch.engine.child_jobs import is_child_job
from anabranch.engine.exhaustion import is_exhausted
from anabranch.engine.failure import describe_error
from anabranch.engine.model import Attempt, Claim, Ended, Purpose, Report
from anabranch.engine.ports import ClaimRequest
from anabranch.engine.sessions.live_session import HeldTask, LiveSession
from anabranch.engine.worker.reporter import NO_CLAIMS, Outbox
from anabranch.engine.worker.run_times import MAX_FAST_TIME, PREFETCH_TIME, RunTimes
from anabranch.engine.worker.runner import Runner

__all__ = ["Dispatcher", "WorkerOptions", "is_internal"]

log = structlog.get_logger()
MAX_PREFETCH_IDLE = timedelta(seconds=0.5)
CHUNK_DURATION = timedelta(milliseconds=10)
RESERVED_SLOTS = 1  # a slot that only plans, folds results and starts child jobs: these never wait for long handlers


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker works: what it serves, how many handlers run at once, and the grace they have when they must stop.

    Handlers write to `scratch`, where only this process does. With `longest_idle` it ends by itself, once it has had
    no task of these queues for that long.
    """

    queues: Sequence[str]
    slots: int
    grace: timedelta
    scratch: Path
    longest_idle: timedelta | None = None


class Dispatcher:
    """Runs claimed tasks, at most `slots` handlers at once (W1), and writes their reports to the outbox."""

    def __init__(
        self, runner: Runner, live: LiveSession, outbox: Outbox, advances: BackgroundAdvances, options: WorkerOptions
    ) -> None:
        self._runner = runner
        self._held = live.tasks
        self._outbox = outbox
        self._advances = advances
        self._options = options
        self._slots = options.slots
        self._internal_queues = [queue for queue in options.queues if is_internal_queue(queue)]
        self._pace = RunTimes()
        self._internal: deque[HeldTask] = deque()
        self._waiting: deque[HeldTask] = deque()
        self._quick: deque[HeldTask] = deque()
        self._running: dict[asyncio.Task[None], list[HeldTask]] = {}
        self._moved = time.monotonic()
        self.dropped = False

    @property
    def is_running(self) -> bool:
        """Whether any handler runs."""
        return bool(self._running)

    @property
    def has_waiting(self) -> bool:
        """Whether a claimed task has not begun."""
        return bool(self._not_begun())

    def wanted(self) -> ClaimRequest:
        """What to claim now: as much as can run, and of fast handlers what they finish soon."""
        if not self._slots:
            return NO_CLAIMS
        waiting = Counter([held.claim.handler for held in (*self._waiting, *self._quick)])
        room = self._slots - self._handlers_running() - len(self._waiting) - bool(self._quick)
        runs_fast = self._runs_fast()
        if runs_fast and self._pace.work(waiting) < PREFETCH_TIME.total_seconds() / 2:
            room = max(room, 1)
        if not self._runner.environment.is_ready:
            return NO_CLAIMS
        if room <= 0 and not runs_fast and len(self._running) + len(self._internal) < self._slots + RESERVED_SLOTS:
            return ClaimRequest(self._internal_queues, 1, {})
        return ClaimRequest(self._options.queues, max(room, 0), self._pace.allowances())

    def take(self, claims: Sequence[Claim]) -> None:
        """Hold what was claimed, and start what can run."""
        now = time.monotonic()
        for claim in claims:
            held = self._held[claim.key] = HeldTask(claim, now)
            waiting = self._quick if self._runner.is_quick(claim) else self._waiting
            (self._internal if is_internal(claim) else waiting).append(held)
        self._dispatch()

    def return_prefetched(self) -> None:
        """Give back what was taken ahead and has not begun though nothing ended for a while: its handlers turned slow,
        and others may be idle."""
        since = time.monotonic() - MAX_PREFETCH_IDLE.total_seconds()
        if max(self._moved, self._runner.quick_moved) < since:
            self._give_back([held for held in self._not_begun() if held.taken < since])

    def stop_attempts(self, attempts: Sequence[Attempt]) -> None:
        """Stop attempts that are cancelled or no longer ours; a running handler has the grace to end by itself (E7)."""
        for attempt in attempts:
            held = self._held.get(attempt.key)
            if held is None or held.claim.fence != attempt or held.given_up:
                continue
            if held in self._not_begun():
                self._give_back([held])
            elif held in self._all_running():
                held.given_up = True
                self._runner.cancel(held)
                asyncio.get_running_loop().call_later(self._options.grace.total_seconds(), self._end_now, held)

    def close(self) -> None:
        """Take nothing more: give back what has not begun, and ask what runs to stop."""
        self._slots = 0
        self._give_back(self._not_begun())
        for held in self._all_running():
            self._runner.stop(held)

    def hand_back(self) -> None:
        """Stop what still runs and give it back; no attempt is spent, and what has its answer counts (W3)."""
        for held in self._all_running():
            if not held.ended:
                held.given_up = True
                self._end_now(held)

    def drop(self, *, ended: bool) -> None:
        """Give back tasks that were stopped and did not end, without waiting; `ended`: those being written, too."""
        for task, chunk in list(self._running.items()):
            if ended or not all(held.ended for held in chunk):
                del self._running[task]
                task.cancel()
                self._outbox.write([_hand_back(held) for held in chunk])
                self.dropped = True

    def abandon(self) -> None:
        """Stop all that still runs and start nothing more: other processes have the tasks now."""
        self._slots = 0
        for waiting in (self._internal, self._waiting, self._quick):
            waiting.clear()
        for held in self._all_running():
            held.given_up, held.ended = True, False
            self._end_now(held)

    def _all_running(self) -> list[HeldTask]:
        return [held for chunk in self._running.values() for held in chunk]

    def _not_begun(self) -> list[HeldTask]:
        in_chunks = (held for chunk in self._running.values() for held in chunk[1:] if not held.started)
        return [*self._internal, *self._waiting, *self._quick, *(held for held in in_chunks if not held.given_up)]

    def _give_back(self, unwanted: Sequence[HeldTask]) -> None:
        """Give tasks back that have not begun; one that a thread begins at this moment stays."""
        given = [held for held in unwanted if self._runner.give_up(held)]
        if not given:
            return
        for waiting in (self._internal, self._waiting, self._quick):
            for held in [held for held in waiting if held.given_up]:
                waiting.remove(held)
        for chunk in self._running.values():
            chunk[:] = [held for held in chunk if held not in given]
        self._outbox.write([_hand_back(held) for held in given])

    def _handlers_running(self) -> int:
        return sum(not is_internal(chunk[0].claim) for chunk in self._running.values() if chunk)

    def _runs_fast(self) -> bool:
        slow = time.monotonic() - MAX_FAST_TIME.total_seconds()
        return all(self._pace.is_fast(held.claim.handler) and not 0 < held.begun < slow for held in self._all_running())

    def _dispatch(self) -> None:
        while self._slots and self._internal and len(self._running) < self._slots + RESERVED_SLOTS:
            self._start([self._internal.popleft()])
        while self._handlers_running() < self._slots:
            if self._quick and not self._runner.quick_busy:
                most = self._pace.in_time(self._quick[0].claim.handler, CHUNK_DURATION)
                self._runner.quick_busy = True
                self._start([self._quick.popleft() for _ in range(min(most, len(self._quick)))])
            elif self._waiting:
                self._start([self._waiting.popleft()])
            else:
                return

    def _start(self, chunk: list[HeldTask]) -> None:
        task = asyncio.create_task(self._run(chunk))
        self._running[task] = chunk
        task.add_done_callback(self._ended)

    async def _run(self, chunk: list[HeldTask]) -> None:
        ran = await self._runner.run(chunk)
        for held, report in ran:
            if report is None:  # it became a job of its own
                self._held.pop(held.claim.key, None)
                self._advances.start(held.rights)
            elif report.ran is not None:
                self._pace.note(held.claim.handler, report.ran.total_seconds())
        self._outbox.write([report for _, report in ran if report is not None])
        if len(ran) < len(chunk):  # a slow one kept the others from their turn
            done = {held.claim.key for held, _ in ran}
            left = [held for held in chunk if held.claim.key not in done and not held.given_up]
            self._quick.extendleft(reversed(left))

    def _ended(self, task: asyncio.Task[None]) -> None:
        chunk = self._running.pop(task, None)
        if chunk is None:  # it was dropped
            return
        self._moved = time.monotonic()
        reports: list[Report] = []
        if task.cancelled():
            reports = [_hand_back(held) for held in chunk]
        elif error := task.exception():
            reports = self._describe_fault(chunk, error)
        self._dispatch()
        self._outbox.write(reports)

    def _describe_fault(self, chunk: Sequence[HeldTask], error: BaseException) -> list[Report]:
        """The reports of tasks that the engine itself failed at: what this process lacks is no fault of theirs (E9)."""
        if is_exhausted(error, in_handler=False):
            body = describe_error(self._runner.environment.note_failure(error)).to_text()
            for held in chunk:
                self._runner.give_up(held)  # a thread that starts later finds it in its queue
            return [Report(held.claim.fence, Ended.HANDED_BACK, body) for held in chunk]
        for held in chunk:
            log.error("worker.fault", **held.claim.ids, error=str(error), exc_info=error)
        body = replace(describe_error(error), category="bug").to_text()
        return [Report(held.claim.fence, Ended.FAILED, body) for held in chunk]

    def _end_now(self, held: HeldTask) -> None:
        """End what can be ended: a quick handler can't, and is as good as done."""
        if held.ended or self._runner.is_quick(held.claim):
            return
        for task, chunk in list(self._running.items()):
            if held in chunk and not self._runner.kill(held):
                task.cancel()


def _hand_back(held: HeldTask) -> Report:
    return Report(held.claim.fence, Ended.HANDED_BACK)


def is_internal(claim: Claim) -> bool:
    """Whether a task is the engine's own: it plans, folds results, or starts a child job."""
    return claim.lane.purpose is not Purpose.WORK or is_child_job(claim)
