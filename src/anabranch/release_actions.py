"""Orders of partners and decisions on their releases: checks, decides, and calls the transition."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from anabranch.adapters.postgres.store.platforms import (
    ActionBy,
    PostgresPlatforms,
    SubmittedRelease,
    note_rollback,
    revoke,
)
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.canonical import Json, JsonObject, canonical, sha256
from anabranch.contract.answer import read
from anabranch.contract.platform import Accepted, Platform, Release
from anabranch.engine.model import RightId, SessionId
from anabranch.engine.ports import TakenRight
from anabranch.engine.submitting.submission import Submission
from anabranch.errors import AnabranchError, Conflict, Denied, InputError, NotFound
from anabranch.item_actions import ItemAction, ItemActions
from anabranch.platform.identity import Identity, identify
from anabranch.platform.orders import PlatformOrder
from anabranch.plugins.storage.kinds import kind_of_name
from anabranch.workflows.stages import Declaration

__all__ = ["ALL_PLATFORMS", "ActionBy", "Found", "ReleaseActions", "Subject", "build_release"]

ALL_PLATFORMS = "*"
Subject = Literal["release_id", "asset_id", "job_id", "request_id"]
Found = Mapping[str, Any]  # a row of app.release_details


@dataclass(frozen=True)
class _Prepared:
    """An order that was checked: what it names, and the job that it would become."""

    platform: Platform
    identity: Identity
    workflow: str
    parameters: JsonObject
    submission: Submission
    order: JsonObject


class ReleaseActions:
    """Submits, decides, revokes and rolls back, under the session of this process."""

    def __init__(
        self,
        store: PostgresStore,
        items: ItemActions,
        find: Callable[[str], Declaration],
        session: Callable[[], SessionId],
        start: Callable[[Sequence[TakenRight]], None],
    ) -> None:
        """`find` gives the declaration of a workflow; `start` spends rights."""
        self._store = store
        self._items = items
        self._find = find
        self._session = session
        self._start = start
        self.platforms: PostgresPlatforms = store.platforms()

    async def submit(self, order: PlatformOrder, by: ActionBy, *, dry_run: bool = False) -> Accepted:
        """Accept an order: the same one is the same release and job; Conflict where its release stands against it."""
        prepared = await self._prepare(order, by)
        done = await self._store.submit_release(prepared.order, prepared.submission, self._session(), dry_run=dry_run)
        self._start(done.rights)
        if refused := _refuse(done.verdict, prepared.identity):
            raise refused
        return _accepted(prepared, done)

    async def _prepare(self, order: PlatformOrder, by: ActionBy) -> _Prepared:
        platform = await self.find_platform(order.platform, by.sight)
        if platform.retired:
            raise Conflict("platform.retired", f"platform {platform.id} takes no more orders")
        identity = identify(
            platform.id, platform.required_refs, platform.optional_refs, platform.version_ref, order.refs
        )
        data_type = order.data_type or _data_type(order.source)
        workflow = platform.workflows.get(data_type or "")
        if data_type is None or workflow is None:
            known = ", ".join(platform.workflows)
            said = f"platform {platform.id} takes {known}, and {order.source} is {data_type or 'of no known type'}"
            raise InputError("platform.data_type", said)
        needs_approval = bool(order.approval) or platform.approval != "none"
        parameters = self._parameters(workflow, order, identity, needs_approval, data_type)
        declared = self._find(workflow)
        submission = Submission(
            declared.workflow, declared.check(parameters), platform.id, declared.workflow.priority, True,
            by.correlation_id, None, begins=True, parts=declared.parts, by=by.actor,
            labels={"platform": platform.id, "release": identity.release_id},
        ).sound()  # fmt: skip
        row: JsonObject = {
            **asdict(identity),
            "data_type": data_type,
            "collection": str(parameters["collection"]),
            "item_id": identity.item_id,
            "title": order.title,
            "description": order.description,
            "tags": list(order.tags),
            "clearance": order.clearance,
            "approval_required": needs_approval,
            "order_hash": sha256(canonical({"workflow": workflow, "parameters": parameters})),
            "overwrite": order.overwrite,
            "reprocess": order.reprocess,
            "body": order.model_dump(mode="json", exclude_none=True),
            "actor": by.actor,
            "correlation_id": by.correlation_id,
        }
        return _Prepared(platform, identity, workflow, parameters, submission, row)

    def _parameters(
        self, workflow: str, order: PlatformOrder, identity: Identity, needs_approval: bool, data_type: str
    ) -> JsonObject:
        """The inputs of the workflow: the order's options, and what the release decides."""
        inputs = self._find(workflow).workflow.inputs or {}
        if needs_approval and "approval" not in inputs:
            said = f"platform {order.platform} asks for approval, and workflow {workflow} has no input `approval`"
            raise InputError("platform.no_gate", said)
        decided: dict[str, Json] = {
            "source": order.source,
            "item_id": identity.item_id,
            "table": identity.table,
            "title": order.title,
            "approval": needs_approval,
        }
        mine = {name: value for name, value in decided.items() if name in inputs and value is not None}
        return {"collection": f"{order.platform}-{data_type}", **order.options, **mine}

    async def find_platform(self, name: str, sight: str) -> Platform:
        """The platform with this id, if it is in sight."""
        found = await self.platforms.platforms(sight, name)
        if not found:
            raise NotFound("platform.not_found", f"there is no platform {name!r}")
        return found[0]

    async def find(self, subject: Subject, value: str, sight: str) -> Found:
        """The newest release of an asset, or that of a request or a job."""
        found = await self.platforms.releases(sight, {subject: value}, limit=1)
        if not found:
            raise NotFound("release.not_found", f"there is no release with the {subject.replace('_', ' ')} {value!r}")
        return found[0]

    async def decide(self, release_id: str, approved: bool, by: ActionBy) -> Found:
        """Approve or reject what waits for it; a rejection needs a reason (P4)."""
        if not approved:
            _require_reason(by)
        verdict, job_id, right = await self.platforms.decide(release_id, approved, by, self._session())
        if right is not None:
            self._start([TakenRight(RightId(right), 1)])
        if verdict == "missing":
            raise NotFound("release.not_found", f"there is no release {release_id!r}")
        if verdict == "own":
            raise Denied("release.own", f"{by.actor} submitted release {release_id}, and another must approve it")
        if verdict == "not_completed":
            raise Conflict("release.not_completed", f"release {release_id} is not processed: job {job_id[:12]} goes on")
        if verdict == "decided":
            raise Conflict("release.decided", f"release {release_id} was decided before")
        return await self.find("release_id", release_id, by.sight)

    async def revoke(self, release_id: str, by: ActionBy) -> Found:
        """Take back an approval: readers no longer see the release (P6)."""
        _require_reason(by)
        found = await self.find("release_id", release_id, by.sight)

        def first(connection: Any) -> None:  # psycopg's
            verdict, _, _ = revoke(connection, release_id, by)
            if verdict != "done":
                raise Conflict("release.not_approved", f"release {release_id} is {found['approval_status']}")

        await self._items.act(_act_on(found, "withdraw", by), first)
        return await self.find("release_id", release_id, by.sight)

    async def roll_back(self, release_id: str, number: int | None, by: ActionBy) -> Found:
        """Show what an earlier publication of a release showed, by default the one before (P5).

        That is the one before what was shown when it was asked for: a Conflict if another has acted since.
        """
        _require_reason(by)
        found = await self.find("release_id", release_id, by.sight)
        wanted = replace(_act_on(found, "rollback", by), number=number, expected=found["number"])
        await self._items.act(wanted, lambda connection: note_rollback(connection, release_id, number, by))
        return await self.find("release_id", release_id, by.sight)

    async def clear(self, release_id: str, clearance: str, by: ActionBy) -> Found:
        """Set who may read a release once it is published."""
        if not await self.platforms.clear(release_id, clearance, by):
            raise NotFound("release.not_found", f"there is no release {release_id!r}")
        return await self.find("release_id", release_id, by.sight)

    async def delete_asset(self, asset_id: str, deleted: bool, by: ActionBy) -> None:
        """Mark an asset as deleted, or restore it."""
        verdict = await self.platforms.delete_asset(asset_id, deleted, by)
        if verdict == "missing":
            raise NotFound("asset.not_found", f"there is no asset {asset_id!r}")
        if verdict == "shown":
            raise Conflict("asset.shown", f"a release of asset {asset_id} is published")

    async def save_platform(self, name: str, given: Mapping[str, Json] | None, by: ActionBy) -> Platform:
        """Make, change or (with nothing given) retire a platform."""
        if not await self.platforms.save_platform(name, given, by):
            error: AnabranchError = (
                NotFound("platform.not_found", f"there is no platform {name!r} that takes orders")
                if given is None
                else Conflict("platform.exists", f"platform {name} has assets: their ids depend on its references")
            )
            raise error
        return await self.find_platform(name, by.sight)


def _refuse(verdict: str, identity: Identity) -> Conflict | None:
    release, asset = f"release {identity.release_id}", f"asset {identity.asset_id}"
    match verdict:
        case "deleted":
            return Conflict("asset.deleted", f"{asset} was deleted")
        case "unresolved":
            return Conflict("release.unresolved", f"another release of {asset} is processed or reviewed now")
        case "different":
            return Conflict("release.exists", f"{release} was submitted before with another source or other options")
        case "approved":
            return Conflict("release.approved", f"{release} is approved")
        case "processing":
            return Conflict("release.processing", f"{release} is being processed")
        case "full":
            said = f"platform {identity.platform} has as many unresolved releases as it may have"
            return Conflict("platform.full", said)
        case _:
            return None


def _accepted(prepared: _Prepared, done: SubmittedRelease) -> Accepted:
    identity, links = prepared.identity, {"release": f"/api/platform/status/{prepared.identity.release_id}"}
    if done.request_id:
        links["self"] = f"/api/platform/status/{done.request_id}"
    if done.job_id:
        links["job"] = f"/api/jobs/status/{done.job_id}"
    return Accepted(
        done.verdict, done.request_id, identity.asset_id, identity.release_id, done.revision, done.job_id, done.state,
        prepared.workflow, prepared.parameters, links,
    )  # fmt: skip


def build_release(found: Found) -> Release:
    """A release as it is shown; links only while it is published (P6)."""
    links: dict[str, str] = {"status": f"/api/platform/status/{found['release_id']}"}
    if found["job_id"]:
        links["job"] = f"/api/jobs/status/{found['job_id']}"
    if found["number"] is not None:
        path = f"{found['collection']}/items/{found['item_id']}"
        links["item"] = f"/stac/collections/{path}"
        links["history"] = f"/api/items/{found['collection']}/{found['item_id']}/publications"
        links["latest"] = f"/api/platform/assets/{found['asset_id']}/latest"
    return read(Release, {**found, "artifacts": found["artifacts"] or [], "links": links})


def _act_on(found: Found, action: Literal["withdraw", "rollback"], by: ActionBy) -> ItemAction:
    owner = None if by.sight == ALL_PLATFORMS else by.sight
    return ItemAction(action, found["collection"], found["item_id"], by.actor, by.reason or "", owner)


def _require_reason(by: ActionBy) -> None:
    if not (by.reason or "").strip():
        raise InputError("release.reason", "a reason is needed: it is recorded, and sent to the partner")


def _data_type(source: str) -> str | None:
    """A type of data by the extension of its file; an archive holds vectors more often than not."""
    kind = kind_of_name(source)
    return {"raster": "raster", "vector": "vector", "archive": "vector"}.get(kind or "")
