"""Keep one live session for a process, and begin a new one when it is lost."""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Protocol

import structlog

from anabranch.engine.heartbeat import Heartbeat
from anabranch.engine.model import Attempt, InHand, RightId, SessionId, SessionKind
from anabranch.engine.ports import Hands, HeartbeatConnection, Refused, SessionGone, Store
from anabranch.errors import Unavailable

__all__ = ["LiveSession", "Part", "keep_session"]

log = structlog.get_logger()
PARTING_SECONDS = 5.0
STUCK_BEATS = 6  # three a lease


class LiveSession:
    """A session while it lives: its id, its doorbell, and what its heart heard."""

    def __init__(self, session: SessionId) -> None:
        """For the running loop."""
        self.session = session
        self.in_hand: Callable[[], Sequence[InHand]] = tuple
        self.rights: Callable[[], Sequence[RightId]] = tuple
        self.trouble: str | None = None
        self.on_stop: Callable[[list[Attempt]], None] = lambda _attempts: None
        self.on_lost: Callable[[], None] = lambda: None
        self.speak: Callable[[HeartbeatConnection], bool] = lambda _pulse: False
        self._bell = asyncio.Event()
        self._gone = False
        self._heard = time.monotonic()
        self._beats = 0

    @property
    def silence(self) -> timedelta:
        """How long ago the heart's last beat was answered."""
        return timedelta(seconds=time.monotonic() - self._heard)

    def tick(self) -> None:
        """Note that the loop turns."""
        self._beats = 0

    def count_beat(self) -> int:
        """How many beats there were, with this one, since the loop last turned; a process that sleeps has none."""
        self._beats += 1
        return self._beats

    def hear(self) -> None:
        """Note that a beat was answered."""
        self._heard = time.monotonic()

    def hands(self) -> Hands:
        """What the session's process has in hand now, and what keeps it from its work."""
        return Hands(self.in_hand(), self.rights(), self.trouble)

    def say(self, pulse: HeartbeatConnection) -> bool:
        """Tell over the heart's connection how far the work is; False when there is nothing new."""
        return self.speak(pulse)

    def ring(self) -> None:
        """Wake whoever waits."""
        self._bell.set()

    def lose(self) -> None:
        """Note that the session was taken for dead, and stop at once what runs under it."""
        self._gone = True
        self.on_lost()
        self._bell.set()

    def check(self) -> None:
        """Raise SessionGone if it was."""
        if self._gone:
            raise SessionGone(self.session)

    async def wait(self, longest: timedelta) -> None:
        """Sleep until the bell rings, or no longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest.total_seconds()):
                await self._bell.wait()
        self._bell.clear()


class Part(Protocol):
    """A part of the engine that runs under a session."""

    async def serve(self, live: LiveSession, stop: asyncio.Event) -> None:
        """Run until told to stop; SessionGone when the session was lost."""


async def keep_session(
    store: Store,
    part: Part,
    stop: asyncio.Event,
    *,
    kind: SessionKind,
    lease: timedelta,
    queues: Sequence[str] = (),
    slots: int = 0,
    handlers: Collection[str] = (),
    on_stuck: Callable[[], None] = lambda: None,
) -> None:
    """Serve until told to stop, under a session that is begun again whenever it is lost.

    `on_stuck` is called from the heart's thread when the loop has not turned for two leases: something blocks it.
    """
    while not stop.is_set():
        try:
            session = await _unless(stop, store.open_session(kind, queues, slots, lease, handlers))
        except (Unavailable, Refused, OSError) as error:
            log.warning("session.waiting", reason=str(error))
            await _pause(stop)
            continue
        if session is None:
            return
        live = LiveSession(session)
        heart = _heart(store, live, lease, on_stuck)
        log.info("session.began", session=session, kind=kind)
        try:
            heart.start()
            await _serve(part, live, stop, lease)
        except SessionGone:
            log.warning("session.lost", session=session)
        finally:
            await _end(store, session)
            await asyncio.to_thread(heart.stop)


async def _serve(part: Part, live: LiveSession, stop: asyncio.Event, lease: timedelta) -> None:
    """Serve while the heart is heard. One that was silent for two thirds of a lease has lost the session: the sweeper
    may give its tasks to others soon, and a call that hangs would not tell."""
    serving = asyncio.create_task(part.serve(live, stop))
    try:
        while not serving.done():
            await asyncio.wait([serving], timeout=lease.total_seconds() / 12)
            live.tick()
            if not serving.done() and live.silence > lease * 2 / 3:
                log.error("session.unheard", session=live.session)
                live.lose()
                live.check()
        await serving
    finally:
        serving.cancel()
        await asyncio.wait([serving])


def _heart(store: Store, live: LiveSession, lease: timedelta, on_stuck: Callable[[], None]) -> Heartbeat:
    loop = asyncio.get_running_loop()
    return Heartbeat(
        store.pulse,
        live.session,
        lease,
        hands=live.hands,
        say=live.say,
        on_ring=lambda: _threadsafe(loop, live.ring),
        on_stop=lambda attempts: _threadsafe(loop, live.on_stop, attempts),
        on_gone=lambda: _threadsafe(loop, live.lose),
        on_heard=live.hear,
        on_beat=lambda: _check_loop(live, on_stuck),
    )


def _check_loop(live: LiveSession, on_stuck: Callable[[], None]) -> None:
    if live.count_beat() > STUCK_BEATS:
        log.error("process.stuck", session=live.session, remedy="An async handler blocks; make it a plain def.")
        on_stuck()


def _threadsafe(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: object) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call, *args)


async def _end(store: Store, session: SessionId) -> None:
    try:
        async with asyncio.timeout(PARTING_SECONDS):
            await store.end_session(session, "stopped")
    except (Unavailable, Refused, TimeoutError) as error:
        log.warning("session.end_unsaid", session=session, reason=str(error) or "no answer")


async def _unless(stop: asyncio.Event, opening: Coroutine[None, None, SessionId]) -> SessionId | None:
    """The session, or None when told to stop before there is one: a database that is away may take long."""
    begun, told = asyncio.create_task(opening), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([begun, told], return_when=asyncio.FIRST_COMPLETED)
        return await begun if begun.done() else None
    finally:
        begun.cancel()
        told.cancel()
        await asyncio.gather(begun, told, return_exceptions=True)


async def _pause(stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await stop.wait()
