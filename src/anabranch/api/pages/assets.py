"""Assets: releases by status and reference; and one asset with its releases, their revisions and its actions."""

import asyncio
from typing import Annotated, Literal

from fastapi import Query, Response
from pydantic import Field

from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.api.deps import Caller, CurrentCaller, CurrentGateway, CurrentReads
from anabranch.api.pages.rendering import CurrentPage, page_router
from anabranch.api.platform.orders import list_requests
from anabranch.api.platform.platforms import list_audit, list_platforms
from anabranch.api.platform.releases import list_releases
from anabranch.api.platform.requests import AssetId, AuditQuery, ReleasesQuery, RequestsQuery
from anabranch.api.requests.models import HistoryQuery
from anabranch.api.routes.items import list_publications
from anabranch.contract.catalog import Publication
from anabranch.contract.platform import Release, WorkOrder
from anabranch.errors import NotFound
from anabranch.gateway import Gateway
from anabranch.strict_model import StrictModel

__all__ = ["router"]

router = page_router()
PROCESSING = ("queued", "processing", "completed", "failed")
APPROVAL = ("pending_review", "approved", "rejected", "revoked", "expired")
MAX_RELEASES, MAX_ENTRIES = 20, 20


class AssetsForm(StrictModel):
    """Which releases are listed."""

    processing_status: Literal["queued", "processing", "completed", "failed"] | None = None
    approval_status: Literal["pending_review", "approved", "rejected", "revoked", "expired"] | None = None
    ref_name: str | None = Field(None, max_length=40)
    ref_value: str | None = Field(None, max_length=200)
    latest: bool = False
    before: int | None = Field(None, ge=1, lt=2**63)

    @property
    def wanted(self) -> ReleasesQuery:
        """The query of the API."""
        given = self.model_dump(exclude={"ref_name", "ref_value"}, exclude_none=True)
        ref = [f"{self.ref_name}={self.ref_value}"] if self.ref_name and self.ref_value else []
        return ReleasesQuery(**given, ref=ref)


@router.get("/assets")
async def show_assets(
    page: CurrentPage, query: Annotated[AssetsForm, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Response:
    """Releases, the newest first."""
    releases, platforms = await asyncio.gather(
        list_releases(query.wanted, caller, gateway), list_platforms(caller, gateway)
    )
    return page.render(
        "releases/assets.html",
        title="Assets",
        releases=releases,
        names=sorted({name for platform in platforms for name in platform.references}),
        query=query,
        filters=query.model_dump(exclude={"before"}, exclude_defaults=True),
        processing=PROCESSING,
        approval=APPROVAL,
    )


@router.get("/assets/{asset_id}")
async def show_asset(
    asset_id: AssetId, page: CurrentPage, caller: CurrentCaller, gateway: CurrentGateway, reads: CurrentReads
) -> Response:
    """An asset with its releases, the newest first."""
    releases = (await list_releases(ReleasesQuery(asset_id=asset_id, limit=MAX_RELEASES), caller, gateway)).items
    if not releases:
        raise NotFound("asset.not_found", f"there is no asset {asset_id}")
    audit = await list_audit(AuditQuery(asset_id=asset_id, limit=MAX_ENTRIES), caller, gateway)
    return page.render(
        "releases/asset.html",
        title=releases[0].title or " / ".join(releases[0].refs.values()),
        asset=releases[0],
        releases=releases,
        orders={one.release_id: await _find_orders(one, caller, gateway) for one in releases},
        publications={one.release_id: await _find_publications(one, reads) for one in releases},
        audit=audit.items,
    )


async def _find_orders(release: Release, caller: Caller, gateway: Gateway) -> tuple[WorkOrder, ...]:
    query = RequestsQuery(release_id=release.release_id, limit=MAX_ENTRIES)
    return (await list_requests(query, caller, gateway)).items


async def _find_publications(release: Release, reads: PostgresReads) -> tuple[Publication, ...]:
    """The history of the first item of a release; empty where it was never published."""
    item = release.items[0] if release.items else None
    collection, name = (item.collection, item.id) if item else (release.collection, release.item_id)
    try:
        return (await list_publications(collection, name, HistoryQuery(limit=MAX_ENTRIES), reads)).items
    except NotFound:
        return ()
