"""The work of one session: what is in hand, what runs, and what is still to be reported."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Sequence
from datetime import timedelta
from itertools import accumulate

import structlog

from anabranch.engine.canonical import encode
from anabranch.engine.errors import AnabranchError, Unavailable
from anabranch.engine.failure import describe_error
from anabranch.engine.model import Answer, Attempt, Claim, InHand, Report, Said, TaskKey
from anabranch.engine.orchestrator import Advancer
from anabranch.engine.pace import AHEAD, FAST, Pace
from anabranch.engine.ports import Pulse, Refused, Store, TakenRight, Turn, Wanted
from anabranch.engine.runner import Held, Runner
from anabranch.engine.session import Live

__all__ = ["Shift"]

log = structlog.get_logger()
POLL = timedelta(seconds=1)
BATCH = 200
BATCH_CHARACTERS = 8_000_000
HOARD = timedelta(seconds=1)
CHUNK = timedelta(milliseconds=10)


class Shift:
    """Turns between the store and the handlers: reports what ended and takes what is next, in one round trip."""

    def __init__(
        self, store: Store, runner: Runner, live: Live, *, queues: Sequence[str], slots: int, grace: timedelta
    ) -> None:
        """For this session only; a cancelled handler has the grace to end by itself."""
        self._store = store
        self._runner = runner
        self._live = live
        self._queues = list(queues)
        self._slots = slots
        self._grace = grace
        self._pace = Pace()
        self._advancer = Advancer(store, live.session, runner.results)
        self._held: dict[TaskKey, Held] = {}
        self._waiting: deque[Held] = deque()
        self._quick: deque[Held] = deque()
        self._running: dict[asyncio.Task[None], list[Held]] = {}
        self._advances: set[asyncio.Task[None]] = set()
        self._outbox: list[Report] = []
        self._hungry = True
        self.dropped = False
        live.on_stop = self._stop_attempts
        live.in_hand = self._in_hand
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

    async def turn(self) -> None:
        """Report what ended, take what is next, or wait until there is something to do."""
        self._return_hoard()
        batch, wanted = self._next_batch(), self._wanted()
        if not batch and not (wanted.limit and self._hungry):
            await self._live.wait(POLL)
            self._hungry = True
            return
        turn = await self._send(batch, wanted)
        del self._outbox[: len(batch)]
        for report in batch:
            held = self._held.get(report.key)
            if held and held.claim.attempt == report.attempt:
                del self._held[report.key]
        now = time.monotonic()
        for claim in turn.claims:
            self._hold(claim, now)
        self._hungry = bool(turn.claims)
        self._dispatch()

    def close(self) -> None:
        """Take nothing more: give back what waits, and tell what runs."""
        self._slots = 0
        for held in [*self._waiting, *self._quick]:
            self._write([Report(held.claim.key, held.claim.attempt, "handed_back")])
        self._waiting.clear()
        self._quick.clear()
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
                self._write([Report(held.claim.key, held.claim.attempt, "handed_back") for held in chunk])
                self.dropped = True

    def abandon(self) -> None:
        """Stop whatever still runs and start nothing more: others have it now."""
        self._slots = 0
        self._waiting.clear()
        self._quick.clear()
        for held in self._all_running():
            held.given_up, held.ended = True, False
            self._end_now(held)
        for advance in self._advances:
            advance.cancel()

    def _next_batch(self) -> list[Report]:
        """What is reported next: so many, and not so large that the database would choke on it."""
        sizes = accumulate(
            len(report.body or "") + len(report.log or "") + len(report.handed or "") for report in self._outbox[:BATCH]
        )
        return self._outbox[: max(1, sum(size <= BATCH_CHARACTERS for size in sizes))]

    def _return_hoard(self) -> None:
        """Give back what was taken ahead and still waits, because its handler turned slow: others may be idle."""
        since = time.monotonic() - HOARD.total_seconds()
        for waiting, kept in ((self._waiting, self._slots), (self._quick, 1)):
            while len(waiting) > kept and waiting[-1].taken < since:
                held = waiting.pop()
                self._write([Report(held.claim.key, held.claim.attempt, "handed_back")])

    def _wanted(self) -> Wanted:
        waiting = Counter([held.claim.handler for held in (*self._waiting, *self._quick)])
        room = self._slots - len(self._running) - len(self._waiting) - bool(self._quick)
        if self._slots and self._runs_fast() and self._pace.work(waiting) < AHEAD.total_seconds() / 2:
            room = max(room, 1)
        if room > 0 and not self._runner.environment.is_ready:
            room = 0
        return Wanted(self._queues, max(room, 0), self._pace.allowances())

    def _runs_fast(self) -> bool:
        slow = time.monotonic() - FAST.total_seconds()
        return all(self._pace.is_fast(held.claim.handler) and not 0 < held.begun < slow for held in self._all_running())

    def _all_running(self) -> list[Held]:
        return [held for chunk in self._running.values() for held in chunk]

    def _hold(self, claim: Claim, taken: float) -> None:
        held = Held(claim, taken)
        self._held[claim.key] = held
        (self._quick if self._runner.is_quick(claim) else self._waiting).append(held)

    def _dispatch(self) -> None:
        while len(self._running) < self._slots:
            if self._quick and not self._runner.quick_busy:
                most = self._pace.in_time(self._quick[0].claim.handler, CHUNK)
                chunk = [self._quick.popleft() for _ in range(min(most, len(self._quick)))]
                self._runner.quick_busy = True
            elif self._waiting:
                chunk = [self._waiting.popleft()]
            else:
                return
            task = asyncio.create_task(self._run(chunk))
            self._running[task] = chunk
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        chunk = self._running.pop(task, None)
        if chunk is None:  # it was dropped
            return
        if task.cancelled():
            self._write([Report(held.claim.key, held.claim.attempt, "handed_back") for held in chunk])
        elif error := task.exception():
            for held in chunk:
                log.error("worker.fault", **held.claim.ids, error=str(error), exc_info=error)
            body = encode({**describe_error(error), "category": "bug"})
            self._write([Report(held.claim.key, held.claim.attempt, "failed", body) for held in chunk])
        self._dispatch()
        self._live.ring()

    async def _run(self, chunk: list[Held]) -> None:
        reports = await self._runner.run(chunk)
        for held, report in zip(chunk, reports, strict=True):
            if report is None:
                self._let_go(held)
            elif report.ran is not None:
                self._pace.note(held.claim.handler, report.ran.total_seconds())
        self._write([report for report in reports if report is not None])

    def _let_go(self, held: Held) -> None:
        """Forget a task that became a job of its own, and start that."""
        self._held.pop(held.claim.key, None)
        if held.rights:
            self._start_advance(held.rights)

    def _write(self, reports: Sequence[Report]) -> None:
        self._outbox.extend(reports)
        self._live.ring()

    async def _send(self, batch: Sequence[Report], wanted: Wanted, *, replaced: bool = False) -> Turn:
        try:
            turn = await self._store.turn(self._live.session, batch, wanted)
        except Refused as error:
            if replaced or not batch:
                raise Unavailable(error.code, error.message) from error
            return await self._send_apart(batch, wanted, error)
        for report, answer in zip(batch, turn.answers, strict=True):
            if answer is Answer.STALE:
                held = self._held.get(report.key)
                ids = held.claim.ids if held else {}
                known = {"lane": report.key.lane, "index": report.key.place, **ids, "attempt": report.attempt}
                log.warning("report.stale", **known)
        if turn.rights:
            self._start_advance(turn.rights)
        return turn

    async def _send_apart(self, batch: Sequence[Report], wanted: Wanted, error: Refused) -> Turn:
        """Halve a batch that the store refused until the culprit stands alone, and fails alone."""
        if len(batch) == 1:
            body = encode({"code": "task.unstorable", "message": error.message, "category": "bug"})
            failed = Report(batch[0].key, batch[0].attempt, "failed", body)
            return await self._send([failed], wanted, replaced=True)
        middle, nothing = len(batch) // 2, Wanted(wanted.queues, 0, {})
        first = await self._send(batch[:middle], nothing)
        second = await self._send(batch[middle:], wanted)
        return Turn([*first.answers, *second.answers], [], second.claims)

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
        return [InHand(Attempt(held.claim.key, held.claim.attempt), held.started) for held in list(self._held.values())]

    def _tell_progress(self, pulse: Pulse) -> bool:
        """Tell the store what handlers said since they were last told of; False when that is nothing."""
        news = [(held, said) for held in list(self._held.values()) if (said := held.said) and said is not held.told]
        if not news:
            return False
        told = [Said(Attempt(held.claim.key, held.claim.attempt), said) for held, said in news]
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
            if held is None or held.claim.attempt != attempt.number or held.given_up:
                continue
            for waiting in (self._waiting, self._quick):
                if held in waiting:
                    waiting.remove(held)
                    self._write([Report(attempt.key, attempt.number, "handed_back")])
            if held not in self._all_running():
                continue
            held.given_up = True
            self._runner.tell_cancelled(held)
            asyncio.get_running_loop().call_later(self._grace.total_seconds(), self._end_now, held)
