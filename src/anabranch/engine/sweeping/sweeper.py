"""The sweeper: returns the tasks of dead sessions, and ends what has timed out."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from anabranch.engine.model import SessionId
from anabranch.engine.ports import ClockReading, TaskQueue
from anabranch.errors import AnabranchError

__all__ = ["SWEEP_INTERVAL", "Sweeper"]

log = structlog.get_logger()
SWEEP_INTERVAL = timedelta(seconds=5)
GRACE = timedelta(seconds=30)
LEAD_CHECK_ROUNDS = 6  # every so many rounds, look for times in the future: recorded while the clock was ahead
CLOCK_TOLERANCE = timedelta(seconds=20)  # less is drift, or an answer that was slow


def _read_steady_clock() -> float:
    """Seconds of a clock that can't be set, and that includes sleep where the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Sweeper:
    """Sweeps in bounded rounds; several may run at once."""

    def __init__(
        self,
        queue: TaskQueue,
        session: SessionId,
        *,
        every: timedelta = SWEEP_INTERVAL,
        now: Callable[[], float] = _read_steady_clock,
    ) -> None:
        """For the process of this session; `now` returns seconds of a clock that can't be set."""
        self._queue = queue
        self._session = session
        self._every = every
        self._now = now
        self._seen: _ClockSample | None = None
        self._rounds = 0

    async def run(self) -> None:
        """Sweep now and then until cancelled."""
        while True:
            try:
                await self.sweep()
            except AnabranchError as error:
                log.warning("sweeper.interrupted", reason=error.message)
            except Exception:  # the loop must go on; without its heartbeat, health shows it
                log.exception("sweeper.failed")
            await asyncio.sleep(self._every.total_seconds())

    async def sweep(self) -> None:
        """Do one round."""
        read = await self._follow_clock()
        swept = await self._queue.sweep(self._session, self._every, GRACE, lambda: read.latest(self._now()))
        if swept.expired or swept.released:
            log.warning("sweeper.took_over", sessions=swept.expired, tasks=swept.released)

    def latest(self) -> datetime | None:
        """The latest time that the server's clock can show, unless it has stepped; None before it was ever read."""
        return self._seen.latest(self._now()) if self._seen else None

    async def _follow_clock(self) -> "_ClockSample":
        """Check whether the server's clock stepped since the last round, by comparison with our monotonic clock."""
        read = await self._read_clock()
        last = self._seen or read
        elapsed = timedelta(seconds=read.answered - last.answered)
        step = read.reading.at - last.reading.at - elapsed
        noted = read.reading.shifted - last.reading.shifted
        slack = CLOCK_TOLERANCE + timedelta(seconds=max(read.took, last.took))
        if abs(step) > slack and abs(step - noted) > slack:
            await self._step_clock(step - noted, read.reading, elapsed)
            self._seen = await self._read_clock()  # which knows of the step
            return self._seen
        if self._rounds % LEAD_CHECK_ROUNDS == 0 and (lead := await self._queue.find_lead()) > CLOCK_TOLERANCE:
            await self._step_clock(-lead, read.reading, None)
        self._rounds += 1
        self._seen = read  # not before the step is noted: what fails is tried again with the next round
        return read

    async def _read_clock(self) -> "_ClockSample":
        asked = self._now()
        return _ClockSample(await self._queue.read_clock(), asked, self._now())

    async def _step_clock(self, step: timedelta, reading: ClockReading, elapsed: timedelta | None) -> None:
        if await self._queue.step_clock(self._session, step, reading.shifted, elapsed):
            log.warning("sweeper.clock_stepped", seconds=step.total_seconds())


@dataclass(frozen=True)
class _ClockSample:
    """A reading of the server's clock, and our clock before and after it."""

    reading: ClockReading
    asked: float
    answered: float

    @property
    def took(self) -> float:
        """How many seconds the answer took, which is its uncertainty."""
        return self.answered - self.asked

    def latest(self, now: float) -> datetime:
        """The latest time that the server's clock can show, unless it has stepped since."""
        return self.reading.at + timedelta(seconds=now - self.asked) + CLOCK_TOLERANCE
