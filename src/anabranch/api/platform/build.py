"""Builds the answers about releases from rows."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from anabranch.contract.answer import read
from anabranch.contract.platform import Release
from anabranch.platform.identity import name_table
from anabranch.release_actions import ReleaseRow

__all__ = ["build_release"]


def build_release(row: ReleaseRow, progress: float | None = None) -> Release:
    """A release as it is shown; links to what readers see only while it is published (P6)."""
    links: dict[str, str] = {"status": f"/api/platform/status/{row['release_id']}"}
    artifacts = row["artifacts"] or []
    if row["job_id"]:
        links["job"] = f"/api/jobs/status/{row['job_id']}"
    if row["number"] is not None:
        collection, item = quote(row["collection"], safe=""), row["item_id"]
        links["item"] = f"/stac/collections/{collection}/items/{item}"
        links["history"] = f"/api/items/{collection}/{item}/publications"
        links["latest"] = f"/api/platform/assets/{row['asset_id']}/latest"
        if row["data_type"] == "raster":
            links["tiles"] = f"/raster/collections/{collection}/items/{item}/WebMercatorQuad/tilejson.json"
        else:
            links["features"] = f"/features/collections/{name_table(item)}"
        if row["shown_revision"] == row["revision"]:
            artifacts = [_add_url(artifact, f"/files/current/{collection}/{item}") for artifact in artifacts]
    return read(Release, {**row, "artifacts": artifacts, "progress": progress, "links": links})


def _add_url(artifact: Mapping[str, Any], folder: str) -> Mapping[str, Any]:  # of a ReleaseRow
    return artifact if artifact["kind"] == "table" else {**artifact, "url": f"{folder}/{quote(artifact['name'])}"}
