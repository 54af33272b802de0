"""What is published, with its manifests and the keys that signed them, as rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from packaging.version import InvalidVersion, Version

from anabranch.adapters.postgres.database import Database
from anabranch.adapters.postgres.store.published.files import PublishedFile
from anabranch.canonical import JsonObject
from anabranch.contract.catalog import AffectedFile, CollectionAccess, Publication, PublishedItem, SigningKey
from anabranch.errors import InputError, NotFound

__all__ = ["PostgresItems"]


class PostgresItems:
    """Reads published items over a pool that another holds."""

    def __init__(self, database: Database, platform: str | None = None) -> None:
        """Nothing is asked for yet; a platform finds the items of collections that it may see only."""
        self._database = database
        self._platform = platform

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
            rows = await self._query("published_items", **wanted, item=None)
        else:
            versions = None if older_than is None else await self._find_older(made_by, older_than)
            rows = await self._query("items_made_by", **wanted, handler=made_by, versions=versions)
        return list(map(_read_item, rows))

    async def find_one(self, collection: str, item: str) -> PublishedItem:
        """An item that is published."""
        wanted = {"limit": 1, "after_collection": "", "after_item": "", "job": None}
        rows = await self._query("published_items", **wanted, collection=collection, item=item)
        if not rows:
            raise await self._explain_missing(collection, item)
        return _read_item(rows[0])

    async def history(self, collection: str, item: str, *, limit: int, before: int | None = None) -> list[Publication]:
        """The publications of an item, the newest first; also of one that was withdrawn."""
        rows = await self._query("publications", key=f"{collection}/{item}", limit=limit, before=before)
        if not rows and before is None:
            raise _not_found(collection, item)
        return [Publication(**row) for row in rows]

    async def affected(self, publication: str) -> list[AffectedFile]:
        """The files of a publication."""
        rows = await self._database.query("affected_files", publication=publication)
        return [AffectedFile(**row) for row in rows]

    async def pinned(self, publication: str) -> list[tuple[str, str]]:
        """The addresses and versions of a publication's files that others can replace."""
        rows = await self._database.query("pinned_files", publication=publication)
        return [(row["address"], row["version"]) for row in rows]

    async def content(self, collection: str, item: str, number: int) -> tuple[JsonObject, dict[str, PublishedFile]]:
        """What a publication of an item showed, and its files by address."""
        rows = await self._query("publication_content", key=f"{collection}/{item}", number=number)
        if not rows:
            raise NotFound(
                "publication.not_found",
                f"item {collection}/{item} has no content of number {number} that can be read",
                remedy="See its publications.",
            )
        files = [PublishedFile(**file) for file in rows[0]["files"]]
        return rows[0]["body"], {file.address: file for file in files}

    async def manifest(self, collection: str, item: str) -> str:
        """The signed manifest of an item, as its exact text."""
        rows = await self._query("item_manifest", key=f"{collection}/{item}")
        if not rows:
            raise await self._explain_missing(collection, item)
        envelope: str | None = rows[0]["envelope"]
        if envelope is None:
            raise NotFound(
                "manifest.not_found",
                f"item {collection}/{item} has no manifest: its file is in place, or an earlier release published it",
                remedy="To have one, publish the file with process_raster.",
            )
        return envelope

    async def access(self, collection: str) -> CollectionAccess:
        """The platforms that may see and write to a collection."""
        rows = await self._query("collection_access", collection=collection)
        if not rows:
            raise NotFound("catalog.no_collection", f"there is no collection {collection}")
        return CollectionAccess(**{**rows[0], "writers": tuple(rows[0]["writers"])})

    async def signing_keys(self) -> list[SigningKey]:
        """The public keys that signed manifests, the newest first."""
        return [SigningKey(**row) for row in await self._database.query("signing_keys")]

    async def _query(self, name: str, **given: object) -> list[dict[str, Any]]:
        return await self._database.query(name, **given, platform=self._platform)

    async def _explain_missing(self, collection: str, item: str) -> NotFound:
        """Why an item is not published: it never was, or it was withdrawn, and may be restored."""
        rows = await self._query("publications", key=f"{collection}/{item}", limit=2, before=None)
        if not rows or rows[0]["action"] != "withdraw":
            return _not_found(collection, item)
        last, former = Publication(**rows[0]), Publication(**rows[-1])
        said = f"item {collection}/{item} was withdrawn by {last.actor} at {last.at:%Y-%m-%dT%H:%M:%SZ}"
        said += f" (number {last.number}), and can {'' if former.available else 'no longer '}be restored"
        remedy = f"Restore it with `anabranch items restore {collection}/{item} --reason WHY`."
        return NotFound(
            "item.withdrawn",
            f"{said}: {last.reason}" if last.reason else said,
            remedy=remedy if former.available else "Publish it again.",
        )

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


def _not_found(collection: str, item: str) -> NotFound:
    return NotFound(
        "item.not_found",
        f"there is no item {item!r} in collection {collection!r}",
        remedy="List them with `anabranch items list`.",
    )


def _read_item(row: Mapping[str, Any]) -> PublishedItem:
    return PublishedItem(**{**row, "handlers": _versions(row["handlers"])})


def _versions(handlers: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(versions) for name, versions in handlers.items()}
