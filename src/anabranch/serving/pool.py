"""A small pool of asyncpg's connections in one role; it recovers from a late or restarted server."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import structlog
from psycopg.conninfo import conninfo_to_dict

from anabranch.adapters.postgres.connect import conninfo, settings_of
from anabranch.adapters.postgres.server.connection import add_password, spell_settings
from anabranch.adapters.postgres.server.url import Role, ServerUrl
from anabranch.errors import Unavailable

if TYPE_CHECKING:
    import asyncpg

__all__ = ["QUERY_CANCELED", "TRANSIENT_STATES", "Pool", "unreachable"]

log = structlog.get_logger()

DSN_KEYS = (
    "host", "port", "user", "password", "dbname", "passfile", "sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl",
    "sslpassword", "sslnegotiation", "ssl_min_protocol_version", "ssl_max_protocol_version", "target_session_attrs",
)  # fmt: skip
WAIT_SECONDS = 10.0
QUERY_SECONDS = 15.0
TRANSIENT_STATES = ("08", "40", "53", "55P03", "57P")
QUERY_CANCELED = "57014"


class Pool(ABC):
    """Connections in a role, each lent for one statement; the database need not be up yet."""

    ROLE: Role
    NAME: str  # that the database shows
    SETTINGS: Mapping[str, str]  # beside those of the role
    RESETS = True  # whether a session is reset after each use, which takes the time of a statement

    def __init__(self, url: str, connections: int) -> None:
        self._url = ServerUrl.of(url).choose(self.ROLE, session=False)
        self._connections = connections
        self._pool: asyncpg.Pool | None = None

    async def open(self) -> None:
        """Create the pool, which connects on first use; importing its driver takes a while."""
        driver = await asyncio.to_thread(import_module, "asyncpg")
        if self._pool is None:
            self._pool = driver.create_pool(
                connect=self._connect,
                min_size=0,
                max_size=self._connections,
                max_inactive_connection_lifetime=60,
                timeout=WAIT_SECONDS,
                command_timeout=QUERY_SECONDS,
                init=_read_json,
                statement_cache_size=0 if self._url.pooled else 100,
                reset=None if self.RESETS and not self._url.pooled else _keep,
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
            async with self._transaction(connection):
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
        except Unavailable as error:  # there is no password
            raise unreachable(error) from error
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

    @asynccontextmanager
    async def _transaction(self, connection: Any) -> AsyncIterator[None]:  # as above
        """Through a pooler, a transaction that begins with the settings; otherwise the session has them."""
        if not self._url.pooled:
            yield
            return
        async with connection.transaction():
            await connection.execute(spell_settings(self._settings).decode())
            yield

    async def _connect(self, *_: Any, **given: Any) -> Any:  # what the driver's pool hands on
        """Connect; with another password where the first is refused."""
        import asyncpg

        text = conninfo(self._url, self.ROLE, self.NAME, settings=self._settings)
        text = await asyncio.to_thread(add_password, self._url, text)
        try:
            return await asyncpg.connect(**_spell(text), **given)
        except asyncpg.InvalidAuthorizationSpecificationError:
            password = str(conninfo_to_dict(text).get("password", ""))
            again = await asyncio.to_thread(add_password, self._url, text, password)
            if again == text:
                raise
            return await asyncpg.connect(**_spell(again), **given)

    @property
    def _settings(self) -> dict[str, str]:
        return {**settings_of(self.ROLE), **self.SETTINGS}


def _spell(text: str) -> dict[str, Any]:  # arguments of several types
    """libpq's parameters as this driver takes them."""
    given = {name: str(value) for name, value in conninfo_to_dict(text).items()}
    given["host"] = given.get("hostaddr") or given.get("host", "")
    if "port" in given and "," not in given["port"]:  # one for all hosts, which this driver wants to be told
        given["port"] = ",".join([given["port"]] * (given["host"].count(",") + 1))
    named = {name: given[name] for name in DSN_KEYS if given.get(name)}
    settings = {name: given[name] for name in ("options", "application_name") if given.get(name)}
    return {"dsn": f"postgresql://?{urlencode(named, quote_via=quote)}", "server_settings": settings}


async def _read_json(connection: Any) -> None:  # asyncpg's, which has no types
    async with connection.transaction():  # a pooler may give two statements two sessions
        for name in ("json", "jsonb"):
            await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


async def _keep(_: Any) -> None:
    """Leave a session as it is, because no statement changes it."""


def unreachable(error: Exception) -> Unavailable:
    """The error of a database that can't be used now."""
    log.warning("catalog.unreachable", reason=f"{type(error).__name__}: {error}")
    return Unavailable("database.unreachable", "PostgreSQL can't be used now", remedy="Try again.")
