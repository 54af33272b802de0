"""The work of one session: what is in hand, what runs, and what is still to be reported."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Sequence
from datetime import timedelta
from itertools import accumulate

import structlog

from anabranch.canonical import encode
from anabranch.engine.advancing import Advancer
from anabranch.engine.child_jobs import is_child_job
from anabranch.engine.failure import describe_error
from anabranch.engine.lanes import is_internal_queue
from anabranch.engine.model import Answer, Attempt, Claim, Ended, InHand, Purpose, Report, Said, TaskKey
from anabranch.engine.ports import HeartbeatConnection, Refused, Store, TakenRight, Turn, Wanted
from anabranch.engine.run_times import AHEAD, FAST, RunTimes
from anabranch.engine.session import LiveSession
from anabranch.engine.worker.reporter import Reporter
from anabranch.engine.worker.runner import Held, Runner
from anabranch.errors import AnabranchError, Unavailable

__all__ = ["TaskLoop"]

log = structlog.get_logger()
POLL = timedelta(seconds=1)
BATCH = 200
BATCH_CHARACTERS = 8_000_000
HOARD = timedelta(seconds=0.5)
CHUNK = timedelta(milliseconds=10)
MOST_INTERRUPTIONS = 3  # after so many in a row, reports are sent one by one: one of them may be the cause
RESERVED = 1  # a slot that only plans, folds results and starts child jobs: these never wait for long handlers


class TaskLoop:
    """Turns between the store and the handlers: reports what ended and takes what is next, in one round trip."""

    def __init__(
        self, store: Store, runner: Runner, live: LiveSession, *, queues: Sequence[str], slots: int, grace: timedelta
    ) -> None:
        """For this session only; a cancelled handler has the grace to end by itself."""
        self._runner = runner
        self._live = live
        self._queues = list(queues)
        self._internal_queues = [queue for queue in queues if is_internal_queue(queue)]
        self._slots = slots
        self._grace = grace
        self._pace = RunTimes()
        self._advancer = Advancer(store, live.session, runner.results)
        self._reporter = Reporter(store, live.session, self._in_hand)
        self._held: dict[TaskKey, Held] = {}
        self._internal: deque[Held] = deque()
        self._waiting: deque[Held] = deque()
        self._quick: deque[Held] = deque()
        self._running: dict[asyncio.Task[None], list[Held]] = {}
        self._advances: set[asyncio.Task[None]] = set()
        self._outbox: list[Report] = []
        self._interruptions = 0
        self._to_send_alone = 0
        self._hungry = True
        self._moved = time.monotonic()
        self.dropped = False
        live.on_stop = self._stop_attempts
        live.in_hand = self._in_hand
        live.rights = self._advancer.in_hand
        live.on_lost = self.abandon
        live.speak = self._tell_progress

    @property
    def is_busy(self) -> bool:
        """Whether anything is left to run, report or advance."""
        return bool(self._held or self._outbox or self._advances)

    @property
    def is_running(self) -> bool:
        """Whether any handler runs."""
        return bool(self._running)

    @property
    def trouble(self) -> str | None:
        """What keeps the worker from claiming, if anything."""
        return self._runner.environment.trouble

    async def turn(self) -> None:
        """Report what ended, take what is next, or wait until there is something to do."""
        self._return_hoard()
        batch, wanted = self._next_batch(), self._wanted()
        if not batch and not (wanted.limit and self._hungry):
            await self._live.wait(HOARD if self._not_begun() else POLL)
            self._hungry = True
            return
        try:
            turn = await self._reporter.send(batch, wanted)
        except Unavailable as error:
            if batch and error.code == "database.interrupted":
                self._postpone(batch)
            raise
        self._interruptions = 0
        self._to_send_alone = max(self._to_send_alone - 1, 0)
        del self._outbox[: len(batch)]
        self._settle(batch, turn)
        now = time.monotonic()
        for claim in turn.claims:
            self._hold(claim, now)
        self._hungry = bool(turn.claims)
        self._dispatch()

    def close(self) -> None:
        """Take nothing more: give back what has not begun, and tell what runs."""
        self._slots = 0
        self._give_back(self._not_begun())
        for held in self._all_running():
            self._runner.tell_stopping(held)

    def hand_back(self) -> None:
        """Stop what still runs and give it back; no attempt is spent, and what has its answer counts (W3)."""
        for held in self._all_running():
            if not held.ended:
                held.given_up = True
                self._end_now(held)

    def drop(self, *, ended: bool) -> None:
        """Give back what was stopped and did not end, and wait for it no more; `ended`: what is being written, too."""
        for task, chunk in list(self._running.items()):
            if ended or not all(held.ended for held in chunk):
                del self._running[task]
                task.cancel()
                self._write([Report(held.claim.fence, Ended.HANDED_BACK) for held in chunk])
                self.dropped = True

    def abandon(self) -> None:
        """Stop whatever still runs and start nothing more: others have it now."""
        self._slots = 0
        for waiting in (self._internal, self._waiting, self._quick):
            waiting.clear()
        for held in self._all_running():
            held.given_up, held.ended = True, False
            self._end_now(held)
        for advance in self._advances:
            advance.cancel()

    def _next_batch(self) -> list[Report]:
        """What is reported next: so many, and not so large that the database would choke on it."""
        if self._to_send_alone:
            return self._outbox[:1]
        sizes = accumulate(
            len(report.body or "") + len(report.log or "") + len(report.handed or "") for report in self._outbox[:BATCH]
        )
        return self._outbox[: max(1, sum(size <= BATCH_CHARACTERS for size in sizes))]

    def _postpone(self, batch: Sequence[Report]) -> None:
        """Send what was interrupted later: all of it again at first, then each alone, that none waits for a bad one."""
        self._interruptions += 1
        if self._to_send_alone:
            self._outbox[:] = [*self._outbox[len(batch) :], *batch]
            self._to_send_alone -= 1
        elif self._interruptions >= MOST_INTERRUPTIONS:
            self._to_send_alone = len(self._outbox)

    def _settle(self, batch: Sequence[Report], turn: Turn) -> None:
        """Let go of what was reported, and advance what that finished."""
        for report, answer in zip(batch, turn.answers, strict=True):
            held = self._held.get(report.attempt.key)
            if held and held.claim.fence == report.attempt:
                del self._held[report.attempt.key]
            if answer is Answer.STALE:
                (lane, place), number, _ = report.attempt
                ids = held.claim.ids if held else {}
                log.warning("report.stale", **{"lane": lane, "index": place, **ids, "attempt": number})
        if turn.rights:
            self._start_advance(turn.rights)

    def _return_hoard(self) -> None:
        """Give back what was taken ahead and has not begun though nothing ended for a while: its handlers turned slow,
        and others may be idle."""
        since = time.monotonic() - HOARD.total_seconds()
        if max(self._moved, self._runner.quick_moved) < since:
            self._give_back([held for held in self._not_begun() if held.taken < since])

    def _not_begun(self) -> list[Held]:
        in_chunks = (held for chunk in self._running.values() for held in chunk[1:] if not held.started)
        return [*self._internal, *self._waiting, *self._quick, *(held for held in in_chunks if not held.given_up)]

    def _give_back(self, unwanted: Sequence[Held]) -> None:
        """Give tasks back that have not begun; one that a thread begins at this moment stays."""
        given = [held for held in unwanted if self._runner.give_up(held)]
        if not given:
            return
        for waiting in (self._internal, self._waiting, self._quick):
            for held in [held for held in waiting if held.given_up]:
                waiting.remove(held)
        for chunk in self._running.values():
            chunk[:] = [held for held in chunk if held not in given]
        self._write([Report(held.claim.fence, Ended.HANDED_BACK) for held in given])

    def _wanted(self) -> Wanted:
        if not self._slots:
            return Wanted((), 0, {})
        waiting = Counter([held.claim.handler for held in (*self._waiting, *self._quick)])
        room = self._slots - self._handlers_running() - len(self._waiting) - bool(self._quick)
        runs_fast = self._runs_fast()
        if runs_fast and self._pace.work(waiting) < AHEAD.total_seconds() / 2:
            room = max(room, 1)
        if not self._runner.environment.is_ready:
            return Wanted((), 0, {})
        if room <= 0 and not runs_fast and len(self._running) + len(self._internal) < self._slots + RESERVED:
            return Wanted(self._internal_queues, 1, {})
        return Wanted(self._queues, max(room, 0), self._pace.allowances())

    def _handlers_running(self) -> int:
        return sum(not _is_internal(chunk[0].claim) for chunk in self._running.values() if chunk)

    def _runs_fast(self) -> bool:
        slow = time.monotonic() - FAST.total_seconds()
        return all(self._pace.is_fast(held.claim.handler) and not 0 < held.begun < slow for held in self._all_running())

    def _all_running(self) -> list[Held]:
        return [held for chunk in self._running.values() for held in chunk]

    def _hold(self, claim: Claim, taken: float) -> None:
        held = Held(claim, taken)
        self._held[claim.key] = held
        waiting = self._quick if self._runner.is_quick(claim) else self._waiting
        (self._internal if _is_internal(claim) else waiting).append(held)

    def _dispatch(self) -> None:
        while self._slots and self._internal and len(self._running) < self._slots + RESERVED:
            self._start([self._internal.popleft()])
        while self._handlers_running() < self._slots:
            if self._quick and not self._runner.quick_busy:
                most = self._pace.in_time(self._quick[0].claim.handler, CHUNK)
                self._runner.quick_busy = True
                self._start([self._quick.popleft() for _ in range(min(most, len(self._quick)))])
            elif self._waiting:
                self._start([self._waiting.popleft()])
            else:
                return

    def _start(self, chunk: list[Held]) -> None:
        task = asyncio.create_task(self._run(chunk))
        self._running[task] = chunk
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        chunk = self._running.pop(task, None)
        if chunk is None:  # it was dropped
            return
        self._moved = time.monotonic()
        if task.cancelled():
            self._write([Report(held.claim.fence, Ended.HANDED_BACK) for held in chunk])
        elif error := task.exception():
            for held in chunk:
                log.error("worker.fault", **held.claim.ids, error=str(error), exc_info=error)
            body = encode({**describe_error(error), "category": "bug"})
            self._write([Report(held.claim.fence, Ended.FAILED, body) for held in chunk])
        self._dispatch()
        self._live.ring()

    async def _run(self, chunk: list[Held]) -> None:
        ran = await self._runner.run(chunk)
        for held, report in ran:
            if report is None:
                self._let_go(held)
            elif report.ran is not None:
                self._pace.note(held.claim.handler, report.ran.total_seconds())
        self._write([report for _, report in ran if report is not None])
        if len(ran) < len(chunk):  # a slow one kept the others from their turn
            done = {held.claim.key for held, _ in ran}
            left = [held for held in chunk if held.claim.key not in done and not held.given_up]
            self._quick.extendleft(reversed(left))

    def _let_go(self, held: Held) -> None:
        """Forget a task that became a job of its own, and start that."""
        self._held.pop(held.claim.key, None)
        if held.rights:
            self._start_advance(held.rights)

    def _write(self, reports: Sequence[Report]) -> None:
        if reports:
            self._outbox.extend(reports)
            self._live.ring()

    def _start_advance(self, rights: Sequence[TakenRight]) -> None:
        task = asyncio.create_task(self._advance(rights))
        self._advances.add(task)
        task.add_done_callback(self._advances.discard)

    async def _advance(self, rights: Sequence[TakenRight]) -> None:
        try:
            await self._advancer.advance_patiently(rights)
        except AnabranchError as error:  # an orchestrator takes the right when it is free again
            log.warning("advance.interrupted", reason=error.message)
        self._hungry = True
        self._live.ring()

    def _in_hand(self) -> list[InHand]:
        return [InHand(held.claim.fence, held.started) for held in list(self._held.values())]

    def _tell_progress(self, pulse: HeartbeatConnection) -> bool:
        """Tell the store what handlers said since they were last told of; False when that is nothing."""
        news = [(held, said) for held in list(self._held.values()) if (said := held.said) and said is not held.told]
        if not news:
            return False
        told = [Said(held.claim.fence, said) for held, said in news]
        try:
            noted = pulse.progress(self._live.session, told)
        except Refused as error:
            log.warning("progress.refused", reason=error.message)
            noted = {held.claim.key for held, _ in news}
        for held, said in news:
            if held.claim.key in noted:
                held.told = said
        return True

    def _end_now(self, held: Held) -> None:
        """End what can be ended: a quick handler can't, and is as good as done."""
        for task, chunk in list(self._running.items()):
            if (
                held in chunk
                and not held.ended
                and not self._runner.is_quick(held.claim)
                and not self._runner.kill(held)
            ):
                task.cancel()

    def _stop_attempts(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            held = self._held.get(attempt.key)
            if held is None or held.claim.fence != attempt or held.given_up:
                continue
            if held in self._not_begun():
                self._give_back([held])
            elif held in self._all_running():
                held.given_up = True
                self._runner.tell_cancelled(held)
                asyncio.get_running_loop().call_later(self._grace.total_seconds(), self._end_now, held)


def _is_internal(claim: Claim) -> bool:
    """Whether a task is the engine's own: it plans, folds results, or starts a child job."""
    return claim.lane.purpose is not Purpose.WORK or is_child_job(claim)
