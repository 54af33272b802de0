"""Orders of partners and decisions on their releases: checks, decides, and calls the transition."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from anabranch.adapters.postgres.store.platforms import PostgresPlatforms, SubmittedRelease, correlate, revoke
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.canonical import Json, JsonObject, canonical, sha256
from anabranch.contract.platform import Accepted, Platform
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

__all__ = ["ReleaseActions", "ReleaseRow", "RequestKey", "Subject"]

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
class _Checked:
    """What an order names, the inputs of its workflow as given and as checked, and where its callback leads."""

    identity: Identity
    data_type: str
    workflow: str
    given: JsonObject
    inputs: JsonObject
    target: Target | None


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

        One that is submitted `again` leaves the clearance of the release as it is.
        """
        prepared, done = await self._submit(order, by, key, dry_run=dry_run, again=again)
        if done.verdict == "changed":  # the platform, since it was read
            prepared, done = await self._submit(order, by, key, dry_run=dry_run, again=again)
        self._start(done.rights)
        if done.verdict in REFUSALS:
            raise REFUSALS[done.verdict](prepared)
        accepted = replace(_accepted(prepared, done), callback_secret=None if dry_run else prepared.made_secret)
        return accepted, done.replayed

    async def _submit(
        self, order: PlatformOrder, by: ActionBy, key: RequestKey | None, *, dry_run: bool, again: bool
    ) -> tuple[_Prepared, SubmittedRelease]:
        prepared = await self._prepare(order, by, again)
        row = {**prepared.order, **({"key": key.to_json()} if key else {})}
        return prepared, await self._store.submit_release(row, prepared.submission, self._session(), dry_run=dry_run)

    async def _prepare(self, order: PlatformOrder, by: ActionBy, again: bool) -> _Prepared:
        platform = await self.find_platform(order.platform, by.platform_filter)
        if platform.retired:
            raise Conflict("platform.retired", f"platform {platform.id} takes no more orders")
        checked = await self._check(order, platform)
        identity, workflow, parameters = checked.identity, checked.workflow, checked.given
        declared = self._find(workflow)
        callbacks, made_secret = self._seal_callback(order, checked.target)
        submission = Submission(
            declared.workflow, checked.inputs, platform.id, declared.workflow.priority, True,
            by.correlation_id, None, begins=True, parts=declared.parts, by=by.actor, callbacks=callbacks,
            labels={"platform": platform.id, "release": identity.release_id}, by_scope=by.scope,
        ).sound().require_own_uploads()  # fmt: skip
        row: JsonObject = {
            **asdict(identity),
            "data_type": checked.data_type,
            "collection": str(parameters["collection"]),
            "item_id": identity.item_id,
            "title": order.title,
            "description": order.description,
            "tags": list(order.tags),
            "clearance": order.clearance,
            "approval_required": _needs_approval(order, platform),
            "order_hash": _hash(workflow, parameters, order),
            "settings_at": platform.changed_at.isoformat(),
            "overwrite": order.overwrite,
            "reprocess": order.reprocess,
            "again": again,
            "body": order.body,
            "actor": by.actor,
            "correlation_id": by.correlation_id,
        }
        return _Prepared(platform, identity, workflow, parameters, submission, row, made_secret)

    async def _check(self, order: PlatformOrder, platform: Platform) -> _Checked:
        """What the order says; InvalidOrder with all mistakes where there are several."""
        wrong: list[InputError] = []
        identity = identify(platform.id, (), (), None, {})  # the rest is checked with this one if that is refused
        with _collect(wrong):
            identity = identify(
                platform.id, platform.required_refs, platform.optional_refs, platform.version_ref, order.refs
            )
        with _collect(wrong):
            _refuse_decided(order.options)
        data_type, workflow, given, inputs = "", "", JsonObject(), JsonObject()
        with _collect(wrong):
            data_type, workflow = _choose_workflow(order, platform)
            declared, needs_approval = self._find(workflow), _needs_approval(order, platform)
            known = declared.workflow.inputs or {}
            with _collect(wrong):
                _require_gate(workflow, known, needs_approval=needs_approval)
            given = _give(order, data_type, identity, known, needs_approval=needs_approval)
            inputs = declared.check(given)
        target = None
        with _collect(wrong):
            target = await self._find_target(order)
        if wrong:
            raise wrong[0] if len(wrong) == 1 else InvalidOrder(wrong)
        return _Checked(identity, data_type, workflow, given, inputs, target)

    async def _find_target(self, order: PlatformOrder) -> Target | None:
        """Where the callback leads; InvalidOrder if it may not be called."""
        if order.callback_url is None:
            return None
        hosts = await self._webhooks.exempt_hosts(order.platform)
        try:
            return read_url(order.callback_url, hosts)
        except InputError as error:
            raise InvalidOrder([error]) from error

    def _seal_callback(self, order: PlatformOrder, target: Target | None) -> tuple[tuple[JsonObject, ...], str | None]:
        """The callback as it is stored, and its secret if the order gave none."""
        if target is None or order.callback_url is None:
            return (), None
        given = order.callback_secret.get_secret_value() if order.callback_secret else None
        secret = given or self._webhooks.derive_secret(order.platform, order.callback_url)
        callback = Callback(
            order.callback_url, secret, RELEASE_EVENTS,
            timeout_seconds=order.callback_timeout_seconds, retries=order.callback_retries,
        )  # fmt: skip
        return (self._webhooks.seal(order.platform, callback, target),), None if given else secret

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
            _require_gate(workflow, inputs, needs_approval=needs_approval)

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
        verdict, _, right = await self.platforms.decide(release_id, revision, approved, by, self._session())
        if right is not None:
            self._start([TakenRight(RightId(right), 1)])
        found = await self.find("release_id", release_id, by.platform_filter)
        if verdict in DECISION_REFUSALS:
            raise DECISION_REFUSALS[verdict](found, revision)
        return found

    async def revoke(self, release_id: str, by: ActionBy) -> ReleaseRow:
        """Take back an approval: readers no longer see any item of the release (P6)."""
        reason = _require_reason(by)
        await self.find("release_id", release_id, by.platform_filter)  # before the catalog is locked
        verdict = ""

        def begin(connection: Any) -> Sequence[ItemAction]:  # psycopg's
            nonlocal verdict
            verdict, shown = revoke(connection, release_id, by)
            return [ItemAction("withdraw", *_split(key), by.actor, reason) for key in shown or ()]

        await self._items.act_together(begin)
        found = await self.find("release_id", release_id, by.platform_filter)
        if verdict == "not_approved":
            said = f"release {release_id} is not approved: {say_approval(found)}"
            raise Conflict("release.not_approved", said)
        return found

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
        await self.platforms.clear(release_id, clearance, by)
        return await self.find("release_id", release_id, by.platform_filter)

    async def delete_asset(self, asset_id: str, deleted: bool, by: ActionBy) -> None:
        """Mark an asset as deleted, or restore it."""
        verdict = await self.platforms.delete_asset(asset_id, deleted, by)
        if verdict in ASSET_REFUSALS:
            raise ASSET_REFUSALS[verdict](asset_id)

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


# The errors of the verdicts that refuse an order, a decision, and the deletion of an asset.
REFUSALS: Mapping[str, Callable[[_Prepared], AnabranchError]] = {
    "taken": lambda _: KeyTaken(),
    "changed": lambda one: Conflict(
        "platform.changed", f"platform {one.platform.id} was changed while the order was accepted"
    ),
    "deleted": lambda one: Conflict("asset.deleted", f"asset {one.identity.asset_id} was deleted"),
    "unresolved": lambda one: Conflict(
        "release.unresolved", f"another release of asset {one.identity.asset_id} is processed or reviewed now"
    ),
    "different": lambda one: Conflict(
        "release.exists",
        f"release {one.identity.release_id} was submitted before with another source or other options",
    ),
    "approved": lambda one: Conflict("release.approved", f"release {one.identity.release_id} is approved"),
    "processing": lambda one: Conflict("release.processing", f"release {one.identity.release_id} is being processed"),
    "owner": lambda one: NotFound(
        "catalog.no_collection",
        f"there is no collection {one.parameters['collection']} that platform {one.platform.id} may publish to",
    ),
    "clearance": lambda one: Conflict(
        "release.clearance", f"release {one.identity.release_id} is readable by fewer people than the order says"
    ),
    "full": lambda one: Conflict(
        "platform.full",
        f"platform {one.platform.id} has as many unresolved releases as it may have: {one.platform.max_unresolved}",
    ),
}
DECISION_REFUSALS: Mapping[str, Callable[[ReleaseRow, int | None], AnabranchError]] = {
    "own": lambda one, _: Denied(
        "release.own",
        f"{one['submitted_by']} submitted release {one['release_id']}, and another person must approve it",
    ),
    "not_completed": lambda one, _: _not_completed(one),
    "decided": lambda one, _: Conflict(
        "release.decided", f"release {one['release_id']} can't be decided again: {say_approval(one)}"
    ),
    "moved": lambda one, revision: Conflict(
        "release.moved", f"release {one['release_id']} has revision {one['revision']} by now, not {revision}"
    ),
    "deleted": lambda one, _: Conflict(
        "asset.deleted", f"asset {one['asset_id']} of release {one['release_id']} was deleted"
    ),
}
ASSET_REFUSALS: Mapping[str, Callable[[str], AnabranchError]] = {
    "missing": lambda asset: NotFound("asset.not_found", f"there is no asset {asset!r}"),
    "shown": lambda asset: Conflict("asset.shown", f"a release of asset {asset} is published"),
    "unresolved": lambda asset: Conflict(
        "release.unresolved", f"a release of asset {asset} is being processed or reviewed"
    ),
}


def say_approval(row: ReleaseRow) -> str:
    """What became of the approval of a release, as a clause: how, by whom and when it was decided."""
    status = row["approval_status"]
    if status == "pending_review":
        return "it waits for a review" if row["processing_status"] == "completed" else "it is not processed"
    when = f"on {datetime.fromisoformat(row['decided_at']).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"its review expired {when}" if status == "expired" else f"it was {status} by {row['decided_by']} {when}"


def _not_completed(row: ReleaseRow) -> Conflict:
    name = f"release {row['release_id']}"
    if row["processing_status"] != "failed":
        return Conflict("release.not_completed", f"{name} is not processed: job {str(row['job_id'])[:12]} goes on")
    remedy = (
        f"See why with `anabranch releases show`; `anabranch releases resubmit {row['release_id']}` submits it again."
    )
    return Conflict("release.not_completed", f"the processing of {name} failed", remedy=remedy)


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


@contextmanager
def _collect(wrong: list[InputError]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        wrong.append(error)


def _choose_workflow(order: PlatformOrder, platform: Platform) -> tuple[str, str]:
    """The type of the order's data, and the workflow that the platform has for it."""
    data_type = order.data_type or _data_type(order.source)
    workflow = platform.workflows.get(data_type or "")
    if data_type is None or workflow is None:
        known = ", ".join(platform.workflows)
        said = f"platform {platform.id} takes {known}, and {order.source} is {data_type or 'of no known type'}"
        raise InputError("platform.data_type", said)
    return data_type, workflow


def _split(key: str) -> tuple[str, str]:
    collection, item = key.split("/", 1)
    return collection, item


def _refuse_decided(options: Iterable[str]) -> None:
    if taken := sorted(DECIDED_INPUTS.intersection(options)):
        raise InputError("platform.options", f"the options of an order can't have {', '.join(taken)}")


def _give(
    order: PlatformOrder, data_type: str, identity: Identity, inputs: Container[str], *, needs_approval: bool
) -> JsonObject:
    """The inputs of the workflow: the order's options, and what the release decides."""
    decided: JsonObject = {
        "source": order.source,
        "item_id": identity.item_id,
        "table": identity.table,
        "title": order.title,
        "approval": needs_approval,
    }
    mine = {name: value for name, value in decided.items() if name in inputs and value is not None}
    options = {name: value for name, value in order.options.items() if name not in DECIDED_INPUTS}
    return {"collection": f"{order.platform}-{data_type}", **options, **mine}


def _require_gate(workflow: str, inputs: Container[str], *, needs_approval: bool) -> None:
    if needs_approval and "approval" not in inputs:
        said = f"an approval is asked for, and workflow {workflow} has no input `approval`"
        raise InputError("platform.no_gate", said)


def _require_reason(by: ActionBy) -> str:
    if not (by.reason or "").strip():
        raise InputError("release.reason", "a reason is needed: it is recorded, and sent to the partner")
    return by.reason or ""


def _data_type(source: str) -> str | None:
    """A type of data by the extension of its file; an archive holds vectors more often than not."""
    kind = kind_of_name(source)
    return {"raster": "raster", "vector": "vector", "archive": "vector"}.get(kind or "")
