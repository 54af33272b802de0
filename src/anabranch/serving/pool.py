"""A small pool of asyncpg's connections in one role; it recovers from a late or restarted server."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import structlog
from psycopg.conninfo import conninfo_to_dict

from anabranch.adapters.postgres.connect import Role, conninfo
from anabranch.errors import Unavailable

if TYPE_CHECKING:
    import asyncpg

__all__ = ["QUERY_CANCELED", "TRANSIENT_STATES", "Pool", "unreachable"]

log = structlog.get_logger()

DSN_KEYS = ("host", "port", "user", "password", "dbname", "passfile", "sslmode", "sslcert", "sslkey", "sslrootcert")
WAIT_SECONDS = 10.0
QUERY_SECONDS = 15.0
TRANSIENT_STATES = ("08", "40", "53", "55P03", "57P")
QUERY_CANCELED = "57014"


class Pool(ABC):
    """Connections in a role, each lent for one statement; the database need not be up yet."""

    ROLE: Role
    NAME: str  # that the database shows
    OPTIONS: str  # of each session
    RESETS = True  # whether a session is reset after each use, which takes the time of a statement

    def __init__(self, url: str, connections: int) -> None:
        self._url = url
        self._connections = connections
        self._pool: asyncpg.Pool | None = None

    async def open(self) -> None:
        """Create the pool, which connects on first use; importing its driver takes a while."""
        driver = await asyncio.to_thread(import_module, "asyncpg")
        if self._pool is None:
            self._pool = driver.create_pool(
                self._dsn(),
                min_size=0,
                max_size=self._connections,
                max_inactive_connection_lifetime=60,
                timeout=WAIT_SECONDS,
                command_timeout=QUERY_SECONDS,
                init=_read_json,
                reset=None if self.RESETS else _keep,
                server_settings=self._settings(),
            )
        await self._pool  # does not wait, since nothing is connected yet

    async def close(self) -> None:
        """Close every connection, also one that is lent."""
        if self._pool:
            self._pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:  # asyncpg's, which has no types
        """A connection; its errors are translated."""
        if self._pool is None:
            await self.open()
        assert self._pool is not None  # noqa: S101  # for the types
        connection = await self._acquire(self._pool)
        try:
            yield connection
        except Exception as error:
            raise self._translate(error) from error
        finally:
            with suppress(*self._driver_errors()):  # a connection that is lost; the pool makes another
                await self._pool.release(connection, timeout=WAIT_SECONDS)

    @abstractmethod
    def translate_state(self, error: Any) -> Exception:  # asyncpg's, which has no types
        """What a reader is shown of an error of the server."""

    def _driver_errors(self) -> tuple[type[Exception], ...]:
        import asyncpg

        return OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError

    async def _acquire(self, pool: "asyncpg.Pool") -> Any:  # as above
        try:
            return await pool.acquire(timeout=WAIT_SECONDS)
        except self._driver_errors() as error:
            raise unreachable(error) from error

    def _translate(self, error: Exception) -> Exception:
        """Translate a driver's error for readers; other errors are returned unchanged."""
        import asyncpg

        if isinstance(error, asyncpg.PostgresError):
            return self.translate_state(error)
        if isinstance(error, OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError):
            return unreachable(error)
        return error

    def _given(self) -> dict[str, str]:
        given = conninfo_to_dict(conninfo(self._url, self.ROLE, self.NAME))
        return {name: str(value) for name, value in given.items()}

    def _dsn(self) -> str:
        given = self._given()
        given["host"] = given.get("hostaddr") or given.get("host", "")
        named = {name: given[name] for name in DSN_KEYS if given.get(name)}
        return f"postgresql://?{urlencode(named, quote_via=quote)}"

    def _settings(self) -> dict[str, str]:
        return {"options": f"{self._given()['options']} {self.OPTIONS}", "application_name": self.NAME}


async def _read_json(connection: Any) -> None:  # asyncpg's, which has no types
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


async def _keep(_: Any) -> None:
    """Leave a session as it is, because no statement changes it."""


def unreachable(error: Exception) -> Unavailable:
    """The error of a database that can't be used now."""
    log.warning("catalog.unreachable", reason=f"{type(error).__name__}: {error}")
    return Unavailable("database.unreachable", "PostgreSQL can't be used now", remedy="Try again.")
