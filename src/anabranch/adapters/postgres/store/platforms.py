"""Platforms, assets, releases and requests in schema app, by its functions.

`platform_filter` is a platform's id, or `*` for all (S1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from psycopg import Connection
from psycopg.rows import DictRow, TupleRow, dict_row

from anabranch.access import DEFAULT_PLATFORM
from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.database import call_text
from anabranch.canonical import Json, encode
from anabranch.contract.answer import read
from anabranch.contract.platform import AuditEntry, Platform, WorkOrder
from anabranch.engine.model import RightId
from anabranch.engine.ports import TakenRight
from anabranch.errors import Conflict, NotFound
from anabranch.platform.action_by import ALL_PLATFORMS, ActionBy

__all__ = ["PostgresPlatforms", "ReleaseRow", "SubmittedRelease", "revoke", "set_correlation_id"]

ReleaseRow = Mapping[str, Any]  # of app.release_details


class Calls(Protocol):
    """Calls functions of schema app by name."""

    async def call(self, function: str, *arguments: object) -> list[DictRow]:
        """The rows of a function."""


@dataclass(frozen=True)
class SubmittedRelease:
    """What an order came to, with the rights to advance its job if that is new."""

    verdict: str
    request_id: str | None
    revision: int
    job_id: str | None
    state: str | None
    rights: tuple[TakenRight, ...]
    replayed: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "SubmittedRelease":  # a row of app.submit_release
        rights = tuple(TakenRight(RightId(made), 1) for made in row["rights"])
        request = str(row["request_id"]) if row["request_id"] else None
        return cls(row["verdict"], request, row["revision"] or 1, row["job_id"], row["state"], rights, row["replayed"])


class PostgresPlatforms:
    """Reads and changes what belongs to platforms."""

    def __init__(self, database: Calls) -> None:
        self._database = database

    async def platforms(self, platform_filter: str, name: str | None = None) -> list[Platform]:
        """Platforms, or the one with this id."""
        rows = await self._database.call("list_platforms", platform_filter, name)
        return [read(Platform, {**row, "changed_at": row["changed_at"].isoformat()}) for row in rows]

    async def find(self, platform_filter: str, name: str) -> Platform:
        """The platform with this id, if it is visible."""
        found = await self.platforms(platform_filter, name)
        if not found:
            raise NotFound("platform.not_found", f"there is no platform {name!r}")
        return found[0]

    async def require(self, name: str) -> None:
        """NotFound where there is no platform that keys or endpoints can belong to; `default` needs no settings."""
        if name != DEFAULT_PLATFORM:
            await self.find(ALL_PLATFORMS, name)

    async def require_active(self, name: str) -> None:
        """Conflict where a platform is retired; one that only has keys is not."""
        found = [] if name == DEFAULT_PLATFORM else await self.platforms(ALL_PLATFORMS, name)
        if found and found[0].retired:
            raise Conflict("platform.retired", f"platform {name} is retired: no jobs are submitted for it")

    async def save_platform(self, name: str, given: Mapping[str, Json] | None, by: ActionBy) -> bool:
        """Make, change or (with nothing given) retire a platform; False where that can't be."""
        text = None if given is None else encode(dict(given))
        (row,) = await self._database.call("save_platform", name, text, by.actor, by.correlation_id)
        return bool(row["save_platform"])

    async def decide(
        self, release_id: str, revision: int | None, approved: bool, by: ActionBy, session: int
    ) -> tuple[str, str, int | None]:
        """Approve or reject a revision of a release: a verdict, its job, and the right to advance that."""
        (row,) = await self._database.call(
            "decide_release",
            by.platform_filter,
            release_id,
            revision,
            approved,
            by.actor,
            by.reason,
            by.correlation_id,
            session,
        )
        return row["verdict"], row["job_id"], row["right_id"]

    async def clear(self, release_id: str, clearance: str, by: ActionBy) -> bool:
        """Set who may read a release; False where there is none."""
        (row,) = await self._database.call(
            "clear_release", by.platform_filter, release_id, clearance, by.actor, by.reason, by.correlation_id
        )
        return bool(row["clear_release"])

    async def plan_rollback(
        self, platform_filter: str, release_id: str, number: int | None, revision: int | None
    ) -> list[Mapping[str, Any]]:  # rows of app.plan_rollback
        """What a rollback of a release would do, by item; nothing where there is no such revision."""
        return [*await self._database.call("plan_rollback", platform_filter, release_id, number, revision)]

    async def delete_asset(self, asset_id: str, deleted: bool, by: ActionBy) -> str:
        """Mark an asset as deleted, or restore it: a verdict."""
        (row,) = await self._database.call(
            "delete_asset", by.platform_filter, asset_id, deleted, by.actor, by.reason, by.correlation_id
        )
        return str(row["delete_asset"])

    async def releases(
        self, platform_filter: str, wanted: Mapping[str, Json], *, limit: int, before: int | None = None
    ) -> list[Mapping[str, Any]]:  # rows of app.release_details, as JSON
        """Releases, the newest first."""
        rows = await self._database.call("list_releases", platform_filter, encode(dict(wanted)), before, limit)
        return [row["release"] for row in rows]

    async def requests(
        self,
        platform_filter: str,
        *,
        limit: int,
        request_id: str | None = None,
        release_id: str | None = None,
        before: int | None = None,
    ) -> list[tuple[int, WorkOrder]]:
        """Requests with their cursors, the newest first."""
        rows = await self._database.call("list_requests", platform_filter, request_id, release_id, before, limit)
        return [(row.pop("cursor"), WorkOrder(**{**row, "request_id": str(row["request_id"])})) for row in rows]

    async def audit(
        self, platform_filter: str, *, limit: int, asset_id: str | None = None, before: int | None = None
    ) -> Sequence[AuditEntry]:
        """Lines of the audit, the newest first."""
        rows = await self._database.call("list_audit", platform_filter, asset_id, before, limit)
        return [AuditEntry(**row) for row in rows]


def set_correlation_id(connection: Connection[TupleRow], by: ActionBy) -> None:
    """Give what the caller's transaction does to a release the correlation id of the request."""
    connection.execute("select set_config('anabranch.correlation_id', %s, true)", [by.correlation_id])


def revoke(connection: Connection[TupleRow], release_id: str, by: ActionBy) -> tuple[str, list[str]]:
    """Revoke a release in the caller's transaction, which goes on in its own role: a verdict, and what to withdraw, as
    collection/item."""
    arguments = (by.platform_filter, release_id, by.actor, by.reason, by.correlation_id)
    with connection.cursor(row_factory=dict_row) as cursor:
        before = cursor.execute("select current_setting('role') as role").fetchone()
        cursor.execute("select set_config('role', %s, true)", [Role.APP.value])
        (row,) = cursor.execute(call_text("revoke_release").encode(), arguments).fetchall()
        cursor.execute("select set_config('role', %s, true)", [before["role"] if before else "none"])
        return row["verdict"], row["shown"]
