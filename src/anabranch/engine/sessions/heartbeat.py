"""The heartbeat of a session, in a separate thread with a separate connection, so that no handler can stop it (W4)."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import structlog

from anabranch.engine.model import AttemptOutput, AttemptProgress, TaskKey
from anabranch.engine.ports import HeartbeatConnection, Refused
from anabranch.engine.sessions.live_session import DoorbellRang, HeldTask, LiveSession, SessionLost, StopAttempts

__all__ = ["Heartbeat"]

log = structlog.get_logger()
BEATS_PER_LEASE = 3
STUCK_BEATS = 2 * BEATS_PER_LEASE
PROGRESS_SECONDS = 1.0
MAX_WAIT_SECONDS = 0.4  # what handlers print can be read after this time
MAX_OUTPUT_CHARACTERS = 256 * 1024  # in one report; the rest waits for the next, because the lease does not
# Each report of a task's output replaces the one before, so a longer log is reported less often: 10,000 characters
# twice a second, and the 64 kB that are kept at most every 3 seconds.
OUTPUT_CHARACTERS_PER_SECOND = 20_000


class Heartbeat:
    """Renews the lease of a session three times in its length, and sends what the store answers as events.

    Between beats it reports what handlers print, and their progress: at most once a second, for all of them together.
    """

    def __init__(
        self,
        connect: Callable[[], HeartbeatConnection],
        live: LiveSession,
        lease: timedelta,
        on_stuck: Callable[[], None] | None = None,
    ) -> None:
        """Prepare; `start` begins the beat. `on_stuck` is called in its thread when the loop is blocked."""
        self._connect = connect
        self._live = live
        self._every = lease / BEATS_PER_LEASE
        self._on_stuck = on_stuck
        self._answered = time.monotonic()
        self._beats = 0
        self._stop = threading.Event()
        self._connection: HeartbeatConnection | None = None
        self._has_connection = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    @property
    def silence(self) -> timedelta:
        """How long ago the last beat was answered."""
        return timedelta(seconds=time.monotonic() - self._answered)

    def tick(self) -> None:
        """Note that the loop turns."""
        self._beats = 0

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Stop beating; returns when the connection is closed or after a second."""
        self._stop.set()
        with self._has_connection:
            if self._connection:
                self._connection.wake()
        self._thread.join(timeout=1)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._beat_until_lost():
                    return
            except Exception as error:  # noqa: BLE001  # without a heartbeat the session expires, so it goes on
                log.warning("heartbeat.interrupted", session=self._live.session, reason=str(error))
                self._stop.wait(min(1.0, self._every.total_seconds() / 4))

    def _beat_until_lost(self) -> bool:
        with self._open() as connection:
            self._live.send(DoorbellRang())
            due = reported = 0.0
            while not self._stop.is_set():
                if time.monotonic() >= due:
                    due = time.monotonic() + self._every.total_seconds()
                    if not self._beat(connection):
                        return False
                if time.monotonic() >= reported + PROGRESS_SECONDS and self._report_progress(connection):
                    reported = time.monotonic()
                self._report_output(connection)
                if connection.wait(timedelta(seconds=min(MAX_WAIT_SECONDS, max(0.0, due - time.monotonic())))):
                    self._live.send(DoorbellRang())
            return False

    @contextmanager
    def _open(self) -> Iterator[HeartbeatConnection]:
        connection = self._connect()
        self._lend(connection)
        try:
            yield connection
        finally:
            self._lend(None)
            connection.close()

    def _lend(self, connection: HeartbeatConnection | None) -> None:
        with self._has_connection:
            self._connection = connection

    def _beat(self, connection: HeartbeatConnection) -> bool:
        self._check_loop()
        to_stop = connection.beat(self._live.session, self._live.hands())
        if to_stop is None:
            log.error("session.gone", session=self._live.session)
            self._live.send(SessionLost())
            return False
        self._answered = time.monotonic()
        if to_stop:
            self._live.send(StopAttempts(to_stop))
        return True

    def _check_loop(self) -> None:
        """Count the beats since the loop last turned: unlike time, they stop while the process sleeps."""
        self._beats += 1
        if self._beats > STUCK_BEATS:
            remedy = "An async handler blocks; make it a plain def."
            log.error("process.stuck", session=self._live.session, remedy=remedy)
            if self._on_stuck:
                self._on_stuck()

    def _report_progress(self, connection: HeartbeatConnection) -> bool:
        """Report the progress that the store does not have yet; False when there is none."""
        tasks = list(self._live.tasks.values())
        news = [(held, made) for held in tasks if (made := held.progress) and made is not held.stored_progress]
        if not news:
            return False
        try:
            stored = connection.progress(
                self._live.session, [AttemptProgress(held.claim.fence, made) for held, made in news]
            )
        except Refused as error:
            log.warning("progress.refused", reason=error.message)
            stored = {held.claim.key for held, _ in news}
        for held, made in news:
            if held.claim.key in stored:
                held.stored_progress = made
        return True

    def _report_output(self, connection: HeartbeatConnection) -> None:
        """Report what handlers have printed that the store does not have yet."""
        printed: list[AttemptOutput] = []
        sizes: dict[TaskKey, tuple[HeldTask, int]] = {}
        room, now = MAX_OUTPUT_CHARACTERS, time.monotonic()
        for held in list(self._live.tasks.values()):
            output = held.output
            if output is None or held.ended or now < held.output_due or room <= 0:
                continue
            if output.size > held.stored_output:
                size, text = output.peek()
                sizes[held.claim.key] = held, size
                if text:
                    printed.append(AttemptOutput(held.claim.fence, text))
                    held.output_due = now + len(text) / OUTPUT_CHARACTERS_PER_SECOND
                    room -= len(text)
        try:
            stored = connection.keep_output(self._live.session, printed) if printed else set()
        except Refused as error:
            log.warning("output.refused", reason=error.message)
            stored = set(sizes)
        for key in stored:
            held, held.stored_output = sizes[key]
