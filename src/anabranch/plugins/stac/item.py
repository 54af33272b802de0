"""Builds a STAC 1.1 item from a raster's facts: a pure function (C1)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath

from pydantic import BaseModel

from anabranch.canonical import Json, JsonObject
from anabranch.errors import InputError
from anabranch.manifests.statement import Origin
from anabranch.plugins.stac.facts import Band, Output, RasterItem
from anabranch.plugins.stac.names import check_collection_id, check_item_id, split_address

__all__ = [
    "COLLECTION_LINK", "EXTENSIONS", "STAC_VERSION", "Origin", "PublishedOutput", "build_item", "find_outputs",
    "write_time",
]  # fmt: skip

STAC_VERSION = "1.1.0"
EXTENSIONS = {
    name: f"https://stac-extensions.github.io/{name}/v{version}/schema.json"
    for name, version in (
        ("projection", "2.0.0"), ("raster", "2.0.0"), ("file", "2.1.0"), ("processing", "1.2.0"), ("render", "2.0.0"),
    )
}  # fmt: skip
# A multihash of SHA-256: its code, its length in bytes, and the hash.
SHA256 = "1220"
# The schema requires it of an item in a collection; servers write their own links.
COLLECTION_LINK: JsonObject = {"rel": "collection", "href": "./collection.json", "type": "application/json"}
ASSETS = {"cog": "data", "mosaic": "data"}
ROLES: Mapping[str, list[Json]] = {
    "cog": ["data"], "mosaic": ["data"], "overview": ["overview"], "preview": ["overview"], "thumbnail": ["thumbnail"],
}  # fmt: skip
PARTS = frozenset({"tile"})  # published with an item, and listed by one of its assets rather than by itself
RASTER_FIELDS = ("scale", "offset", "sampling", "spatial_resolution")


@dataclass(frozen=True)
class PublishedOutput:
    """An object of an item, as our tables store it."""

    name: str
    kind: str
    tier: str
    key: str
    media_type: str
    size: int
    sha256: str


def build_item(collection: str, raster: RasterItem, origin: Origin, version: str) -> JsonObject:
    """The item; the same facts give the same item, whenever it is built."""
    check_collection_id(collection)
    used = [name for name in EXTENSIONS if name != "render" or raster.renders]
    return {
        "type": "Feature",
        "stac_version": STAC_VERSION,
        "stac_extensions": [EXTENSIONS[name] for name in used],
        "id": check_item_id(raster.id),
        "collection": collection,
        "geometry": raster.footprint.geometry,
        "bbox": list(raster.box),
        "properties": _describe(raster, origin, version),
        "links": [COLLECTION_LINK],
        "assets": {asset: _build_asset(output, raster) for asset, output in _by_asset(raster).items()},
    }


def find_outputs(raster: RasterItem) -> list[PublishedOutput]:
    """The published objects of an item, with the names that readers fetch them by."""
    parts = {output.href: output for output in raster.outputs if output.kind in PARTS}
    return [
        PublishedOutput(
            output.name or _default_name(raster.id, asset, key), output.kind, tier, key,
            output.media_type, output.size, output.sha256,
        )
        for asset, output in (*_by_asset(raster).items(), *parts.items())
        for tier, key in [split_address(output.href)]
    ]  # fmt: skip


def write_time(moment: datetime) -> str:
    """A moment as STAC writes it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _describe(raster: RasterItem, origin: Origin, version: str) -> JsonObject:
    texts = {"title": raster.title, "description": raster.description}
    return {
        **_present(texts),
        **_times(raster),
        **_present({"created": write_time(origin.created_at) if origin.created_at else None}),
        **_project(raster),
        "anabranch:kind": raster.kind,
        "processing:software": {"anabranch": version, **raster.software},
        "processing:lineage": _describe_lineage(raster, origin),
        "processing:expression": {"format": "anabranch", "expression": _provenance(raster, origin)},
        **({"renders": {name: _dump(render) for name, render in raster.renders.items()}} if raster.renders else {}),
    }


def _times(raster: RasterItem) -> JsonObject:
    moments = {"start_datetime": raster.start_datetime, "end_datetime": raster.end_datetime}
    interval = {name: write_time(moment) for name, moment in moments.items() if moment}
    return {"datetime": write_time(raster.datetime) if raster.datetime else None, **interval}


def _project(raster: RasterItem) -> JsonObject:
    return {
        **_present({"proj:code": raster.crs, "proj:projjson": raster.projjson}),
        "proj:shape": list(raster.shape),
        "proj:transform": list(raster.transform),
        "proj:bbox": list(raster.bounds),
    }


def _provenance(raster: RasterItem, origin: Origin) -> JsonObject:
    source = raster.source
    return _present({
        "job": origin.job_id, "workflow": origin.workflow, "workflow_hash": origin.workflow_hash,
        "source": source.name if source else None, "source_checksum": SHA256 + source.sha256 if source else None,
    })  # fmt: skip


def _describe_lineage(raster: RasterItem, origin: Origin) -> str:
    source = raster.source
    made = f"Made from a file with the SHA-256 {source.sha256}" if source else "Made"
    workflow = f" of workflow {origin.workflow} (definition {origin.workflow_hash})" if origin.workflow else ""
    return f"{made} by job {origin.job_id}{workflow}."


def _by_asset(raster: RasterItem) -> dict[str, Output]:
    outputs = [output for output in raster.outputs if output.kind not in PARTS]
    keys = [output.asset or ASSETS.get(output.kind, output.kind) for output in outputs]
    if twice := [key for key, times in Counter(keys).items() if times > 1]:
        raise InputError(
            "catalog.asset_twice",
            f"item {raster.id} has two outputs for the asset {twice[0]}",
            remedy="Give one of them another asset key.",
        )
    return dict(zip(keys, outputs, strict=True))


def _build_asset(output: Output, raster: RasterItem) -> JsonObject:
    split_address(output.href)
    return {
        "href": output.href,
        "type": output.media_type,
        **_present({"title": output.title}),
        "roles": ROLES.get(output.kind, ["metadata"]),
        "file:size": output.size,
        "file:checksum": SHA256 + output.sha256,
        **({"bands": [_build_band(band) for band in raster.bands]} if output.kind in ("cog", "mosaic") else {}),
    }


def _build_band(band: Band) -> JsonObject:
    fields = _dump(band)
    return {f"raster:{name}" if name in RASTER_FIELDS else name: value for name, value in fields.items()}


def _default_name(item: str, asset: str, key: str) -> str:
    part = "" if asset == "data" else f".{asset}"
    return f"{item}{part}{PurePosixPath(key).suffix.lower()}"


def _dump(model: BaseModel) -> JsonObject:
    return model.model_dump(mode="json", exclude_none=True)


def _present(values: Mapping[str, Json]) -> JsonObject:
    return {name: value for name, value in values.items() if value is not None}
