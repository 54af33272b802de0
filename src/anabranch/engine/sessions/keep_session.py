"""Keep one live session for a process, and begin a new one when it is lost."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Protocol

import structlog

from anabranch.engine.model import LimitKind, SessionId, SessionKind
from anabranch.engine.ports import Refused, SessionGone, Store
from anabranch.engine.sessions.heartbeat import Heartbeat
from anabranch.engine.sessions.live_session import DoorbellRang, LiveSession
from anabranch.errors import Unavailable
from anabranch.workflows.work import Breaker

__all__ = ["Part", "keep_session"]

log = structlog.get_logger()
END_SECONDS = 5.0


class Part(Protocol):
    """A part of the engine that runs under a session."""

    async def serve(self, live: LiveSession, stop: asyncio.Event) -> None:
        """Run until asked to stop; SessionGone when the session was lost. It is cancelled when its heartbeat fails."""


async def keep_session(
    store: Store,
    part: Part,
    stop: asyncio.Event,
    *,
    kind: SessionKind,
    lease: timedelta,
    queues: Sequence[str] = (),
    slots: int = 0,
    handlers: Mapping[str, str] | None = None,
    breakers: Mapping[tuple[LimitKind, str], Breaker] | None = None,
    on_stuck: Callable[[], None] | None = None,
) -> None:
    """Serve until asked to stop, under a session that is begun again whenever it is lost.

    `handlers` are those of a worker, with their versions, and `breakers` those of its handlers and queues. `on_stuck`
    is called from the heartbeat's thread when the loop has not turned for two leases: something blocks it.
    """
    while not stop.is_set():
        try:
            session = await _unless(stop, store.open_session(kind, queues, slots, lease, handlers, breakers))
        except (Unavailable, Refused, OSError) as error:
            log.warning("session.waiting", reason=str(error))
            await _pause(stop)
            continue
        if session is None:
            return
        live = LiveSession(session)
        heartbeat = Heartbeat(partial(store.pulse, queues), live, lease, on_stuck)
        log.info("session.began", session=session, kind=kind)
        tasks = [asyncio.create_task(part.serve(live, stop)), asyncio.create_task(_ring_at_stop(live, stop))]
        try:
            heartbeat.start()
            await _watch(tasks[0], session, heartbeat, lease)
        except SessionGone:
            log.warning("session.lost", session=session)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await _end(store, session)
            await asyncio.to_thread(heartbeat.stop)


async def _watch(serving: "asyncio.Task[None]", session: SessionId, heartbeat: Heartbeat, lease: timedelta) -> None:
    """Wait for the end of a part while its heartbeat is answered; SessionGone after two thirds of a lease without an
    answer: the sweeper may give its tasks to others soon, and a call that hangs would not show it."""
    while not serving.done():
        await asyncio.wait([serving], timeout=lease.total_seconds() / 12)
        heartbeat.tick()
        if not serving.done() and heartbeat.silence > lease * 2 / 3:
            log.error("session.unanswered", session=session)
            raise SessionGone(session)
    await serving


async def _ring_at_stop(live: LiveSession, stop: asyncio.Event) -> None:
    await stop.wait()
    live.send(DoorbellRang())


async def _end(store: Store, session: SessionId) -> None:
    try:
        async with asyncio.timeout(END_SECONDS):
            await store.end_session(session, "stopped")
    except (Unavailable, Refused, TimeoutError) as error:
        log.warning("session.end_unreported", session=session, reason=str(error) or "no answer")


async def _unless(stop: asyncio.Event, opening: Coroutine[None, None, SessionId]) -> SessionId | None:
    """The session, or None when asked to stop before there is one: a database that is away may take long."""
    begun, stopped = asyncio.create_task(opening), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([begun, stopped], return_when=asyncio.FIRST_COMPLETED)
        return await begun if begun.done() else None
    finally:
        begun.cancel()
        stopped.cancel()
        await asyncio.gather(begun, stopped, return_exceptions=True)


async def _pause(stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await stop.wait()
