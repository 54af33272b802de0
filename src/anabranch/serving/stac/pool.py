"""The connections to pgstac, in the reader's role."""

import copy
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import structlog

from anabranch.access import ANONYMOUS
from anabranch.adapters.postgres.server.url import Role
from anabranch.errors import AnabranchError, InputError, NotFound, Unavailable
from anabranch.geo.boxes import GLOBE
from anabranch.serving.pool import QUERY_CANCELED, TRANSIENT_STATES, Pool, unreachable
from anabranch.serving.stac.links import Document

__all__ = ["NO_COLLECTION", "Catalog", "hide_extent"]

log = structlog.get_logger()

FIND = Path(__file__).with_name("search.sql").read_text()
COLLECTION = Path(__file__).with_name("collection.sql").read_text()
VISIBLE = Path(__file__).with_name("visible.sql").read_text()
PUBLIC = Path(__file__).with_name("public.sql").read_text()
TOKEN_PARTS = 3  # of a token of pgstac: next or prev, and the ids of a collection and an item in hex
NO_COLLECTION = " "  # that none is called
FRESH_SECONDS = 1.0
MAX_CACHED_PLATFORMS = 1_000
MAX_PUBLIC_ITEMS = 10_000  # that a search of an anonymous caller looks at
# No schema, no function, no table, or no permission: pgstac is missing, or not granted to the reader.
MISSING_STATES = {"3F000", "42883", "42P01", "42501"}
REMEDY = "Run `anabranch db migrate` on a server with PostGIS; `anabranch doctor` shows what it lacks."


class Catalog(Pool):
    """A pool of connections to pgstac."""

    ROLE = Role.READER
    NAME = "anabranch api catalog"
    # The reader's transactions are read-only, and pgstac would otherwise write a row for every search.
    SETTINGS: Mapping[str, str] = MappingProxyType(
        {"search_path": "pgstac,public", "pgstac.readonly": "true", "pgstac.context": "auto"}
    )

    def __init__(self, url: str, connections: int) -> None:
        super().__init__(url, connections)
        self._platform: str | None = None
        self._visible: dict[str, tuple[float, frozenset[str]]] = {}

    def seen_by(self, platform: str | None) -> "Catalog":
        """The same for a platform, which finds what is in its collections only; None: all."""
        seen = copy.copy(self)
        seen._platform = platform
        return seen

    async def list_visible(self) -> frozenset[str] | None:
        """The collections that the platform may see, cached for a second; None: all."""
        if self._platform is None:
            return None
        at, known = self._visible.get(self._platform, (0.0, frozenset[str]()))
        if time.monotonic() - at < FRESH_SECONDS:
            return known
        async with self.connection() as connection:
            rows = await connection.fetch(VISIBLE, self._platform)
        if len(self._visible) >= MAX_CACHED_PLATFORMS:
            self._visible.clear()
        found = frozenset(row["collection"] for row in rows)
        self._visible[self._platform] = time.monotonic(), found
        return found

    async def may_read(self, collection: str) -> bool:
        """Whether the platform may see a collection of this id, if there is one."""
        visible = await self.list_visible()
        return visible is None or collection in visible

    async def restrict(self, wanted: Document) -> Document:
        """A search in pgstac's terms, limited to what the platform may see: every search goes through here."""
        visible = await self.list_visible()
        if visible is None:
            return wanted
        chosen = sorted(visible.intersection(named) if (named := wanted.get("collections")) else visible)
        if self.is_anonymous:
            return await self._restrict_to_public(wanted, chosen)
        return {**wanted, "collections": chosen or [NO_COLLECTION]}

    @property
    def is_anonymous(self) -> bool:
        """Whether the caller has no key, and sees public items only."""
        return self._platform == ANONYMOUS.platform

    async def _restrict_to_public(self, wanted: Document, collections: Sequence[str]) -> Document:
        async with self.connection() as connection:
            rows = await connection.fetch(PUBLIC, collections, wanted.get("ids") or None, MAX_PUBLIC_ITEMS)
        if not rows:
            return {**wanted, "collections": [NO_COLLECTION]}
        public = [_among(row["collection"], row["ids"]) for row in rows]
        given = [wanted["filter"]] if wanted.get("filter") else _spell_query(wanted.get("query") or {})
        condition = {"op": "and", "args": [*given, {"op": "or", "args": public}]}
        rest = {name: value for name, value in wanted.items() if name != "query"}
        named = [row["collection"] for row in rows]
        return {**rest, "collections": named, "filter": condition, "filter-lang": "cql2-json"}

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

    async def search(self, wanted: Document) -> list[Document]:
        """The items that match a search in pgstac's terms, as stored in the catalog, with addresses."""
        text = json.dumps(await self.restrict(wanted))
        async with self.connection() as connection:
            found = await connection.fetchval(FIND, text)
        features: list[Document] = found["features"]
        return features

    async def collection(self, collection: str) -> Document:
        """A collection as stored in the catalog."""
        found: Document | None = None
        if await self.may_read(collection):
            async with self.connection() as connection:
                found = await connection.fetchval(COLLECTION, collection)
        if found is None:
            raise NotFound(
                "item.not_found",
                f"the catalog has no collection {collection}",
                remedy="The collections are listed at /stac/collections.",
            )
        return hide_extent(found) if self.is_anonymous else found

    async def check_token(self, token: str) -> None:
        """Refuse a token of a page that begins after an item that the platform may not see, like one of no item."""
        parts = token.lower().split(":")
        if self._platform is None or len(parts) != TOKEN_PARTS:
            return
        try:
            collection, item = (bytes.fromhex(part).decode() for part in parts[1:])
        except ValueError:
            return  # pgstac refuses it
        if not await self.search({"ids": [item], "collections": [collection], "limit": 1}):
            raise _refuse_search(f": Could not find item using token: {token}")

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
        return _refuse_search(f": {error.message}" if state.startswith("22") or state == "P0001" else "")


def hide_extent(collection: Document) -> Document:
    """A collection for anonymous callers: its extent would show where and when its other items are."""
    return {**collection, "extent": {"spatial": {"bbox": [list(GLOBE)]}, "temporal": {"interval": [[None, None]]}}}


def _refuse_search(detail: str) -> InputError:
    return InputError("catalog.query", f"the catalog can't run this search{detail}", remedy="Fix the search.")


def _among(collection: str, ids: Sequence[str]) -> Document:
    named = {"op": "=", "args": [{"property": "collection"}, collection]}
    return {"op": "and", "args": [named, {"op": "in", "args": [{"property": "id"}, list(ids)]}]}


def _spell_query(query: Document) -> list[Document]:
    """The conditions of the query extension in CQL2, as pgstac spells them: it takes one or the other."""
    return [
        {"op": operator, "args": [{"property": name}, value]}
        for name, given in query.items()
        for operator, value in (given.items() if isinstance(given, dict) else [("eq", given)])
    ]
