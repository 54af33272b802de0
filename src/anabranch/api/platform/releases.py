"""Releases, and decisions on them."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from anabranch.access import Scope
from anabranch.api.answers.build import build_page
from anabranch.api.deps import CurrentCaller, CurrentGateway, needs
from anabranch.api.openapi.declare import BODY_CODES, problems, takes
from anabranch.api.platform.build import build_release
from anabranch.api.platform.callers import act_as, platform_filter
from anabranch.api.platform.requests import (
    BatchRequest,
    ClearanceRequest,
    DecisionRequest,
    PageQuery,
    ReasonRequest,
    ReleaseId,
    ReleasesQuery,
    RollbackReleaseRequest,
)
from anabranch.api.requests.body import JsonBody, check_body
from anabranch.canonical import JsonObject
from anabranch.codes import find_remedy
from anabranch.contract.answer import Page
from anabranch.contract.platform import Decision, Release
from anabranch.errors import AnabranchError
from anabranch.platform.action_by import ActionBy

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["platform"])

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


@dataclass(frozen=True)
class Target:
    """The release that a request acts on, and the caller."""

    release_id: ReleaseId
    caller: CurrentCaller
    gateway: CurrentGateway

    def by(self, reason: str | None) -> ActionBy:
        """Who acts on it."""
        return act_as(self.caller, reason)

    async def decide(self, given: JsonObject, *, approves: bool) -> Release:
        """Approve or reject it, as a body says."""
        said = check_body(DecisionRequest, given)
        by = self.by(said.reason)
        return build_release(await self.gateway.releases.decide(self.release_id, approves, by, said.revision))


CurrentRelease = Annotated[Target, Depends()]


@router.get("/platform/releases", dependencies=[needs(Scope.READ)], responses=problems())
async def list_releases(
    query: Annotated[ReleasesQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Page[Release]:
    """Releases, the newest first."""
    if query.ref:
        query.require_known(await gateway.releases.platforms.platforms(platform_filter(caller)))
    found = await gateway.releases.platforms.releases(
        platform_filter(caller), query.wanted(), limit=query.limit + 1, before=query.before
    )
    return build_page(found, query.limit, build_release, lambda one: str(one["cursor"]))


@router.get("/approvals", dependencies=[needs(Scope.READ)], responses=problems())
async def list_approvals(
    query: Annotated[PageQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Page[Release]:
    """Releases that wait for a person's approval."""
    found = await gateway.releases.platforms.releases(
        platform_filter(caller), {"review": True}, limit=query.limit + 1, before=query.before
    )
    return build_page(found, query.limit, build_release, lambda one: str(one["cursor"]))


@router.post(
    "/platform/releases/{release_id}/approve",
    dependencies=[needs(Scope.OPERATE)],
    **takes(DecisionRequest, *DECIDE_CODES, required=False),
)
async def approve_release(target: CurrentRelease, given: JsonBody) -> Release:
    """Approve a release whose processing is completed; its job goes on and publishes it."""
    return await target.decide(given, approves=True)


@router.post(
    "/platform/releases/{release_id}/reject",
    dependencies=[needs(Scope.OPERATE)],
    **takes(DecisionRequest, *DECIDE_CODES),
)
async def reject_release(target: CurrentRelease, given: JsonBody) -> Release:
    """Reject a release whose processing is completed, with a reason; nothing of it is published."""
    return await target.decide(given, approves=False)


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
    """Show an earlier revision of a release in all of its items, with a reason; each gets a number of its own."""
    wanted = check_body(RollbackReleaseRequest, given)
    found = await target.gateway.releases.roll_back(
        target.release_id,
        wanted.number,
        target.by(wanted.reason),
        revision=wanted.revision,
        expected=wanted.expected,
    )
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
                else await gateway.releases.decide(
                    release_id, wanted.action == "approve", by, wanted.revisions.get(release_id)
                )
            )
            done.append(Decision(release_id, build_release(found), None, None, None))
        except AnabranchError as error:
            done.append(Decision(release_id, None, error.code, error.message, find_remedy(error.code, error.remedy)))
    return done
