"""Partner systems, their assets, and who did what."""

from typing import Annotated

from fastapi import APIRouter, Query

from anabranch.access import Scope
from anabranch.api.answers.build import build_page
from anabranch.api.deps import CurrentCaller, CurrentGateway, needs
from anabranch.api.openapi.declare import problems, takes
from anabranch.api.paths import PlatformId
from anabranch.api.platform.build import build_release
from anabranch.api.platform.callers import act_as, platform_filter
from anabranch.api.platform.requests import AssetId, AuditQuery, PlatformRequest, ReasonRequest
from anabranch.api.requests.body import JsonBody, check_body
from anabranch.contract.answer import Page
from anabranch.contract.platform import AuditEntry, Platform, Release
from anabranch.errors import NotFound

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["platform"])


@router.get(
    "/platform/assets/{asset_id}/latest", dependencies=[needs(Scope.READ)], responses=problems("release.not_found")
)
async def show_latest_release(asset_id: AssetId, caller: CurrentCaller, gateway: CurrentGateway) -> Release:
    """The newest published release of an asset."""
    found = await gateway.releases.platforms.releases(
        platform_filter(caller), {"asset_id": asset_id, "latest": True}, limit=1
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


@router.get("/platform/audit", dependencies=[needs(Scope.READ)], responses=problems())
async def list_audit(
    query: Annotated[AuditQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Page[AuditEntry]:
    """Who did what, the newest first; nothing is ever removed from it."""
    found = await gateway.releases.platforms.audit(
        platform_filter(caller), limit=query.limit + 1, asset_id=query.asset_id, before=query.before
    )
    return build_page(found, query.limit, lambda one: one, lambda one: str(one.number))


@router.get("/platforms", dependencies=[needs(Scope.READ)], responses=problems())
async def list_platforms(caller: CurrentCaller, gateway: CurrentGateway) -> list[Platform]:
    """Partner systems with their references, workflows and policies."""
    return await gateway.releases.platforms.platforms(platform_filter(caller))


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
    gateway.releases.orders.check_workflows(wanted.workflows.values(), needs_approval=wanted.approval != "none")
    return await gateway.releases.save_platform(platform, wanted.model_dump(mode="json"), act_as(caller))


@router.delete("/platforms/{platform}", dependencies=[needs(Scope.ADMIN)], responses=problems("platform.not_found"))
async def retire_platform(platform: PlatformId, caller: CurrentCaller, gateway: CurrentGateway) -> Platform:
    """Retire a platform: it takes no more orders, and keeps its assets."""
    return await gateway.releases.save_platform(platform, None, act_as(caller))
