"""The connections to pgstac, in the reader's role."""

import json
from pathlib import Path
from typing import Any

import structlog

from anabranch.adapters.postgres.connect import Role
from anabranch.canonical import JsonObject
from anabranch.errors import AnabranchError, InputError, NotFound, Unavailable
from anabranch.serving.pool import QUERY_CANCELED, TRANSIENT_STATES, Pool, unreachable
from anabranch.serving.stac.links import Document

__all__ = ["Catalog"]

log = structlog.get_logger()

FIND = Path(__file__).with_name("search.sql").read_text()
COLLECTION = Path(__file__).with_name("collection.sql").read_text()
# No schema, no function, no table, or no permission: pgstac is missing, or not granted to the reader.
MISSING_STATES = {"3F000", "42883", "42P01", "42501"}
REMEDY = "Run `anabranch db migrate` on a server with PostGIS; `anabranch doctor` shows what it lacks."


class Catalog(Pool):
    """A pool of connections to pgstac."""

    ROLE = Role.READER
    NAME = "anabranch api catalog"
    # The reader's transactions are read-only, and pgstac would otherwise write a row for every search.
    OPTIONS = "-c search_path=pgstac,public -c pgstac.readonly=true -c pgstac.context=auto"

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

    def translate_state(self, error: Any) -> AnabranchError:  # asyncpg's, which has no types
        """What a reader is shown of an error of the server."""
        state: str = error.sqlstate or ""
        log.warning("catalog.refused", sqlstate=state, reason=str(error))
        if (
            state in MISSING_STATES and not error.context
        ):  # with a context, the search compares something that does not exist
            return Unavailable("catalog.missing", "this database has no catalog to read", remedy=REMEDY)
        if state == QUERY_CANCELED:
            remedy = "Ask for a smaller area, time or page."
            return Unavailable("catalog.slow", "the search took too long", remedy=remedy)
        if state.startswith(TRANSIENT_STATES):
            return unreachable(error)
        detail = f": {error.message}" if state.startswith("22") or state == "P0001" else ""
        return InputError("catalog.query", f"the catalog can't run this search{detail}", remedy="Fix the search.")
