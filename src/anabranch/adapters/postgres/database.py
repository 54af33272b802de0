"""Functions and queries of the schema, called by name over a pool; what goes wrong becomes an error of ours."""

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from functools import cache

import psycopg
import structlog
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from anabranch.adapters.postgres.connect import breaks_connection, conninfo, settings_of, unreachable
from anabranch.adapters.postgres.schema.files import FUNCTIONS, read_function, read_queries
from anabranch.adapters.postgres.server.connection import AsyncServerConnection
from anabranch.adapters.postgres.server.url import Role, ServerUrl
from anabranch.engine.model import SessionId
from anabranch.engine.ports import Refused, SessionGone
from anabranch.errors import Conflict, Unavailable

__all__ = ["Database", "call_text", "query_text", "translate"]

log = structlog.get_logger(__name__)
SESSION_GONE = "AN001"
RELEASE_DECIDES = "AN032"
# The server itself gives up after a minute; a server that is silent for longer is gone.
ANSWER_SECONDS = 75.0
RENEW_SECONDS = 2.0
# Where a server finds that a "cached plan must not change result type"; its message may be in any language.
STALE_PLAN = "RevalidateCachedQuery"
# Data, constraints, limits, rows that must be there: only these are the fault of what was sent. All else is the
# server's, and passes.
DATA_ERRORS = ("21", "22", "23", "54", "P0002", "P0003")


class Silent(psycopg.OperationalError):
    """A server that does not answer."""


class Outdated(psycopg.OperationalError):
    """A connection that prepared statements on a schema which is another now; it can't be used any more."""


class Database:
    """A small pool of connections in one role. No connection is held between calls (E19)."""

    def __init__(
        self,
        url: str,
        role: Role | None,
        *,
        name: str,
        size: int,
        checked: bool,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Nothing is opened yet; a `checked` connection is tried before it is lent, which costs a round trip.

        Without a role it acts as the login user; `settings` replace those of the role.
        """
        self.url = url
        self._login = ServerUrl.of(url).choose(role, session=False)
        settings = settings_of(role) if settings is None else settings
        self._renewing: asyncio.Task[None] | None = None
        self._pool: AsyncConnectionPool[AsyncServerConnection[DictRow]] = AsyncConnectionPool(
            conninfo(self._login, role, name, settings=settings),
            connection_class=AsyncServerConnection[DictRow],
            min_size=1,
            max_size=size,
            open=False,
            timeout=10,
            reconnect_timeout=5,
            check=AsyncConnectionPool.check_connection if checked else None,
            kwargs={
                "login": self._login,
                "settings": settings,
                "autocommit": not self._login.pooled,
                "row_factory": dict_row,
            },
        )

    async def open(self) -> None:
        """Start connecting; the database need not answer yet."""
        await asyncio.to_thread(read_texts)
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close every connection."""
        if self._renewing:
            await asyncio.wait([self._renewing], timeout=RENEW_SECONDS)
        await self._pool.close(timeout=2)

    async def call(self, function: str, *arguments: object, before: datetime | None = None) -> list[DictRow]:
        """The rows of a function of schema app; none, and no effect, where the clock has passed `before`."""
        if before is None:
            return await self._fetch(call_text(function), arguments)
        return await self._fetch(f"{call_text(function)} where app.now() < %s", (*arguments, before))

    async def renew(self) -> None:
        """Replace every connection, for a caller who wants to be sure that the next call is not hurt by an old one."""
        await self._pool.drain()

    async def query(self, name: str, **parameters: object) -> list[DictRow]:
        """The rows of one of `queries/`: these only read, so one that meets a dead connection is asked again."""
        try:
            return await self._fetch(query_text(name), parameters)
        except Unavailable as error:
            if not _was_dead(error.__cause__):
                raise
        if self._renewing:
            await asyncio.wait([self._renewing], timeout=RENEW_SECONDS)
        return await self._fetch(query_text(name), parameters)

    async def _fetch(self, text: str, parameters: tuple[object, ...] | Mapping[str, object]) -> list[DictRow]:
        async with self._connection() as connection:
            asking = asyncio.create_task(_ask(connection, text, parameters))
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await asyncio.shield(asking)
            except (TimeoutError, asyncio.CancelledError) as error:
                await _hang_up(connection, asking)
                if isinstance(error, TimeoutError):
                    raise Silent(f"it did not answer in {ANSWER_SECONDS:g} s") from None
                raise

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection[DictRow]]:
        cancels = _count_cancels()
        with translate(self._login):
            try:
                async with self._pool.connection() as connection:
                    _end_if_cancelled(cancels)
                    try:
                        yield connection
                    except psycopg.Error as error:
                        if breaks_connection(error):
                            await connection.close()
                        raise
            except psycopg.Error as error:
                _end_if_cancelled(cancels)
                if _was_dead(error):
                    self._renew()
                raise

    def _renew(self) -> None:
        # What ended one connection has ended every idle one, or outdated it: none of them is lent again.
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._pool.drain())


def _count_cancels() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def _end_if_cancelled(cancels: int) -> None:
    """Raise the cancellation that the pool lost: Python 3.11 drops one that meets the end of `asyncio.wait_for`."""
    if _count_cancels() > cancels:
        raise asyncio.CancelledError


async def _ask(
    connection: AsyncConnection[DictRow], text: str, parameters: tuple[object, ...] | Mapping[str, object]
) -> list[DictRow]:
    try:
        try:
            cursor = await connection.execute(text.encode(), parameters)
        except psycopg.errors.DeadlockDetected:  # nothing of it was done, and the other transaction goes on
            log.warning("database.deadlock", statement=text)
            await connection.rollback()
            cursor = await connection.execute(text.encode(), parameters)
    except psycopg.errors.FeatureNotSupported as error:
        if error.diag.source_function != STALE_PLAN:
            raise
        await connection.close()  # the pool makes another, which knows the schema as it is
        raise Outdated("the schema changed under a connection, which was closed") from error
    return await cursor.fetchall()


def _was_dead(cause: BaseException | None) -> bool:
    """Whether a connection broke, as idle ones do unnoticed; what was waited for in vain is not waited for again."""
    if isinstance(cause, psycopg.Error) and cause.sqlstate:
        return breaks_connection(cause)
    return type(cause) in (psycopg.OperationalError, Outdated)


async def _hang_up(connection: AsyncConnection[DictRow], asking: asyncio.Task[list[DictRow]]) -> None:
    """End a call whose answer nobody waits for: the driver alone would ask the server to cancel, and wait once more.

    The socket is shut down and closed later: the loop watches it for this call, and would take the next one of the same
    number for it.
    """
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.pgconn.socket)) as line:
        line.shutdown(socket.SHUT_RDWR)
    await asyncio.gather(asking, return_exceptions=True)
    connection.pgconn.finish()


@contextmanager
def translate(url: str) -> Iterator[None]:
    """Turn a driver's error into SessionGone, Conflict (a release is against it), Refused (the data's fault) or
    Unavailable (anything else: try later)."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate == SESSION_GONE:
            raise SessionGone(SessionId(int(re.sub(r"\D", "", error.diag.message_primary or "0")))) from None
        if error.sqlstate == RELEASE_DECIDES:
            raise Conflict("release.decides", error.diag.message_primary or "") from None
        if error.sqlstate is not None and error.sqlstate.startswith(DATA_ERRORS):
            raise Refused("database.refused", str(error)) from error
        raise unreachable(url, error) from error


@cache
def call_text(function: str) -> str:
    """The statement that calls a function, with a cast for every argument."""
    header = read_function(function).split(f"create function app.{function}", 1)[1]
    listed = header[header.index("(") + 1 : _closing(header)]
    declared = [one.split(" default ")[0] for one in listed.split(",")]
    arguments = [a.split() for a in declared if a.strip() and a.split()[0] != "out"]
    casts = ", ".join(f"%s::{' '.join(argument[1:])}" for argument in arguments)
    return f"select * from app.{function}({casts})"  # noqa: S608  # names and types are our own files'


@cache
def query_text(name: str) -> str:
    """A statement of `queries/`."""
    return read_queries()[name]


@cache
def read_texts() -> None:
    """Read every statement: a process that has no descriptors when it needs one for the first time can't any more."""
    for path in FUNCTIONS.rglob("*.sql"):
        if f"create function app.{path.stem}" in path.read_text(encoding="utf-8"):
            call_text(path.stem)
    for query in read_queries():
        query_text(query)


def _closing(header: str) -> int:
    depth = 0
    for position, character in enumerate(header):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == ")" and depth == 0:
            return position
    raise ValueError("a function's header has no end")
