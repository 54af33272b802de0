"""The objects that jobs made and publications show, as rows: by the names that readers know, and by their addresses."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from anabranch.adapters.postgres.database import Database
from anabranch.errors import Gone

__all__ = ["PostgresFiles", "PublishedFile", "StoredFile"]


@dataclass(frozen=True)
class StoredFile:
    """An object of a tier that a caller may fetch under a name.

    One that was not made by a job has a `version`: readers get no other, and its hash may be unknown.
    """

    name: str
    address: str
    media_type: str
    size: int
    sha256: str | None
    version: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class PublishedFile(StoredFile):
    """The same of a publication, which never shows other bytes under this name.

    `key` is that of its item, and `predecessor` the number of the item's former publication that can still be read.
    """

    publication: str
    key: str = ""
    predecessor: int | None = None


class PostgresFiles:
    """Reads app.published_files over a pool that another holds."""

    def __init__(self, database: Database, platform: str | None = None) -> None:
        """Nothing is asked for yet; a platform finds what it may see only."""
        self._database = database
        self._platform = platform

    def seen_by(self, platform: str | None) -> "PostgresFiles":
        """The same for a platform; None: all."""
        return PostgresFiles(self._database, platform)

    async def find(self, publication: str, name: str) -> PublishedFile | None:
        """The file of a publication under a name; Gone if it was withdrawn, or its time of keeping is over."""
        if not _is_id(publication):
            return None
        return _require(await self._query("publication_file", publication=publication, file=name), name)

    async def find_current(self, collection: str, item: str, name: str) -> PublishedFile | None:
        """The file that an item shows now under a name; Gone if the item was withdrawn."""
        rows = await self._query("current_file", key=f"{collection}/{item}", file=name)
        return _require(rows, name)

    async def find_draft(self, job: int, name: str) -> StoredFile | None:
        """A file that a job made and may publish under a name."""
        rows = await self._database.query("draft_file", job=job, file=name)
        return StoredFile(**rows[0]) if rows else None

    async def find_all(self, addresses: Collection[str]) -> list[PublishedFile]:
        """Those of these addresses that readers see now, once for each item that shows it."""
        parts = [address.partition("://") for address in sorted(addresses)]
        tiers, keys = [tier for tier, _, _ in parts], [key for _, _, key in parts]
        rows = await self._query("published_files", tiers=tiers, keys=keys) if parts else []
        return [PublishedFile(**row) for row in rows]

    async def _query(self, name: str, **given: object) -> list[dict[str, Any]]:
        return await self._database.query(name, **given, platform=self._platform)


def _require(rows: list[dict[str, Any]], name: str) -> PublishedFile | None:
    if not rows:
        return None
    key, current, gone = (rows[0].pop(field) for field in ("key", "current", "gone"))
    if gone:
        collection, item = key.split("/")
        raise Gone(
            "file.gone",
            f"{name} of item {key} {'was replaced, and is no longer kept' if current else 'was withdrawn'}",
            replaced_by=(collection, item) if current else None,
        )
    return PublishedFile(**rows[0]) if rows[0]["address"] else None


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
