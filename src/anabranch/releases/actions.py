"""What is done with releases of partners: orders, decisions, rollbacks; each is a transition of the database."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from anabranch.adapters.postgres.store.platforms import (
    PostgresPlatforms,
    ReleaseRow,
    SubmittedRelease,
    revoke,
    set_correlation_id,
)
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.canonical import Json, JsonObject
from anabranch.contract.platform import Accepted, Platform
from anabranch.engine.model import RightId, SessionId
from anabranch.engine.ports import TakenRight
from anabranch.errors import AnabranchError, Conflict, InputError, NotFound
from anabranch.item_actions import ItemAction, ItemActions
from anabranch.platform.action_by import ActionBy
from anabranch.platform.notifications.webhooks import Webhooks
from anabranch.platform.orders import PlatformOrder
from anabranch.releases.preparation import OrderPreparation, Prepared
from anabranch.releases.refusals import (
    ASSET_REFUSALS,
    DECISION_REFUSALS,
    REFUSALS,
    describe_approval,
    refuse_unresolved,
)
from anabranch.workflows.stages import Declaration

__all__ = ["ReleaseActions", "RequestKey", "Subject"]

Subject = Literal["release_id", "asset_id", "job_id", "request_id"]


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
        self.orders = OrderPreparation(webhooks, find, store.find_new_rights)
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
        if done.verdict == "unresolved":
            raise await self._find_unresolved(prepared.identity.asset_id, by, but=prepared.identity.release_id)
        if done.verdict in REFUSALS:
            raise REFUSALS[done.verdict](prepared)
        accepted = replace(_accepted(prepared, done), callback_secret=None if dry_run else prepared.made_secret)
        return accepted, done.replayed

    async def _submit(
        self, order: PlatformOrder, by: ActionBy, key: RequestKey | None, *, dry_run: bool, again: bool
    ) -> tuple[Prepared, SubmittedRelease]:
        platform = await self.find_platform(order.platform, by.platform_filter)
        prepared = await self.orders.prepare(order, platform, by, again=again)
        row = {**prepared.order, **({"key": key.to_json()} if key else {})}
        return prepared, await self._store.submit_release(row, prepared.submission, self._session(), dry_run=dry_run)

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

        await self._items.act_in_one_transaction(begin)
        found = await self.find("release_id", release_id, by.platform_filter)
        if verdict == "not_approved":
            said = f"release {release_id} is not approved: {describe_approval(found)}"
            raise Conflict("release.not_approved", said)
        return found

    async def roll_back(
        self,
        release_id: str,
        number: int | None,
        by: ActionBy,
        *,
        revision: int | None = None,
        expected: int | None = None,
    ) -> ReleaseRow:
        """Show an earlier revision of a release in all of its items, by default the newest below the one that is shown
        (P5).

        `number` names a publication of its first item. A Conflict if another has acted since what was shown when it
        was asked for, or since the number that is `expected`.
        """
        reason = _require_reason(by)
        await self.find("release_id", release_id, by.platform_filter)
        planned = await self.platforms.plan_rollback(by.platform_filter, release_id, number, revision)
        # After the plan, which is refused if another acts since: the number is that of the plan.
        shown = (await self.find("release_id", release_id, by.platform_filter))["number"]
        if expected not in (None, shown):
            raise Conflict("publication.moved", f"release {release_id} shows number {shown} by now, not {expected}")
        if not planned:
            what = "no earlier revision" if revision is None else f"no published revision {revision}"
            raise NotFound("publication.not_found", f"release {release_id} has {what} than the one that is shown")
        for one in planned:
            if one["source"]:
                await self._items.require_versions(str(one["source"]))

        def begin(connection: Any) -> Sequence[ItemAction]:  # psycopg's
            set_correlation_id(connection, by)
            return [
                ItemAction(
                    one["action"], *_split(one["key"]), by.actor, reason, by.owner, one["number"], one["expected"]
                )
                for one in planned
            ]

        await self._items.act_in_one_transaction(begin)
        return await self.find("release_id", release_id, by.platform_filter)

    async def clear(self, release_id: str, clearance: str, by: ActionBy) -> ReleaseRow:
        """Set who may read a release once it is published."""
        await self.platforms.clear(release_id, clearance, by)
        return await self.find("release_id", release_id, by.platform_filter)

    async def delete_asset(self, asset_id: str, deleted: bool, by: ActionBy) -> None:
        """Mark an asset as deleted, or restore it."""
        verdict = await self.platforms.delete_asset(asset_id, deleted, by)
        if verdict == "unresolved":
            raise await self._find_unresolved(asset_id, by)
        if verdict in ASSET_REFUSALS:
            raise ASSET_REFUSALS[verdict](asset_id)

    async def _find_unresolved(self, asset_id: str, by: ActionBy, but: str | None = None) -> Conflict:
        """The refusal that names the unresolved release of an asset; it may be resolved by now."""
        wanted: JsonObject = {"asset_id": asset_id, "approval_status": "pending_review"}
        for one in await self.platforms.releases(by.platform_filter, wanted, limit=2):
            if one["release_id"] != but:
                return refuse_unresolved(one)
        return Conflict(
            "release.unresolved", f"another release of asset {asset_id} was processed or reviewed", remedy="Try again."
        )

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


def _accepted(prepared: Prepared, done: SubmittedRelease) -> Accepted:
    identity, links = prepared.identity, {"release": f"/api/platform/status/{prepared.identity.release_id}"}
    if done.request_id:
        links["self"] = f"/api/platform/status/{done.request_id}"
    if done.job_id:
        links["job"] = f"/api/jobs/status/{done.job_id}"
    return Accepted(
        done.verdict, done.request_id, identity.asset_id, identity.release_id, done.revision, done.job_id, done.state,
        prepared.workflow, prepared.parameters, links,
    )  # fmt: skip


def _split(key: str) -> tuple[str, str]:
    collection, item = key.split("/", 1)
    return collection, item


def _require_reason(by: ActionBy) -> str:
    if not (by.reason or "").strip():
        raise InputError("release.reason", "a reason is needed: it is recorded, and sent to the partner")
    return by.reason or ""
