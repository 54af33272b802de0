"""Orders of partners and decisions on their releases: checks, decides, and calls the transition."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Literal
from urllib.parse import quote

from anabranch.adapters.postgres.store.platforms import PostgresPlatforms, SubmittedRelease, correlate, revoke
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.canonical import Json, JsonObject, canonical, sha256
from anabranch.contract.answer import read
from anabranch.contract.platform import Accepted, Platform, Release
from anabranch.engine.model import RightId, SessionId
from anabranch.engine.ports import KeyTaken, TakenRight
from anabranch.engine.submitting.submission import Submission
from anabranch.errors import AnabranchError, Conflict, Denied, InputError, NotFound
from anabranch.item_actions import ItemAction, ItemActions
from anabranch.outbound.url import Target, read_url
from anabranch.platform.action_by import ActionBy
from anabranch.platform.identity import Identity, identify
from anabranch.platform.notifications.webhooks import Callback, Webhooks
from anabranch.platform.orders import InvalidOrder, PlatformOrder
from anabranch.plugins.storage.kinds import kind_of_name
from anabranch.workflows.stages import Declaration

__all__ = ["ReleaseActions", "ReleaseRow", "RequestKey", "Subject", "build_release"]

# What an order says itself, or what would publish something else than its release.
DECIDED_INPUTS = {"approval", "dry_run", "expected", "item_id", "source", "table", "tile_items", "title"}
RELEASE_EVENTS = ("release.*",)
ORDER_INPUTS = ("source", "collection", "item_id")
Subject = Literal["release_id", "asset_id", "job_id", "request_id"]
ReleaseRow = Mapping[str, Any]  # of app.release_details


@dataclass(frozen=True)
class RequestKey:
    """A key that a caller's platform gave to a request, and the hash of what it asks for; kept for a while."""

    scope: str
    text: str
    request: str
    keep: timedelta

    def to_json(self) -> JsonObject:
        """As app.submit_release reads it."""
        keep = f"{self.keep.total_seconds()} s"
        return {"scope": self.scope, "text": self.text, "request": self.request, "keep": keep}


@dataclass(frozen=True)
class _Prepared:
    """An order that was checked: what it names, and the job that it would become."""

    platform: Platform
    identity: Identity
    workflow: str
    parameters: JsonObject
    submission: Submission
    order: JsonObject
    made_secret: str | None


class ReleaseActions:
    """Submits, decides, revokes and rolls back, under the session of this process."""

    def __init__(
        self,
        store: PostgresStore,
        items: ItemActions,
        webhooks: Webhooks,
        find: Callable[[str], Declaration],
        session: Callable[[], SessionId],
        start: Callable[[Sequence[TakenRight]], None],
    ) -> None:
        """`find` gives the declaration of a workflow; `start` spends rights."""
        self._store = store
        self._items = items
        self._webhooks = webhooks
        self._find = find
        self._session = session
        self._start = start
        self.platforms: PostgresPlatforms = store.platforms()

    async def submit(
        self, order: PlatformOrder, by: ActionBy, *, dry_run: bool = False, again: bool = False
    ) -> Accepted:
        """Accept an order: the same one is the same release and job; Conflict where its release stands against it."""
        accepted, _ = await self.submit_once(order, by, None, dry_run=dry_run, again=again)
        return accepted

    async def submit_once(
        self,
        order: PlatformOrder,
        by: ActionBy,
        key: RequestKey | None,
        *,
        dry_run: bool = False,
        again: bool = False,
    ) -> tuple[Accepted, bool]:
        """Accept an order under a key: the same key is the same answer (E15). True: it is an earlier answer.

        One that is submitted `again` keeps the callbacks of the release's newest revision.
        """
        prepared = await self._prepare(order, by, again)
        row = {**prepared.order, **({"key": key.to_json()} if key else {})}
        done = await self._store.submit_release(row, prepared.submission, self._session(), dry_run=dry_run)
        self._start(done.rights)
        if done.verdict in REFUSALS:
            raise REFUSALS[done.verdict](prepared.identity)
        accepted = replace(_accepted(prepared, done), callback_secret=None if dry_run else prepared.made_secret)
        return accepted, done.replayed

    async def _prepare(self, order: PlatformOrder, by: ActionBy, again: bool) -> _Prepared:
        platform = await self.find_platform(order.platform, by.platform_filter)
        if platform.retired:
            raise Conflict("platform.retired", f"platform {platform.id} takes no more orders")
        try:
            identity, data_type, workflow, parameters, checked = self._check(order, platform)
        except InputError as error:
            try:
                await self._find_target(order)
            except InvalidOrder as wrong:
                raise InvalidOrder([error, *wrong.errors]) from error
            raise
        declared = self._find(workflow)
        callbacks, made_secret = await self._seal_callback(order)
        submission = Submission(
            declared.workflow, checked, platform.id, declared.workflow.priority, True,
            by.correlation_id, None, begins=True, parts=declared.parts, by=by.actor, callbacks=callbacks,
            labels={"platform": platform.id, "release": identity.release_id},
        ).sound().require_own_uploads()  # fmt: skip
        row: JsonObject = {
            **asdict(identity),
            "data_type": data_type,
            "collection": str(parameters["collection"]),
            "item_id": identity.item_id,
            "title": order.title,
            "description": order.description,
            "tags": list(order.tags),
            "clearance": order.clearance,
            "approval_required": _needs_approval(order, platform),
            "order_hash": _hash(workflow, parameters, order),
            "overwrite": order.overwrite,
            "reprocess": order.reprocess,
            "again": again,
            "body": order.body,
            "actor": by.actor,
            "correlation_id": by.correlation_id,
        }
        return _Prepared(platform, identity, workflow, parameters, submission, row, made_secret)

    def _check(self, order: PlatformOrder, platform: Platform) -> tuple[Identity, str, str, JsonObject, JsonObject]:
        """What an order names, its type of data, and the workflow with its inputs, as given and as checked."""
        identity = identify(
            platform.id, platform.required_refs, platform.optional_refs, platform.version_ref, order.refs
        )
        data_type = order.data_type or _data_type(order.source)
        workflow = platform.workflows.get(data_type or "")
        if data_type is None or workflow is None:
            known = ", ".join(platform.workflows)
            said = f"platform {platform.id} takes {known}, and {order.source} is {data_type or 'of no known type'}"
            raise InputError("platform.data_type", said)
        parameters = self._parameters(workflow, order, identity, _needs_approval(order, platform), data_type)
        return identity, data_type, workflow, parameters, self._find(workflow).check(parameters)

    async def _find_target(self, order: PlatformOrder) -> Target | None:
        """Where the callback leads; InvalidOrder if it may not be called."""
        if order.callback_url is None:
            return None
        hosts = await self._webhooks.exempt_hosts(order.platform)
        try:
            return read_url(order.callback_url, hosts)
        except InputError as error:
            raise InvalidOrder([error]) from error

    async def _seal_callback(self, order: PlatformOrder) -> tuple[tuple[JsonObject, ...], str | None]:
        """The callback as it is stored, and its secret if the order gave none."""
        target = await self._find_target(order)
        if target is None or order.callback_url is None:
            return (), None
        given = order.callback_secret.get_secret_value() if order.callback_secret else None
        secret = given or self._webhooks.derive_secret(order.platform, order.callback_url)
        callback = Callback(
            order.callback_url, secret, RELEASE_EVENTS,
            timeout_seconds=order.callback_timeout_seconds, retries=order.callback_retries,
        )  # fmt: skip
        return (self._webhooks.seal(order.platform, callback, target),), None if given else secret

    def _parameters(
        self, workflow: str, order: PlatformOrder, identity: Identity, needs_approval: bool, data_type: str
    ) -> JsonObject:
        """The inputs of the workflow: the order's options, and what the release decides."""
        inputs = self._find(workflow).workflow.inputs or {}
        if needs_approval:
            _require_gate(workflow, inputs)
        if taken := sorted(DECIDED_INPUTS & order.options.keys()):
            raise InputError("platform.options", f"the options of an order can't have {', '.join(taken)}")
        decided: JsonObject = {
            "source": order.source,
            "item_id": identity.item_id,
            "table": identity.table,
            "title": order.title,
            "approval": needs_approval,
        }
        mine = {name: value for name, value in decided.items() if name in inputs and value is not None}
        return {"collection": f"{order.platform}-{data_type}", **order.options, **mine}

    def check_workflows(self, workflows: Iterable[str], *, needs_approval: bool) -> None:
        """Check that each workflow takes what orders give it; InputError names the first that does not."""
        for workflow in workflows:
            try:
                inputs = self._find(workflow).workflow.inputs or {}
            except NotFound as error:
                raise InputError("platform.workflow", error.message) from error
            if missing := [name for name in ORDER_INPUTS if name not in inputs]:
                said = f"workflow {workflow} has no input {', '.join(missing)}, which orders give"
                raise InputError("platform.workflow", said)
            if needs_approval:
                _require_gate(workflow, inputs)

    async def find_platform(self, name: str, platform_filter: str) -> Platform:
        """The platform with this id, if it is visible."""
        return await self.platforms.find(platform_filter, name)

    async def find(self, subject: Subject, value: str, platform_filter: str) -> ReleaseRow:
        """The newest release of an asset, or that of a request or a job."""
        found = await self.platforms.releases(platform_filter, {subject: value}, limit=1)
        if not found:
            raise NotFound("release.not_found", f"there is no release with the {subject.replace('_', ' ')} {value!r}")
        return found[0]

    async def decide(self, release_id: str, approved: bool, by: ActionBy, revision: int | None = None) -> ReleaseRow:
        """Approve or reject what waits for it, if the newest revision is the one that was reviewed; a rejection needs a
        reason (P4)."""
        if not approved:
            _require_reason(by)
        verdict, job_id, right = await self.platforms.decide(release_id, revision, approved, by, self._session())
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
        if verdict == "moved":
            raise Conflict("release.moved", f"release {release_id} has another revision than {revision} by now")
        if verdict == "deleted":
            raise Conflict("asset.deleted", f"the asset of release {release_id} was deleted")
        return await self.find("release_id", release_id, by.platform_filter)

    async def revoke(self, release_id: str, by: ActionBy) -> ReleaseRow:
        """Take back an approval: readers no longer see any item of the release (P6)."""
        reason = _require_reason(by)
        found = await self.find("release_id", release_id, by.platform_filter)

        def begin(connection: Any) -> Sequence[ItemAction]:  # psycopg's
            verdict, shown = revoke(connection, release_id, by)
            if verdict != "done":
                raise Conflict("release.not_approved", f"release {release_id} is {found['approval_status']}")
            return [ItemAction("withdraw", *_split(key), by.actor, reason) for key in shown]

        await self._items.act_together(begin)
        return await self.find("release_id", release_id, by.platform_filter)

    async def roll_back(self, release_id: str, number: int | None, by: ActionBy) -> ReleaseRow:
        """Show an earlier revision of a release in all of its items, by default the one that was shown before (P5).

        `number` names a publication of its first item. A Conflict if another has acted since what was shown when it
        was asked for.
        """
        reason = _require_reason(by)
        await self.find("release_id", release_id, by.platform_filter)
        planned = await self.platforms.plan_rollback(by.platform_filter, release_id, number)
        if not planned:
            raise NotFound("publication.not_found", f"release {release_id} has shown no other revision")
        for one in planned:
            if one["source"]:
                await self._items.require_versions(str(one["source"]))

        def begin(connection: Any) -> Sequence[ItemAction]:  # psycopg's
            correlate(connection, by)
            return [
                ItemAction(
                    one["action"], *_split(one["key"]), by.actor, reason, by.owner, one["number"], one["expected"]
                )
                for one in planned
            ]

        await self._items.act_together(begin)
        return await self.find("release_id", release_id, by.platform_filter)

    async def clear(self, release_id: str, clearance: str, by: ActionBy) -> ReleaseRow:
        """Set who may read a release once it is published."""
        if not await self.platforms.clear(release_id, clearance, by):
            raise NotFound("release.not_found", f"there is no release {release_id!r}")
        return await self.find("release_id", release_id, by.platform_filter)

    async def delete_asset(self, asset_id: str, deleted: bool, by: ActionBy) -> None:
        """Mark an asset as deleted, or restore it."""
        verdict = await self.platforms.delete_asset(asset_id, deleted, by)
        if verdict == "missing":
            raise NotFound("asset.not_found", f"there is no asset {asset_id!r}")
        if verdict == "shown":
            raise Conflict("asset.shown", f"a release of asset {asset_id} is published")
        if verdict == "unresolved":
            raise Conflict("release.unresolved", f"a release of asset {asset_id} is being processed or reviewed")

    async def save_platform(self, name: str, given: Mapping[str, Json] | None, by: ActionBy) -> Platform:
        """Make, change or (with nothing given) retire a platform."""
        if not await self.platforms.save_platform(name, given, by):
            error: AnabranchError = (
                NotFound("platform.not_found", f"there is no platform {name!r} that takes orders")
                if given is None
                else Conflict("platform.exists", f"platform {name} has assets: their ids depend on its references")
            )
            raise error
        return await self.find_platform(name, by.platform_filter)


def _hash(workflow: str, parameters: JsonObject, order: PlatformOrder) -> str:
    """The same for orders that ask for the same."""
    said: JsonObject = {"description": order.description, "tags": list(order.tags), "clearance": order.clearance}
    more = {name: value for name, value in said.items() if value}
    return sha256(canonical({"workflow": workflow, "parameters": parameters, **more}))


def _needs_approval(order: PlatformOrder, platform: Platform) -> bool:
    return bool(order.approval) or platform.approval != "none"


# The errors of the verdicts that refuse an order.
REFUSALS: Mapping[str, Callable[[Identity], Conflict]] = {
    "taken": lambda _: KeyTaken(),
    "deleted": lambda one: Conflict("asset.deleted", f"asset {one.asset_id} was deleted"),
    "unresolved": lambda one: Conflict(
        "release.unresolved", f"another release of asset {one.asset_id} is processed or reviewed now"
    ),
    "different": lambda one: Conflict(
        "release.exists", f"release {one.release_id} was submitted before with another source or other options"
    ),
    "approved": lambda one: Conflict("release.approved", f"release {one.release_id} is approved"),
    "processing": lambda one: Conflict("release.processing", f"release {one.release_id} is being processed"),
    "owner": lambda one: Conflict(
        "publication.owner", f"the collection of release {one.release_id} belongs to another platform"
    ),
    "clearance": lambda one: Conflict(
        "release.clearance", f"release {one.release_id} is readable by fewer people than the order says"
    ),
    "full": lambda one: Conflict(
        "platform.full", f"platform {one.platform} has as many unresolved releases as it may have"
    ),
}


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


def build_release(row: ReleaseRow, progress: float | None = None) -> Release:
    """A release as it is shown; links to what readers see only while it is published (P6)."""
    links: dict[str, str] = {"status": f"/api/platform/status/{row['release_id']}"}
    if row["job_id"]:
        links["job"] = f"/api/jobs/status/{row['job_id']}"
    items = [{**item, "links": _link_item(item, row["data_type"])} for item in row["items"] or []]
    if items:
        links["latest"] = f"/api/platform/assets/{row['asset_id']}/latest"
    if len(items) == 1:
        links |= items[0]["links"]
    shown = [f"{item['collection']}/{item['id']}" for item in items if item["revision"] == row["revision"]]
    artifacts = [_add_url(artifact, shown) for artifact in row["artifacts"] or []]
    return read(Release, {**row, "items": items, "artifacts": artifacts, "progress": progress, "links": links})


def _link_item(item: Mapping[str, Any], data_type: str) -> dict[str, str]:  # of a ReleaseRow
    collection, name = quote(item["collection"], safe=""), item["id"]
    links = {
        "item": f"/stac/collections/{collection}/items/{name}",
        "history": f"/api/items/{collection}/{name}/publications",
    }
    if data_type == "raster":
        links["tiles"] = f"/raster/collections/{collection}/items/{name}/WebMercatorQuad/tilejson.json"
    elif item["layer"]:
        links["features"] = f"/features/collections/{item['layer']}"
    return links


def _add_url(artifact: Mapping[str, Any], shown: Sequence[str]) -> Mapping[str, Any]:  # of a ReleaseRow
    """With its address, if its item is shown; one of a release that had one item may not say which that was."""
    item = artifact.get("item", shown[0] if len(shown) == 1 else "")
    if artifact["kind"] == "table" or item not in shown:
        return artifact
    return {**artifact, "url": f"/files/current/{quote(item)}/{quote(artifact['name'])}"}


def _split(key: str) -> tuple[str, str]:
    collection, item = key.split("/", 1)
    return collection, item


def _require_gate(workflow: str, inputs: Container[str]) -> None:
    if "approval" not in inputs:
        said = f"the platform asks for approval, and workflow {workflow} has no input `approval`"
        raise InputError("platform.no_gate", said)


def _require_reason(by: ActionBy) -> str:
    if not (by.reason or "").strip():
        raise InputError("release.reason", "a reason is needed: it is recorded, and sent to the partner")
    return by.reason or ""


def _data_type(source: str) -> str | None:
    """A type of data by the extension of its file; an archive holds vectors more often than not."""
    kind = kind_of_name(source)
    return {"raster": "raster", "vector": "vector", "archive": "vector"}.get(kind or "")
