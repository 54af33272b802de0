"""Builds the answers about releases from rows."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from anabranch.adapters.postgres.store.platforms import ReleaseRow
from anabranch.codes import with_remedy
from anabranch.contract.answer import read
from anabranch.contract.platform import Release

__all__ = ["build_release"]


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
    error = row["error"] and with_remedy(row["error"], of_release=True)
    shown_as = {"items": items, "artifacts": artifacts, "error": error, "progress": progress, "links": links}
    return read(Release, {**row, **shown_as})


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
