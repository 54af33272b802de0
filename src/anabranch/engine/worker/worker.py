"""The worker: claim tasks, run their handlers, report how they ended, and advance what that finished."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import structlog

from anabranch.engine.advancing.advancer import Advancer, BackgroundAdvances
from anabranch.engine.model import Answer, Report
from anabranch.engine.ports import NO_TRACER, Refused, Store, Tracer, Turn
from anabranch.engine.registry import Registry
from anabranch.engine.sessions.live_session import LiveSession, StopAttempts
from anabranch.engine.worker.dispatcher import MAX_PREFETCH_IDLE, Dispatcher, WorkerOptions, is_internal
from anabranch.engine.worker.processes.pool import HandlerProcesses
from anabranch.engine.worker.reporter import Outbox, Reporter
from anabranch.engine.worker.runner import Runner
from anabranch.engine.worker.work_cleaner import WorkCleaner
from anabranch.errors import Unavailable
from anabranch.storage.large_results import Results

__all__ = ["Worker"]

log = structlog.get_logger()
POLL_INTERVAL = timedelta(seconds=1)
SHUTDOWN_SECONDS = 10.0
KILL_WAIT_SECONDS = 2.0
MIN_SPREAD_SECONDS = 0.005
MAX_SPREAD_SECONDS = 0.1
UNREPORTED_SECONDS = 5.0  # after the grace, what can't be reported is left to others


@dataclass
class Worker:
    """Serves queues, under one session after the other."""

    store: Store
    registry: Registry
    children: HandlerProcesses
    results: Results
    options: WorkerOptions
    tracer: Tracer = NO_TRACER
    stuck: bool = False

    async def serve(self, live: LiveSession, stop: asyncio.Event) -> None:
        """Run until asked to stop; SessionGone when the session expired, and with it all claims."""
        scratch = self.options.scratch
        runner = Runner(self.store, self.registry, self.children, self.results, scratch, live.session, self.tracer)
        loop = TaskLoop(self.store, runner, live, self.options)
        working, listening = asyncio.create_task(loop.work(stop)), asyncio.create_task(loop.listen())
        cleaning = asyncio.create_task(WorkCleaner(self.store, live.session, self.results.work).serve())
        try:
            done, _ = await asyncio.wait([working, listening], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
        finally:
            loop.abandon()
            for task in (working, listening, cleaning):
                task.cancel()
            await asyncio.wait([working, listening, cleaning])
            runner.close()
            self.stuck = runner.quick_busy or loop.has_dropped


class TaskLoop:
    """The worker's loop: reports ended tasks and claims new ones in one round trip."""

    def __init__(self, store: Store, runner: Runner, live: LiveSession, options: WorkerOptions) -> None:
        self._runner = runner
        self._live = live
        self._grace = options.grace
        self._longest_idle = options.longest_idle
        self._idle_since = asyncio.get_running_loop().time()
        self._wake = asyncio.Event()
        self._outbox = Outbox(self._wake)
        self._reporter = Reporter(store, live.session, live.attempts)
        self._advances = BackgroundAdvances(Advancer(store, live.session, runner.results, live.rights), self._wake)
        self._dispatcher = Dispatcher(runner, live, self._outbox, self._advances, options)
        self._hungry = True
        # All idle workers hear a doorbell, and few find something: one that finds nothing answers the next one later.
        self._spread = 0.0
        self._rung = False

    @property
    def has_dropped(self) -> bool:
        """Whether tasks were given back whose threads or coroutines still run."""
        return self._dispatcher.dropped

    async def listen(self) -> None:
        """Act at once on what the heartbeat sends, also while a turn waits for the store; SessionGone at the end."""
        while True:
            event = await self._live.next_event()
            if isinstance(event, StopAttempts):
                self._dispatcher.stop_attempts(event.attempts)
                self._wake.set()
            elif not self._rung:  # until the next turn, one ring is as good as many
                self._rung = True
                delay = random.uniform(0, self._spread)  # noqa: S311  # jitter, no secret
                asyncio.get_running_loop().call_later(delay, self._wake.set)

    async def work(self, stop: asyncio.Event) -> None:
        """Take turns until asked to stop, and finish."""
        while not stop.is_set():
            await self._try_turn()
            if self._runner.stuck:
                log.error("worker.stuck", remedy="A quick handler blocked; declare it without quick=True.")
                stop.set()
            if self._has_been_idle():
                log.info("worker.idle", remedy="It ends, because it was started to end when there is nothing to do.")
                stop.set()
        await self._finish()

    def abandon(self) -> None:
        """Stop all that still runs and start nothing more: other processes have the tasks now."""
        self._dispatcher.abandon()
        self._advances.cancel()

    def _has_been_idle(self) -> bool:
        """Whether no task of the queues asked for was in hand for so long that the worker ends.

        Planning, which every worker does for every workflow, keeps none alive; what is left of it is done at the end.
        """
        now = asyncio.get_running_loop().time()
        if self._longest_idle is None or any(not is_internal(held.claim) for held in self._live.tasks.values()):
            self._idle_since = now
            return False
        return now - self._idle_since >= self._longest_idle.total_seconds()

    async def _finish(self) -> None:
        """Let handlers end, hand back those that don't, and report everything (W3)."""
        self._dispatcher.close()
        end = asyncio.get_running_loop().time() + self._grace.total_seconds()
        handed_back = False
        while self._live.tasks or self._outbox or self._advances:
            late = asyncio.get_running_loop().time() - end
            if not handed_back and late >= 0:
                handed_back = True
                self._dispatcher.hand_back()
            elif late >= KILL_WAIT_SECONDS:
                self._dispatcher.drop(ended=late >= SHUTDOWN_SECONDS)
            try:
                async with asyncio.timeout(SHUTDOWN_SECONDS):
                    is_answered = await self._try_turn()
            except TimeoutError:
                is_answered, late = False, UNREPORTED_SECONDS
            if not is_answered and late >= UNREPORTED_SECONDS and not self._dispatcher.is_running:
                log.warning("worker.unreported", remedy="What could not be reported is tried again by others.")
                return

    async def _try_turn(self) -> bool:
        """Take a turn; False where the store did not accept it."""
        try:
            await self._turn()
            self._live.trouble = self._outbox.trouble or self._runner.environment.trouble
        except (Unavailable, Refused, OSError) as error:
            log.warning("worker.interrupted", reason=str(error))
            self._live.trouble = self._outbox.trouble or str(error)
            await self._sleep(timedelta(seconds=1))
            return False
        return True

    async def _turn(self) -> None:
        """Report ended tasks, claim new ones, or wait until there is something to do."""
        self._dispatcher.return_prefetched()
        batch, wanted = self._outbox.next_batch(), self._dispatcher.wanted()
        if not batch and not (wanted.limit and self._hungry):
            await self._sleep(MAX_PREFETCH_IDLE if self._dispatcher.has_waiting else POLL_INTERVAL)
            self._hungry = True
            return
        rung, self._rung = self._rung, False  # what rings from now on may be of what this claim does not see
        try:
            turn = await self._reporter.send(batch, wanted)
        except Unavailable as error:
            if batch and error.code == "database.interrupted":
                self._outbox.postpone(batch, str(error))
            raise
        self._outbox.remove(batch)
        self._settle(batch, turn)
        self._hungry = bool(turn.claims)
        for_nothing = rung and wanted.limit and not turn.claims
        self._spread = min(max(2 * self._spread, MIN_SPREAD_SECONDS), MAX_SPREAD_SECONDS) if for_nothing else 0.0
        self._dispatcher.take(turn.claims)

    def _settle(self, batch: Sequence[Report], turn: Turn) -> None:
        """Release the reported tasks, and spend the rights that they gave."""
        for report, answer in zip(batch, turn.answers, strict=True):
            held = self._live.tasks.get(report.attempt.key)
            if held and held.claim.fence == report.attempt:
                del self._live.tasks[report.attempt.key]
            if answer is Answer.STALE:
                (lane, place), number, _ = report.attempt
                ids = held.claim.ids if held else {}
                log.warning("report.stale", **{"lane": lane, "index": place, **ids, "attempt": number})
        self._advances.start(turn.rights)

    async def _sleep(self, longest: timedelta) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(longest.total_seconds()):
                await self._wake.wait()
        self._wake.clear()
