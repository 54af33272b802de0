"""The heartbeat and the doorbell of a session on PostgreSQL."""

import os
import select
import time
from collections.abc import Collection, Sequence
from datetime import timedelta

import psycopg
import structlog
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import call_text, translate
from anabranch.adapters.postgres.store.rows import write_in_hand, write_token
from anabranch.canonical import encode
from anabranch.engine.model import Attempt, AttemptOutput, AttemptProgress, SessionId, TaskKey
from anabranch.engine.ports import Holdings

__all__ = ["PostgresHeartbeat"]

log = structlog.get_logger()
CHANNEL = "anabranch"


class PostgresHeartbeat:
    """A separate connection for heartbeats and doorbells."""

    def __init__(self, url: str, name: str, queues: Collection[str]) -> None:
        """Connect and listen to the doorbells of queues."""
        self._url = url
        self._queues = frozenset(queues)
        self._connection: Connection[TupleRow] = connect(url, Role.APP, name=name)
        with translate(url):
            self._connection.execute(sql.SQL("listen {}").format(sql.Identifier(CHANNEL)))
        self._woken, self._waker = os.pipe()

    def beat(self, session: SessionId, hands: Holdings) -> list[Attempt] | None:
        """Renew the leases of the session and its rights; returns the attempts to stop, or None when it expired."""
        began, held, rights = time.monotonic(), write_in_hand(hands.attempts), list(hands.rights)
        with translate(self._url):
            beat = (session, held, rights, hands.trouble)
            row = self._connection.execute(call_text("beat").encode(), beat).fetchone()
            if row is None or row[0] is None:
                return None
            # A call may be held up for long, and what was claimed since the hands were read is not lost.
            (now,) = self._connection.execute(call_text("now").encode()).fetchone() or (None,)
            read_at = now - timedelta(seconds=time.monotonic() - began)
            try:
                self._connection.execute(call_text("reconcile").encode(), (session, held, rights, None, read_at))
            except psycopg.Error as error:  # a row that can't be given back; the lease is renewed all the same
                if self._connection.closed:
                    raise
                log.warning("reconcile.failed", session=session, reason=str(error).split("\n")[0])
        return [Attempt(TaskKey(lane, index), number, token) for lane, index, number, token in row[0]]

    def keep_output(self, session: SessionId, printed: Sequence[AttemptOutput]) -> set[TaskKey]:
        """Keep what tasks have printed so far; those of which it was kept."""
        return self._note("keep_output", session, [{**write_token(one.attempt), "log": one.text} for one in printed])

    def progress(self, session: SessionId, said: Sequence[AttemptProgress]) -> set[TaskKey]:
        """Note how far tasks are; those that were noted."""
        return self._note(
            "progress", session, [{**write_token(one.attempt), "progress": vars(one.progress)} for one in said]
        )

    def _note(self, function: str, session: SessionId, rows: Sequence[dict[str, object]]) -> set[TaskKey]:
        with translate(self._url):
            row = self._connection.execute(call_text(function).encode(), (session, encode(rows))).fetchone()
        return {TaskKey(lane, index) for lane, index in (row or [[]])[0]}

    def wait(self, timeout: timedelta) -> bool:
        """True when a doorbell of its queues rang before the timeout; a wait that was woken ends early."""
        with translate(self._url):
            if self._has_rung():
                return True
            ready = select.poll()
            for descriptor in (self._connection.fileno(), self._woken):
                ready.register(descriptor, select.POLLIN)
            ready.poll(timeout.total_seconds() * 1000)
            return self._has_rung()

    def wake(self) -> None:
        """End this wait, and every later one at once; from any thread."""
        os.write(self._waker, b".")

    def close(self) -> None:
        """Close the connection; it can't be woken any more."""
        self._connection.close()
        os.close(self._woken)
        os.close(self._waker)

    def _has_rung(self) -> bool:
        rung = {bell.payload for bell in self._connection.notifies(timeout=0)}
        return not rung.isdisjoint(self._queues)
