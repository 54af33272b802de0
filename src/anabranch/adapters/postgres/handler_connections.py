"""Database connections for handlers: short transactions, few per worker at once (E19)."""

import fcntl
import random
import select
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from anabranch.adapters.postgres.server.url import ServerUrl
from anabranch.storage.read_access import ReadRights

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection
    from psycopg.rows import TupleRow

__all__ = ["ACTIVE_CONNECTIONS", "HANDLER_CONNECTIONS", "IDLE_SECONDS", "HandlerConnections"]

# How many handlers of one worker use a connection at the same time.
ACTIVE_CONNECTIONS = 2
# How many more stay open for the next burst: a new session takes several times as long to publish an item.
IDLE_CONNECTIONS = 2
IDLE_SECONDS = 5.0  # less than the idle_session_timeout of handlers
# One more asks which objects a task may read: its handler may hold a connection, and wait for no other.
HANDLER_CONNECTIONS = ACTIVE_CONNECTIONS + IDLE_CONNECTIONS + 1


class IdleConnection(NamedTuple):
    """An open connection between two uses, with its role and the lock that counts it."""

    role: str
    connection: "Connection[TupleRow]"
    lock: BinaryIO
    since: float

    def is_usable(self) -> bool:
        """Whether it is young, and the server has said nothing since: that would be its last word."""
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN)
        return time.monotonic() < self.since + IDLE_SECONDS and not poll.poll(0)

    def close(self) -> None:
        """Give it up."""
        self.connection.close()
        self.lock.close()


class HandlerConnections:
    """Gives connections in the roles of handlers, to this process and all that share the folder."""

    def __init__(self, url: str, folder: Path) -> None:
        """On this database; a folder of the worker's own holds the locks."""
        self._url = ServerUrl.of(url).for_handlers()
        self._folder = folder
        self._kept: list[IdleConnection] = []
        self._threads = Lock()

    def __repr__(self) -> str:
        return "HandlerConnections()"

    def __reduce__(self) -> tuple[object, ...]:
        """Connections stay in their process."""
        return HandlerConnections, (self._url, self._folder)

    def __del__(self) -> None:
        """Close what was kept."""
        self.close()

    def close(self) -> None:
        """Close what was kept for the next burst."""
        while self._kept:
            self._kept.pop().close()

    def __call__(self) -> "AbstractContextManager[Connection[TupleRow]]":
        """A connection for a user's work in schema geo."""
        return self._open_burst("GEO")

    def publishing(self) -> "AbstractContextManager[Connection[TupleRow]]":
        """A connection for plugins that publish."""
        return self._open_burst("HANDLER")

    @contextmanager
    def publishing_if_free(self) -> "Iterator[Connection[TupleRow] | None]":
        """The same, or None while as many are used as may be."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock("burst", ACTIVE_CONNECTIONS) or nullcontext() as lock:
            if lock is None:
                yield None
                return
            with self._open_connection("HANDLER") as connection:
                yield connection

    def find_rights(self, platform: str, job_id: str, tier: str, keys: Sequence[str]) -> ReadRights:
        """The rights of a job on some objects of a tier, in one statement."""
        from anabranch.adapters.postgres.database import call_text

        with self._open_burst("HANDLER", "rights", 1) as connection:
            wanted = (platform, job_id, tier, list(keys))
            ((folders, others, related, files),) = connection.execute(call_text("find_readable").encode(), wanted)
        return ReadRights(folders, others, related, files)

    @contextmanager
    def _open_burst(
        self, role: str, turn: str = "burst", turns: int = ACTIVE_CONNECTIONS
    ) -> "Iterator[Connection[TupleRow]]":
        """A connection when it is its turn."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._take_turn(turn, turns), self._open_connection(role) as connection:
            yield connection

    @contextmanager
    def _open_connection(self, role: str) -> "Iterator[Connection[TupleRow]]":
        """A connection in a transaction, committed at the end; what the server refuses for now is Unavailable."""
        import psycopg  # late: most handlers never ask

        from anabranch.adapters.postgres.connect import Role, breaks_connection, connect, unreachable

        connection = self._take_kept(role) or connect(
            self._url, Role[role], name="anabranch handler", autocommit=False, session=False
        )
        connection.prepare_threshold = None  # statements that were prepared are discarded after each burst
        try:
            yield connection
            connection.commit()
        except psycopg.Error as error:
            connection.close()
            if not (isinstance(error, psycopg.OperationalError) or breaks_connection(error)):
                raise
            raise unreachable(self._url, error) from None
        except BaseException:  # the handler's own error: what it did is rolled back
            connection.close()
            raise
        self._keep(role, connection)

    @asynccontextmanager
    async def connection(self) -> "AsyncIterator[AsyncConnection[TupleRow]]":
        """The same for async handlers; it is closed at the end."""
        import asyncio

        import psycopg

        from anabranch.adapters.postgres.connect import Role, breaks_connection, connect_async, unreachable

        self._folder.mkdir(parents=True, exist_ok=True)
        with await asyncio.to_thread(self._take_turn):
            opened = await connect_async(self._url, Role.GEO, name="anabranch handler", autocommit=False, session=False)
            try:
                async with opened:
                    yield opened
            except psycopg.Error as error:
                if not (isinstance(error, psycopg.OperationalError) or breaks_connection(error)):
                    raise
                raise unreachable(self._url, error) from None

    def _take_kept(self, role: str) -> "Connection[TupleRow] | None":
        while kept := self._find_kept(role):
            if kept.is_usable():
                kept.lock.close()
                return kept.connection
            kept.close()
        return None

    def _find_kept(self, role: str) -> IdleConnection | None:
        """The last that was kept, which is no longer: a handler may open connections in several threads."""
        with self._threads:
            found = next((kept for kept in reversed(self._kept) if kept.role == role), None)
            if found:
                self._kept.remove(found)
        return found

    def _keep(self, role: str, connection: "Connection[TupleRow]") -> None:
        """Leave it open for a while, if few others are, with nothing in it of the task that had it."""
        import psycopg

        lock = None if self._url.pooled else self._lock("kept", IDLE_CONNECTIONS)  # the pooler keeps the sessions
        if lock is None:
            connection.close()
            return
        kept = IdleConnection(role, connection, lock, time.monotonic())
        try:
            connection.autocommit = True
            connection.execute("discard all")
            connection.autocommit = False
        except psycopg.Error:  # what the burst did is committed
            kept.close()
        else:
            self._kept.append(kept)

    def _take_turn(self, name: str = "burst", count: int = ACTIVE_CONNECTIONS) -> BinaryIO:
        """One of a few locks; a process that dies frees its own."""
        if lock := self._lock(name, count):
            return lock
        lock = self._open(name, random.randrange(count))  # noqa: S311  # any of them
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def _lock(self, name: str, count: int) -> BinaryIO | None:
        """One of so many locks, if one is free."""
        for number in range(count):
            lock = self._open(name, number)
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            lock.close()
        return None

    def _open(self, name: str, number: int) -> BinaryIO:
        return (self._folder / f"{name}-{number}").open("wb")
