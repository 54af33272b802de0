"""What is published, with its manifests and the keys that signed them, as rows."""

from collections.abc import Mapping, Sequence

from packaging.version import InvalidVersion, Version

from anabranch.adapters.postgres.database import Database
from anabranch.contract.catalog import PublishedItem, SigningKey
from anabranch.errors import InputError, NotFound

__all__ = ["PostgresItems"]


class PostgresItems:
    """Reads published items over a pool that another holds."""

    def __init__(self, database: Database) -> None:
        """Nothing is asked for yet."""
        self._database = database

    async def find(
        self,
        *,
        limit: int,
        after: str | None = None,
        collection: str | None = None,
        job_id: str | None = None,
        made_by: str | None = None,
        older_than: str | None = None,
    ) -> list[PublishedItem]:
        """Items by collection and id; of a job, or made by a handler, in a version before another."""
        if made_by is None and older_than is not None:
            raise InputError(
                "items.version", "a version alone says nothing", remedy="Name the handler too: made_by with older_than."
            )
        after_collection, _, after_item = (after or "").partition("/")
        wanted = {
            "limit": limit, "after_collection": after_collection, "after_item": after_item, "job": job_id,
            "collection": collection,
        }  # fmt: skip
        if made_by is None:
            rows = await self._database.query("published_items", **wanted)
        else:
            versions = None if older_than is None else await self._find_older(made_by, older_than)
            rows = await self._database.query("items_made_by", **wanted, handler=made_by, versions=versions)
        return [PublishedItem(**{**row, "handlers": _versions(row["handlers"])}) for row in rows]

    async def manifest(self, collection: str, item: str) -> str:
        """The signed manifest of an item, as its exact text."""
        rows = await self._database.query("item_manifest", collection=collection, item=item)
        if not rows:
            raise NotFound(
                "item.not_found",
                f"there is no item {item!r} in collection {collection!r}",
                remedy="List them with `anabranch items list`.",
            )
        envelope: str | None = rows[0]["envelope"]
        if envelope is None:
            raise NotFound(
                "manifest.not_found",
                f"item {collection}/{item} has no manifest: it was published by an earlier release",
                remedy="Publish it again.",
            )
        return envelope

    async def signing_keys(self) -> list[SigningKey]:
        """The public keys that signed manifests, the newest first."""
        return [SigningKey(**row) for row in await self._database.query("signing_keys")]

    async def _find_older(self, handler: str, version: str) -> list[str]:
        """The versions of a handler that are older than one."""
        bound = _parse_version(version)
        if bound is None:
            raise InputError("items.version", f"{version!r} is not a version", remedy="Give one like 2 or 1.4.0.")
        rows = await self._database.query("made_versions", handler=handler)
        known = {row["version"]: _parse_version(row["version"]) for row in rows}
        return [text for text, parsed in known.items() if parsed is None or parsed < bound]


def _parse_version(text: str) -> Version | None:
    """A version; None for the text of a package that is not one, which counts as old."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _versions(handlers: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(versions) for name, versions in handlers.items()}
