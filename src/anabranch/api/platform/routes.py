"""Orders of partner systems, their assets and releases, and decisions on them."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from pydantic import ValidationError

from anabranch.access import Scope
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.api.answers.build import build_job, build_page
from anabranch.api.answers.errors import InvalidRequest, Mistake, list_mistakes
from anabranch.api.callbacks import move_order_callback
from anabranch.api.deps import Caller, CurrentCaller, CurrentGateway, CurrentLimits, CurrentReads, GivenKey, needs
from anabranch.api.openapi.declare import BODY_CODES, SUBMIT_CODES, Responses, body, keyed, problems, takes
from anabranch.api.paths import PlatformId
from anabranch.api.platform.requests import (
    AnyId,
    AssetId,
    AuditQuery,
    BatchRequest,
    ClearanceRequest,
    DecisionRequest,
    DryRunQuery,
    PageQuery,
    PlatformRequest,
    ReasonRequest,
    ReleaseId,
    ReleasesQuery,
    RequestsQuery,
    RollbackReleaseRequest,
)
from anabranch.api.requests.body import JsonBody, check_body
from anabranch.api.submission import REPLAYED_HEADER, accept_order
from anabranch.canonical import JsonObject, canonical, sha256
from anabranch.codes import code_of
from anabranch.contract.answer import Page
from anabranch.contract.platform import Accepted, AuditEntry, Decision, Platform, Release, WorkOrder
from anabranch.errors import AnabranchError, NotFound
from anabranch.platform.orders import InvalidOrder, PlatformOrder
from anabranch.platform.translators import find_translator
from anabranch.release_actions import ALL_PLATFORMS, ActionBy, ReleaseRow, RequestKey, Subject, build_release

__all__ = ["router", "visible_platform"]

router = APIRouter(prefix="/api", tags=["platform"])

ORDER_CODES = (
    *BODY_CODES,
    *SUBMIT_CODES,
    *("platform.not_found", "platform.references", "platform.data_type", "platform.no_gate", "platform.retired"),
    *(
        "platform.full",
        "asset.deleted",
        "release.unresolved",
        "release.clearance",
        "release.exists",
        "platform.options",
        "publication.owner",
        "release.approved",
        "release.processing",
    ),
)
MISSING = ("release.not_found",)
ITEM_CODES = (
    *("publication.moved", "publication.owner", "publication.not_found", "publication.same", "publication.expired"),
    *("publication.not_approved", "catalog.missing", "catalog.no_collection"),
)
DECIDE_CODES = (
    *BODY_CODES,
    *MISSING,
    *("asset.deleted", "release.decided", "release.moved", "release.not_completed", "release.own", "release.reason"),
)
ACCEPTED: Responses = {200: {"model": Accepted, "description": "A dry run, or an order that was accepted before"}}


def visible_platform(caller: Caller) -> str:
    """What a caller sees of platforms: their own; an admin all of them (S1)."""
    return ALL_PLATFORMS if caller.sees is None else caller.platform


def act_as(caller: Caller, reason: str | None = None) -> ActionBy:
    """Who acts: the authenticated principal, whatever the body says (P7)."""
    return ActionBy(visible_platform(caller), caller.name, reason, caller.correlation_id)


@dataclass(frozen=True)
class Target:
    """The release that a request acts on, and the caller."""

    release_id: ReleaseId
    caller: CurrentCaller
    gateway: CurrentGateway

    def by(self, reason: str | None) -> ActionBy:
        """Who acts on it."""
        return act_as(self.caller, reason)


CurrentRelease = Annotated[Target, Depends()]


PLACES = {
    "platform.references": "body.refs",
    "platform.data_type": "body.data_type",
    "platform.no_gate": "body.approval",
    "outbound.url": "body.callback_url",
}


@dataclass(frozen=True)
class OrderCall:
    """A call that submits an order: the caller, their quota, and the key of the request."""

    caller: CurrentCaller
    gateway: CurrentGateway
    limits: CurrentLimits
    key: GivenKey
    response: Response

    async def submit(self, order: PlatformOrder, again: str | None = None, *, dry_run: bool = False) -> Accepted:
        """Accept an order, and answer 200 where nothing was made. `again`: the release whose last order it is."""
        key = self._named({"resubmit": again} if again else {"order": order.model_dump(mode="json")})
        try:
            accepted, replayed = await self._submit(order, key, dry_run=dry_run, again=again is not None)
        except InvalidOrder as error:
            raise InvalidRequest([
                mistake
                for one in error.errors
                for mistake in list_mistakes(one)
                or [Mistake(where=PLACES.get(one.code, "body"), detail=one.message)]
            ]) from error  # fmt: skip
        if dry_run or accepted.verdict == "same":
            self.response.status_code = 200
        if replayed:
            self.response.headers[REPLAYED_HEADER] = "true"
        return accepted

    async def _submit(
        self, order: PlatformOrder, key: RequestKey | None, *, dry_run: bool, again: bool
    ) -> tuple[Accepted, bool]:
        by = act_as(self.caller)
        if dry_run:
            return await self.gateway.releases.submit_once(order, by, key, dry_run=True, again=again)
        return await accept_order(self.gateway, self.limits, self.caller.principal, order, by, key, again=again)

    def _named(self, asked: JsonObject) -> RequestKey | None:
        if self.key is None:
            return None
        keep = timedelta(hours=self.gateway.settings.idempotency_hours)
        return RequestKey(self.caller.platform, self.key, sha256(canonical(asked)), keep)


CurrentOrderCall = Annotated[OrderCall, Depends()]


@router.post(
    "/platform/submit",
    status_code=202,
    dependencies=[needs(Scope.SUBMIT)],
    responses={**ACCEPTED, **problems(*ORDER_CODES)},
    openapi_extra=keyed(body(PlatformOrder, required=True)),
)
@router.post(
    "/platform/submit_dag",
    status_code=202,
    dependencies=[needs(Scope.SUBMIT)],
    include_in_schema=False,
    response_model=Accepted,
)
async def submit_order(given: JsonBody, call: CurrentOrderCall, query: Annotated[DryRunQuery, Query()]) -> Accepted:
    """Accept a work order: it becomes a release of an asset, and a job. The same order is the same release and job."""
    order = check_body(PlatformOrder, move_order_callback(given))
    return await call.submit(order, dry_run=query.dry_run)


@router.post(
    "/platform/{platform}/submit",
    status_code=202,
    dependencies=[needs(Scope.SUBMIT)],
    responses={**ACCEPTED, **problems(*ORDER_CODES, "platform.translator")},
    openapi_extra=keyed(body({"type": "object"}, required=True)),
)
async def submit_translated_order(
    platform: PlatformId, given: JsonBody, call: CurrentOrderCall, query: Annotated[DryRunQuery, Query()]
) -> Accepted:
    """Accept a work order in the partner's own shape; the platform's translator turns it into ours."""
    await call.gateway.releases.find_platform(platform, visible_platform(call.caller))
    try:
        translated = find_translator(platform)(given)
    except ValidationError as error:
        raise InvalidRequest.of(error, "body") from error
    order = check_body(PlatformOrder, move_order_callback(translated))
    return await call.submit(order, dry_run=query.dry_run)


async def find_progress(release: ReleaseRow, reads: PostgresReads) -> float | None:
    """How much of a release's job is done, while it is processed."""
    if release["processing_status"] not in ("queued", "processing"):
        return None
    return build_job(await reads.detail(await reads.find(release["job_id"]))).progress


@router.get("/platform/status/{id}", dependencies=[needs(Scope.READ)], responses=problems(*MISSING))
@router.get(
    "/platform/dag_status/{id}", dependencies=[needs(Scope.READ)], include_in_schema=False, response_model=Release
)
async def show_release_status(
    id: AnyId,  # noqa: A002  # as the path says
    caller: CurrentCaller,
    gateway: CurrentGateway,
    reads: CurrentReads,
) -> Release:
    """The release of a request, a release, an asset (its newest) or a job, with its progress and outputs."""
    subjects: list[Subject] = {36: ["request_id"], 64: ["job_id"]}.get(len(id), ["asset_id", "release_id"])  # type: ignore[assignment]  # literals
    for subject in subjects:
        if found := await gateway.releases.platforms.releases(visible_platform(caller), {subject: id}, limit=1):
            return build_release(found[0], await find_progress(found[0], reads))
    raise NotFound("release.not_found", f"there is no request, release, asset or job {id!r}")


@router.get("/platform/releases", dependencies=[needs(Scope.READ)], responses=problems())
async def list_releases(
    query: Annotated[ReleasesQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Page[Release]:
    """Releases, the newest first."""
    found = await gateway.releases.platforms.releases(
        visible_platform(caller), query.wanted(), limit=query.limit + 1, before=query.before
    )
    return build_page(found, query.limit, build_release, lambda one: str(one["cursor"]))


@router.get("/approvals", dependencies=[needs(Scope.READ)], responses=problems())
async def list_approvals(
    query: Annotated[PageQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Page[Release]:
    """Releases that wait for a person's approval."""
    found = await gateway.releases.platforms.releases(
        visible_platform(caller), {"review": True}, limit=query.limit + 1, before=query.before
    )
    return build_page(found, query.limit, build_release, lambda one: str(one["cursor"]))


@router.get("/platform/assets/{asset_id}/latest", dependencies=[needs(Scope.READ)], responses=problems(*MISSING))
async def show_latest_release(asset_id: AssetId, caller: CurrentCaller, gateway: CurrentGateway) -> Release:
    """The newest published release of an asset."""
    found = await gateway.releases.platforms.releases(
        visible_platform(caller), {"asset_id": asset_id, "latest": True}, limit=1
    )
    if not found:
        raise NotFound("release.not_found", f"asset {asset_id} has no published release")
    return build_release(found[0])


@router.post(
    "/platform/assets/{asset_id}/delete",
    dependencies=[needs(Scope.OPERATE)],
    status_code=204,
    **takes(ReasonRequest, "asset.not_found", "asset.shown", "release.unresolved", required=False),
)
async def delete_asset(asset_id: AssetId, given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway) -> None:
    """Mark an asset as deleted; nothing of it is removed, and it can be restored."""
    reason = check_body(ReasonRequest, given).reason
    await gateway.releases.delete_asset(asset_id, True, act_as(caller, reason))


@router.post(
    "/platform/assets/{asset_id}/restore",
    dependencies=[needs(Scope.OPERATE)],
    status_code=204,
    **takes(ReasonRequest, "asset.not_found", required=False),
)
async def restore_asset(asset_id: AssetId, given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway) -> None:
    """Restore an asset that was deleted."""
    reason = check_body(ReasonRequest, given).reason
    await gateway.releases.delete_asset(asset_id, False, act_as(caller, reason))


@router.post(
    "/platform/releases/{release_id}/approve",
    dependencies=[needs(Scope.OPERATE)],
    **takes(DecisionRequest, *DECIDE_CODES, required=False),
)
async def approve_release(target: CurrentRelease, given: JsonBody) -> Release:
    """Approve a release whose processing is completed; its job goes on and publishes it."""
    said = check_body(DecisionRequest, given)
    by = target.by(said.reason)
    return build_release(await target.gateway.releases.decide(target.release_id, True, by, said.revision))


@router.post(
    "/platform/releases/{release_id}/reject",
    dependencies=[needs(Scope.OPERATE)],
    **takes(DecisionRequest, *DECIDE_CODES),
)
async def reject_release(target: CurrentRelease, given: JsonBody) -> Release:
    """Reject a release whose processing is completed, with a reason; nothing of it is published."""
    said = check_body(DecisionRequest, given)
    by = target.by(said.reason)
    return build_release(await target.gateway.releases.decide(target.release_id, False, by, said.revision))


@router.post(
    "/platform/releases/{release_id}/revoke",
    dependencies=[needs(Scope.OPERATE)],
    **takes(ReasonRequest, *MISSING, *ITEM_CODES, "release.not_approved", "release.reason"),
)
@router.post(
    "/platform/releases/{release_id}/unpublish",
    dependencies=[needs(Scope.OPERATE)],
    include_in_schema=False,
    response_model=Release,
)
async def revoke_release(target: CurrentRelease, given: JsonBody) -> Release:
    """Take back the approval of a release, with a reason: readers no longer see it."""
    by = target.by(check_body(ReasonRequest, given).reason)
    return build_release(await target.gateway.releases.revoke(target.release_id, by))


@router.post(
    "/platform/releases/{release_id}/rollback",
    dependencies=[needs(Scope.OPERATE)],
    **takes(RollbackReleaseRequest, *MISSING, *ITEM_CODES, "release.reason"),
)
async def roll_back_release(target: CurrentRelease, given: JsonBody) -> Release:
    """Show what an earlier publication of a release showed, with a reason; that gets a number of its own."""
    wanted = check_body(RollbackReleaseRequest, given)
    found = await target.gateway.releases.roll_back(target.release_id, wanted.number, target.by(wanted.reason))
    return build_release(found)


@router.post(
    "/platform/releases/{release_id}/clearance",
    dependencies=[needs(Scope.OPERATE)],
    **takes(ClearanceRequest, *MISSING),
)
async def clear_release(target: CurrentRelease, given: JsonBody) -> Release:
    """Set who may read a release once it is published."""
    wanted = check_body(ClearanceRequest, given)
    return build_release(
        await target.gateway.releases.clear(target.release_id, wanted.clearance, target.by(wanted.reason))
    )


@router.post(
    "/platform/releases/{release_id}/resubmit",
    status_code=202,
    dependencies=[needs(Scope.SUBMIT)],
    responses={**ACCEPTED, **problems(*ORDER_CODES, *MISSING)},
    openapi_extra=keyed({}),
)
async def resubmit_release(release_id: ReleaseId, call: CurrentOrderCall) -> Accepted:
    """Submit the last order of a release again: after a failure, a rejection, a revoke or a review that expired."""
    platforms = call.gateway.releases.platforms
    orders = await platforms.requests(visible_platform(call.caller), limit=1, release_id=release_id)
    if not orders:
        raise NotFound("release.not_found", f"there is no release {release_id!r}")
    return await call.submit(PlatformOrder.model_validate(orders[0][1].body), release_id)


@router.post("/platform/releases", dependencies=[needs(Scope.OPERATE)], **takes(BatchRequest))
async def decide_releases(given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway) -> list[Decision]:
    """Approve, reject or revoke up to 100 releases; what is against one hurts no other."""
    wanted = check_body(BatchRequest, given)
    by = act_as(caller, wanted.reason)
    done = []
    for release_id in dict.fromkeys(wanted.release_ids):
        try:
            found = (
                await gateway.releases.revoke(release_id, by)
                if wanted.action == "revoke"
                else await gateway.releases.decide(release_id, wanted.action == "approve", by)
            )
            done.append(Decision(release_id, build_release(found), None, None, None))
        except AnabranchError as error:
            done.append(Decision(release_id, None, error.code, error.message, error.remedy or code_of(error).remedy))
    return done


@router.get("/platform/requests", dependencies=[needs(Scope.READ)], responses=problems())
async def list_requests(
    query: Annotated[RequestsQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Page[WorkOrder]:
    """Work orders as they were accepted, the newest first."""
    found = await gateway.releases.platforms.requests(
        visible_platform(caller), limit=query.limit + 1, release_id=query.release_id, before=query.before
    )
    return build_page(found, query.limit, lambda one: one[1], lambda one: str(one[0]))


@router.get("/platform/audit", dependencies=[needs(Scope.READ)], responses=problems())
async def list_audit(
    query: Annotated[AuditQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Page[AuditEntry]:
    """Who did what, the newest first; nothing is ever removed from it."""
    found = await gateway.releases.platforms.audit(
        visible_platform(caller), limit=query.limit + 1, asset_id=query.asset_id, before=query.before
    )
    return build_page(found, query.limit, lambda one: one, lambda one: str(one.number))


@router.get("/platforms", dependencies=[needs(Scope.READ)], responses=problems())
async def list_platforms(caller: CurrentCaller, gateway: CurrentGateway) -> list[Platform]:
    """Partner systems with their references, workflows and policies."""
    return await gateway.releases.platforms.platforms(visible_platform(caller))


@router.put(
    "/platforms/{platform}",
    dependencies=[needs(Scope.ADMIN)],
    **takes(PlatformRequest, "platform.exists", "platform.workflow", "platform.no_gate"),
)
async def save_platform(
    platform: PlatformId, given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway
) -> Platform:
    """Make a platform, or change one. The references of one that has assets stay as they are."""
    wanted = check_body(PlatformRequest, given)
    gateway.releases.check_workflows(wanted.workflows.values(), needs_approval=wanted.approval != "none")
    return await gateway.releases.save_platform(platform, wanted.model_dump(mode="json"), act_as(caller))


@router.delete("/platforms/{platform}", dependencies=[needs(Scope.ADMIN)], responses=problems("platform.not_found"))
async def retire_platform(platform: PlatformId, caller: CurrentCaller, gateway: CurrentGateway) -> Platform:
    """Retire a platform: it takes no more orders, and keeps its assets."""
    return await gateway.releases.save_platform(platform, None, act_as(caller))
