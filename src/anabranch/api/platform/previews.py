"""What a job that waits for a review would publish, for those who decide on it (P6)."""

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from anabranch.access import Scope
from anabranch.api.deps import CurrentCaller, CurrentGateway, CurrentServing, needs
from anabranch.api.openapi.declare import JOB_CODES, problems
from anabranch.api.paths import ItemId, JobId
from anabranch.api.platform.callers import platform_filter
from anabranch.api.platform.requests import ReleaseId
from anabranch.api.security.root_path import at_root
from anabranch.contract.mosaic import MOSAIC_TYPE
from anabranch.contract.previews import Preview, PreviewItem
from anabranch.contract.published_links import address_of, table_of
from anabranch.errors import NotFound
from anabranch.releases.drafts import Draft, DraftItem
from anabranch.serving.subapps import Serving
from anabranch.strict_model import StrictModel

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["platform"], dependencies=[needs(Scope.OPERATE)])

MAX_ITEMS = 100
MAX_REPORT_BYTES = 2**20
MAX_PAGE_BYTES = 10_000_000
MAX_TILE_FEATURES = 10_000
MAX_ZOOM = 24
GEOJSON, MVT = "application/geo+json", "application/vnd.mapbox-vector-tile"
RASTERS = ("image/tiff", MOSAIC_TYPE)
PREVIEW_CODES = (*JOB_CODES, "preview.not_found")
ITEM_CODES = (*PREVIEW_CODES, "preview.item")
PRIVATE = {"Cache-Control": "private, no-cache"}


class FeaturesQuery(StrictModel):
    """Which features to show."""

    limit: int = Field(100, ge=1, le=1000, description="The size of the page.")
    after: int = Field(0, ge=0, lt=2**63, description="The last id of the page before.")


@router.get("/jobs/{job_id}/preview", responses=problems(*PREVIEW_CODES))
async def preview_job(
    job_id: JobId, caller: CurrentCaller, gateway: CurrentGateway, serving: CurrentServing
) -> Preview:
    """What a job that waits for a review would publish: its items, warnings and report, with links to look at them."""
    return await _show(await gateway.drafts.find(job_id, caller.visible_platform), serving, None)


@router.get("/platform/releases/{release_id}/preview", responses=problems("release.not_found", *PREVIEW_CODES))
async def preview_release(
    release_id: ReleaseId, caller: CurrentCaller, gateway: CurrentGateway, serving: CurrentServing
) -> Preview:
    """What a release that waits for its review would publish, with links to look at it; gone once it is decided."""
    found = await gateway.releases.find("release_id", release_id, platform_filter(caller))
    if found["job_id"] is None or found["approval_status"] != "pending_review":
        raise NotFound("preview.not_found", f"release {release_id} does not wait for a review")
    return await _show(await gateway.drafts.find(found["job_id"], caller.visible_platform), serving, release_id)


@router.get(
    "/jobs/{job_id}/preview/{item}/features",
    response_class=Response,
    responses={200: {"content": {GEOJSON: {"schema": {"type": "object"}}}}, **problems(*ITEM_CODES)},
)
async def preview_features(
    job_id: JobId,
    item: ItemId,
    query: Annotated[FeaturesQuery, Query()],
    caller: CurrentCaller,
    gateway: CurrentGateway,
) -> Response:
    """A page of the features that a job in review would publish, as GeoJSON, by their ids."""
    draft = await gateway.drafts.find(job_id, caller.visible_platform)
    wanted = draft.item(item)
    page = await gateway.drafts.page(draft.job.job_id, wanted, query.after, query.limit, MAX_PAGE_BYTES)
    links = []
    if page and page[-1][0] < _rows(wanted):
        more = f"{_path(draft, wanted)}/features?limit={query.limit}&after={page[-1][0]}"
        links.append({"rel": "next", "type": GEOJSON, "href": at_root(more)})
    head = json.dumps({"type": "FeatureCollection", "numberReturned": len(page), "links": links})[:-1]
    return Response(
        f'{head}, "features": [{",".join(feature for _, feature in page)}]}}', media_type=GEOJSON, headers=PRIVATE
    )


@router.get(
    "/jobs/{job_id}/preview/{item}/tiles/{z}/{x}/{y}",
    response_class=Response,
    responses={
        200: {"content": {MVT: {"schema": {"type": "string", "format": "binary"}}}},
        **problems(*ITEM_CODES, "features.tile"),
    },
)
async def preview_vector_tile(
    job_id: JobId,
    item: ItemId,
    z: Annotated[int, Path(description="The zoom.")],
    x: Annotated[int, Path(description="The column, from the west.")],
    y: Annotated[int, Path(description="The row, from the north.")],
    caller: CurrentCaller,
    gateway: CurrentGateway,
) -> Response:
    """A vector tile (MVT, Web Mercator) of the features that a job in review would publish."""
    draft = await gateway.drafts.find(job_id, caller.visible_platform)
    wanted = draft.item(item)
    if not 0 <= z <= MAX_ZOOM or not (0 <= x < 2**z and 0 <= y < 2**z):
        raise NotFound("features.tile", f"WebMercatorQuad has no tile {z}/{x}/{y}"[:200])
    tile = await gateway.drafts.tile(draft.job.job_id, wanted, z, x, y, MAX_TILE_FEATURES)
    if tile is None:
        raise NotFound("preview.item", f"item {item} has no features")
    return Response(tile, media_type=MVT, headers=PRIVATE)


async def _show(draft: Draft, serving: Serving, release_id: str | None) -> Preview:
    job = draft.job.job_id
    return Preview(
        job, release_id, draft.collection,
        tuple(_show_item(draft, item) for item in list(draft.items.values())[:MAX_ITEMS]),
        len(draft.items), tuple(draft.warnings), await _read_report(draft, serving),
        {"self": at_root(f"/api/jobs/{job}/preview"), "job": at_root(f"/api/jobs/status/{job}")},
    )  # fmt: skip


def _show_item(draft: Draft, item: DraftItem) -> PreviewItem:
    outputs = at_root(f"/api/jobs/{draft.job.job_id}/outputs/")
    document: Mapping[str, Any] = item.document  # STAC's own shape
    assets, links = dict[str, Any](), dict[str, str]()
    for name, asset in document["assets"].items():
        file = item.files.get(address_of(asset["href"]) or "")
        if file:
            assets[name] = {**asset, "href": outputs + quote(file.name)}
        elif table_of(asset["href"]):
            assets[name] = {**asset, "href": at_root(f"{_path(draft, item)}/features")}
        if file and "thumbnail" in asset["roles"]:
            links["thumbnail"] = outputs + quote(file.name)
        if file and str(asset["type"]).partition(";")[0] in RASTERS:
            tiles = at_root(f"/raster/previews/{draft.job.job_id}/items/{quote(item.id, safe='')}")
            links |= {"tilejson": f"{tiles}/WebMercatorQuad/tilejson.json", "picture": f"{tiles}/preview.png"}
    if item.table:
        layer = at_root(_path(draft, item))
        links |= {"features": f"{layer}/features", "vector_tiles": f"{layer}/tiles/{{z}}/{{x}}/{{y}}"}
    return PreviewItem({**document, "assets": assets}, links)


async def _read_report(draft: Draft, serving: Serving) -> object:
    """The report of the job, where it is among the files that it would publish."""
    address = draft.report or ""
    file = next((item.files[address] for item in draft.items.values() if address in item.files), None)
    if file is None or file.size > MAX_REPORT_BYTES:
        return None
    content = b"".join([piece async for piece in serving.objects.read(file.address, 0, file.size, file.version)])
    return json.loads(content)


def _path(draft: Draft, item: DraftItem) -> str:
    return f"/api/jobs/{draft.job.job_id}/preview/{quote(item.id, safe='')}"


def _rows(item: DraftItem) -> int:
    properties: Any = item.document["properties"]  # STAC's own shape
    return int(properties.get("table:row_count", 0))
