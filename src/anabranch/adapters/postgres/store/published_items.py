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
        versions = None if older_than is None else await self._find_older(made_by, older_than)
        after_collection, _, after_item = (after or "").partition("/")
        rows = await self._database.query(
            "published_items", limit=limit, after_collection=after_collection, after_item=after_item, job=job_id,
            collection=collection, handler=made_by, versions=versions,
        )  # fmt: skip
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

    async def _find_older(self, handler: str | None, version: str) -> list[str]:
        """The versions of a handler that are older than one."""
        if handler is None:
            raise InputError(
                "items.version", "a version alone says nothing", remedy="Name the handler too: made_by with older_than."
            )
        try:
            bound = Version(version)
        except InvalidVersion:
            raise InputError(
                "items.version", f"{version!r} is not a version", remedy="Give one like 2 or 1.4.0."
            ) from None
        rows = await self._database.query("made_versions", handler=handler)
        return [row["version"] for row in rows if Version(row["version"]) < bound]


def _versions(handlers: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(versions) for name, versions in handlers.items()}
