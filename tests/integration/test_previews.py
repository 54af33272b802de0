"""A reviewer sees what would be published, with its tiles and features; nobody else does, nor anybody later (P6)."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from morecantile import tms

from anabranch.access import Scope
from anabranch.contract.platform import Accepted
from anabranch.engine.model import JobState
from anabranch.platform.action_by import ActionBy
from anabranch.platform.orders import PlatformOrder
from tests.support.rasters import hills, make_raster
from tests.support.serving import Served, make_key, serve_api
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

pytestmark = pytest.mark.postgres

ANN = ActionBy("ddh", "ddh/ann (k1)", "checked", "test")
POINTS: dict[str, Any] = {
    "type": "FeatureCollection",
    "features": [
        {"type": "Feature", "properties": {"name": f"well {n}"}, "geometry": {"type": "Point", "coordinates": [7, n]}}
        for n in range(3)
    ],
}


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    folder = tmp_path / "bronze" / "ddh"
    folder.mkdir(parents=True)
    make_raster(folder / "a.tif", hills())
    make_raster(folder / "b.tif", hills())
    (folder / "wells.geojson").write_text(json.dumps(POINTS))
    async with asyncio.timeout(PATIENCE_SECONDS), open_stack(catalog_url, tmp_path, []) as opened:
        yield opened


class Reviewing:
    """Calls of the API with the keys of a platform."""

    def __init__(self, api: Served, url: str) -> None:
        self.client = api.client
        self.keys = {
            name: make_key(url, scope, platform)
            for name, scope, platform in (
                ("reviewer", Scope.OPERATE, "ddh"), ("reader", Scope.SUBMIT, "ddh"), ("other", Scope.OPERATE, "arcgis"),
            )
        }  # fmt: skip

    def get(self, path: str, who: str = "reviewer") -> httpx.Response:
        return self.client.get(path, headers={"Authorization": f"Bearer {self.keys[who]}"})

    def has(self, path: str) -> bool:
        """Whether something is there."""
        return self.get(path).status_code == 200

    def codes(self, path: str) -> list[str]:
        """What others are answered."""
        answers = [self.get(path, who) for who in ("reader", "other")] + [self.client.get(path)]
        return [answer.json()["code"] for answer in answers]


@pytest.fixture
async def api(stack: Stack, catalog_url: str, tmp_path: Path) -> AsyncIterator[Reviewing]:
    with serve_api(catalog_url, tmp_path, auth="keys", anonymous_read="true") as served:
        yield Reviewing(served, catalog_url)


def order(source: str, **more: Any) -> PlatformOrder:
    refs: dict[str, str | int] = {"dataset_id": 1, "resource_id": source, "version_id": "1"}
    return PlatformOrder(platform="ddh", refs=refs, source=f"bronze://ddh/{source}", title="Ours", **more)


async def processed(stack: Stack, *orders: PlatformOrder) -> list[Accepted]:
    """Releases whose jobs wait for their review."""
    accepted = [await stack.gateway.releases.submit(each, ANN) for each in orders]
    for each in accepted:
        job = await stack.until(str(each.job_id), lambda job: job.job.state in (JobState.WAITING, JobState.FAILED))
        assert job.job.state is JobState.WAITING, job.job.error
    return accepted


def tile_of(tilejson: dict[str, Any]) -> str:
    """A path of a tile in the middle."""
    (west, south, east, north), zoom = tilejson["bounds"], tilejson["minzoom"]
    tile = tms.get("WebMercatorQuad").tile((west + east) / 2, (south + north) / 2, zoom)
    url = tilejson["tiles"][0].format(z=tile.z, x=tile.x, y=tile.y)
    return str(httpx.URL(url).raw_path.decode())


async def test_p6_a_reviewer_sees_rasters_with_their_tiles_until_they_are_decided(stack: Stack, api: Reviewing) -> None:
    """One file, and one in tiles, which is approved."""
    orders = [order("a.tif"), order("b.tif", options={"tiling": "always"})]
    for accepted, approved in zip(await processed(stack, *orders), (False, True), strict=True):
        path, plain = f"/api/platform/releases/{accepted.release_id}/preview", f"/api/jobs/{accepted.job_id}/preview"
        preview = api.get(path).json()
        shown = check_preview(preview, accepted)
        assert api.get(plain).json()["items"] == preview["items"]
        item, links = shown["item"]["id"], shown["links"]
        tile = tile_of(api.get(links["tilejson"]).json())
        for each in (tile, links["thumbnail"], links["picture"], shown["item"]["assets"]["report"]["href"]):
            assert api.get(each).status_code == 200, each
        assert api.get(tile).headers["cache-control"] == "private, no-cache"
        assert api.get(tile).headers["content-type"].startswith("image/")
        published = f"/stac/collections/ddh-raster/items/{item}"
        for hidden in (published, f"/raster/collections/ddh-raster/items/{item}/preview.png"):
            assert api.get(hidden).status_code == 404
        assert api.codes(path) == ["auth.forbidden", "release.not_found", "auth.missing"]
        assert api.codes(plain) == ["auth.forbidden", "job.not_found", "auth.missing"]
        for hidden in (tile, links["tilejson"]):
            assert api.codes(hidden) == ["auth.forbidden", "job.not_found", "auth.missing"]
            assert api.client.get(hidden).status_code == 401

        await stack.gateway.releases.decide(accepted.release_id, approved, ANN)
        for gone in (path, plain, tile, links["tilejson"], links["picture"]):
            answer = api.get(gone)
            assert (answer.status_code, answer.json()["code"]) == (404, "preview.not_found"), gone
        await stack.wait(str(accepted.job_id))
        if approved:  # a new collection is visible within a second
            await wait_until_async(partial(api.has, published), "the item")
        else:
            assert api.get(published).status_code == 404
        assert api.get(tile).status_code == 404


def check_preview(preview: dict[str, Any], accepted: Accepted) -> dict[str, Any]:
    """Its item."""
    (shown,) = preview["items"]
    named = (preview["release_id"], preview["job_id"], preview["collection"])
    assert named == (accepted.release_id, accepted.job_id, "ddh-raster")
    assert (shown["item"]["properties"]["title"], shown["item"]["type"]) == ("Ours", "Feature")
    assert preview["report"]["source"]["address"].startswith("bronze://ddh/")
    assert [warning["code"] for warning in preview["warnings"]] == ["raster.no_time"]
    return dict(shown)


async def test_p6_a_reviewer_sees_the_features_of_a_layer_until_it_is_decided(stack: Stack, api: Reviewing) -> None:
    (accepted,) = await processed(stack, order("wells.geojson"))
    (shown,) = api.get(f"/api/platform/releases/{accepted.release_id}/preview").json()["items"]
    assert shown["item"]["properties"]["table:row_count"] == 3
    features = shown["links"]["features"]
    assert shown["item"]["assets"]["data"]["href"] == features
    assert api.get(shown["item"]["assets"]["report"]["href"]).status_code == 200
    first = api.get(f"{features}?limit=2").json()
    (more,) = first["links"]
    rest = api.get(more["href"]).json()
    found = [*first["features"], *rest["features"]]
    assert [one["properties"] for one in found] == [one["properties"] for one in POINTS["features"]]
    assert [one["geometry"] for one in found] == [one["geometry"] for one in POINTS["features"]]
    assert not rest["links"]
    tile = shown["links"]["vector_tiles"].format(z=0, x=0, y=0)
    drawn = api.get(tile)
    assert (drawn.status_code, b"well 2" in drawn.content) == (200, True)
    assert api.get(shown["links"]["vector_tiles"].format(z=1, x=2, y=0)).json()["code"] == "features.tile"
    assert api.get(features.replace(shown["item"]["id"], "nothing")).json()["code"] == "preview.item"
    for hidden in (features, tile):
        assert api.codes(hidden) == ["auth.forbidden", "job.not_found", "auth.missing"]
    await stack.gateway.releases.decide(accepted.release_id, False, ANN)
    for gone in (features, tile):
        assert api.get(gone).json()["code"] == "preview.not_found"
