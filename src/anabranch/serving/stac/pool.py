"""A small pool of connections to pgstac in the reader's role; it recovers from a late or restarted server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import structlog
from psycopg.conninfo import conninfo_to_dict

from anabranch.adapters.postgres.connect import Role, conninfo
from anabranch.canonical import JsonObject
from anabranch.errors import AnabranchError, InputError, NotFound, Unavailable
from anabranch.serving.stac.links import Document

if TYPE_CHECKING:
    import asyncpg

__all__ = ["Catalog"]

log = structlog.get_logger()

NAME = "anabranch api catalog"
FIND = Path(__file__).with_name("search.sql").read_text()
COLLECTION = Path(__file__).with_name("collection.sql").read_text()
# The reader's transactions are read-only, and pgstac would otherwise write a row for every search.
OPTIONS = "-c search_path=pgstac,public -c pgstac.readonly=true -c pgstac.context=auto"
DSN_KEYS = ("host", "port", "user", "password", "dbname", "passfile", "sslmode", "sslcert", "sslkey", "sslrootcert")
WAIT_SECONDS = 10.0
QUERY_SECONDS = 15.0
# No schema, no function, no table, or no permission: pgstac is missing, or not granted to the reader.
MISSING_STATES = {"3F000", "42883", "42P01", "42501"}
TRANSIENT_STATES = ("08", "40", "53", "55P03", "57P")
QUERY_CANCELED = "57014"
REMEDY = "Run `anabranch db migrate` on a server with PostGIS; `anabranch doctor` shows what it lacks."


class Catalog:
    """A pool of connections to pgstac, each lent for one statement; the database need not be up yet."""

    def __init__(self, url: str, connections: int) -> None:
        self._url = url
        self._connections = connections
        self._pool: asyncpg.Pool | None = None

    async def open(self) -> None:
        """Create the pool, which connects on first use; importing its driver takes a while."""
        driver = await asyncio.to_thread(import_module, "asyncpg")
        if self._pool is None:
            self._pool = driver.create_pool(
                _dsn(self._url),
                min_size=0,
                max_size=self._connections,
                max_inactive_connection_lifetime=60,
                timeout=WAIT_SECONDS,
                command_timeout=QUERY_SECONDS,
                init=_read_json,
                server_settings=_settings(self._url),
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
            raise translate(error) from error
        finally:
            await self._pool.release(connection, timeout=WAIT_SECONDS)

    async def _acquire(self, pool: "asyncpg.Pool") -> Any:  # as above
        import asyncpg

        try:
            return await pool.acquire(timeout=WAIT_SECONDS)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise _unreachable(error) from error

    async def item(self, collection: str, item: str) -> Document:
        """An item as stored in the catalog, with addresses."""
        found = await self.search({"ids": [item], "collections": [collection], "limit": 1})
        if not found:
            raise NotFound(
                "item.not_found",
                f"collection {collection} has no item {item}",
                remedy="The items are listed at /stac/search.",
            )
        return found[0]

    async def search(self, wanted: JsonObject) -> list[Document]:
        """The items that match a search in pgstac's terms, as stored in the catalog, with addresses."""
        async with self.connection() as connection:
            found = await connection.fetchval(FIND, json.dumps(wanted))
        features: list[Document] = found["features"]
        return features

    async def collection(self, collection: str) -> Document:
        """A collection as stored in the catalog."""
        async with self.connection() as connection:
            found: Document | None = await connection.fetchval(COLLECTION, collection)
        if found is None:
            raise NotFound(
                "item.not_found",
                f"the catalog has no collection {collection}",
                remedy="The collections are listed at /stac/collections.",
            )
        return found


async def _read_json(connection: Any) -> None:  # asyncpg's, which has no types
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


def translate(error: Exception) -> Exception:
    """Translate a driver's error for readers; other errors are returned unchanged."""
    import asyncpg

    if isinstance(error, asyncpg.PostgresError):
        return _translate_state(error)
    if isinstance(error, OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return _unreachable(error)
    return error


def _unreachable(error: Exception) -> Unavailable:
    log.warning("catalog.unreachable", reason=f"{type(error).__name__}: {error}")
    return Unavailable("database.unreachable", "PostgreSQL can't be used now", remedy="Try again.")


def _translate_state(error: Any) -> AnabranchError:  # asyncpg's, which has no types
    state: str = error.sqlstate or ""
    log.warning("catalog.refused", sqlstate=state, reason=str(error))
    if (
        state in MISSING_STATES and not error.context
    ):  # with a context, the search compares something that does not exist
        return Unavailable("catalog.missing", "this database has no catalog to read", remedy=REMEDY)
    if state == QUERY_CANCELED:
        return Unavailable("catalog.slow", "the search took too long", remedy="Ask for a smaller area, time or page.")
    if state.startswith(TRANSIENT_STATES):
        return _unreachable(error)
    detail = f": {error.message}" if state.startswith("22") or state == "P0001" else ""
    return InputError("catalog.query", f"the catalog can't run this search{detail}", remedy="Fix the search.")


def _given(url: str) -> dict[str, str]:
    return {name: str(value) for name, value in conninfo_to_dict(conninfo(url, Role.READER, NAME)).items()}


def _dsn(url: str) -> str:
    given = _given(url)
    given["host"] = given.get("hostaddr") or given.get("host", "")
    return f"postgresql://?{urlencode({name: given[name] for name in DSN_KEYS if given.get(name)}, quote_via=quote)}"


def _settings(url: str) -> dict[str, str]:
    return {"options": f"{_given(url)['options']} {OPTIONS}", "application_name": NAME}
