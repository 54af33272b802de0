"""The beat of a session, from a thread and a connection of its own, so that no handler can stop it (W4)."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import structlog

from anabranch.engine.model import Attempt, SessionId
from anabranch.engine.ports import Hands, HeartbeatConnection

__all__ = ["Heartbeat"]

log = structlog.get_logger()
SAY_EVERY_SECONDS = 1.0


class Heartbeat:
    """Beats every third of the lease and passes on what it hears: doorbells, attempts to stop, and a lost session.

    Between beats it lets the process say how far its work is: at most once a second, for all of it together.
    The callbacks are called from the heart's thread.
    """

    def __init__(
        self,
        connect: Callable[[], HeartbeatConnection],
        session: SessionId,
        lease: timedelta,
        *,
        hands: Callable[[], Hands],
        say: Callable[[HeartbeatConnection], bool],
        on_ring: Callable[[], None],
        on_stop: Callable[[list[Attempt]], None],
        on_gone: Callable[[], None],
        on_heard: Callable[[], None],
        on_beat: Callable[[], None],
    ) -> None:
        """Prepare; `start` begins the beat."""
        self._connect = connect
        self._session = session
        self._every = lease / 3
        self._hands = hands
        self._say = say
        self._on_ring, self._on_stop, self._on_gone, self._on_heard = on_ring, on_stop, on_gone, on_heard
        self._on_beat = on_beat
        self._stop = threading.Event()
        self._pulse: HeartbeatConnection | None = None
        self._has_pulse = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Stop beating; returns when the connection is closed or after a second."""
        self._stop.set()
        with self._has_pulse:
            if self._pulse:
                self._pulse.wake()
        self._thread.join(timeout=1)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._beat_until_lost():
                    return
            except Exception as error:  # noqa: BLE001  # a heart that stops kills its session, so it goes on
                log.warning("heart.interrupted", session=self._session, reason=str(error))
                self._stop.wait(min(1.0, self._every.total_seconds() / 4))

    def _beat_until_lost(self) -> bool:
        with self._open() as pulse:
            self._on_ring()
            due = said = 0.0
            while not self._stop.is_set():
                if time.monotonic() >= due:
                    due = time.monotonic() + self._every.total_seconds()
                    if not self._beat(pulse):
                        return False
                if time.monotonic() >= said + SAY_EVERY_SECONDS and self._say(pulse):
                    said = time.monotonic()
                if pulse.wait(timedelta(seconds=min(0.5, max(0.0, due - time.monotonic())))):
                    self._on_ring()
            return False

    @contextmanager
    def _open(self) -> Iterator[HeartbeatConnection]:
        pulse = self._connect()
        self._lend(pulse)
        try:
            yield pulse
        finally:
            self._lend(None)
            pulse.close()

    def _lend(self, pulse: HeartbeatConnection | None) -> None:
        with self._has_pulse:
            self._pulse = pulse

    def _beat(self, pulse: HeartbeatConnection) -> bool:
        self._on_beat()
        answer = pulse.beat(self._session, self._hands())
        if answer is None:
            log.error("session.gone", session=self._session)
            self._on_gone()
            return False
        self._on_heard()
        if answer:
            self._on_stop(answer)
        return True
