"""Builds a STAC 1.1 item from the facts of what is published: a pure function (C1)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath

from pydantic import BaseModel

from anabranch.canonical import Json, JsonObject
from anabranch.contract.mosaic import DRAWN
from anabranch.errors import InputError
from anabranch.manifests.statement import Origin
from anabranch.plugins.stac.facts import Band, CatalogItem, Item, ItemFacts, Output, RasterItem, VectorItem
from anabranch.plugins.stac.names import check_collection_id, check_item_id, split_address

__all__ = [
    "COLLECTION_LINK", "EXTENSIONS", "ROWS_SHA256", "SHA256", "STAC_VERSION", "TABLE_ADDRESS", "TABLE_ASSET", "Origin",
    "PublishedOutput", "build_item", "find_outputs", "write_time",
]  # fmt: skip

STAC_VERSION = "1.1.0"
EXTENSIONS = {
    name: f"https://stac-extensions.github.io/{name}/v{version}/schema.json"
    for name, version in (
        ("projection", "2.0.0"), ("raster", "2.0.0"), ("file", "2.1.0"), ("processing", "1.2.0"), ("render", "2.0.0"),
        ("table", "1.2.0"),
    )
}  # fmt: skip
# A multihash of SHA-256: its code, its length in bytes, and the hash.
SHA256 = "1220"
# The schema requires it of an item in a collection; servers write their own links.
COLLECTION_LINK: JsonObject = {"rel": "collection", "href": "./collection.json", "type": "application/json"}
ASSETS = {"cog": "data", "mosaic": "data", "raster": "data"}
ROLES: Mapping[str, list[Json]] = {
    "cog": ["data"], "mosaic": ["data"], "raster": ["data"],
    "overview": ["overview"], "preview": ["overview"], "thumbnail": ["thumbnail"],
    "static_catalog": ["metadata"], "stac_geoparquet": ["stac-items"],
    "geoparquet": ["data"], "flatgeobuf": ["data"], "csv": ["data"], "pmtiles": ["visual"],
}  # fmt: skip
TABLE_ADDRESS = "geo://"
TABLE_ASSET = "data"
# Of the rows as they were copied: no file has this hash.
ROWS_SHA256 = "anabranch:rows_sha256"
TABLE_CRS = "EPSG:4326"
GEOMETRY_COLUMN = "geom"
# Published with an item, and listed by one of its assets rather than by itself.
PARTS = frozenset({"tile", "catalog_file"})
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
    sha256: str | None
    version: str | None = None


def build_item(collection: str, facts: Item, origin: Origin, version: str) -> JsonObject:
    """The item; the same facts give the same item, whenever it is built."""
    check_collection_id(collection)
    return {
        "type": "Feature",
        "stac_version": STAC_VERSION,
        "stac_extensions": [EXTENSIONS[name] for name in _find_extensions(facts)],
        "id": check_item_id(facts.id),
        "collection": collection,
        "geometry": facts.footprint.geometry,
        "bbox": list(facts.box),
        "properties": _describe(facts, origin, version),
        "links": [COLLECTION_LINK],
        "assets": {
            **({TABLE_ASSET: _build_table(facts)} if isinstance(facts, VectorItem) else {}),
            **{asset: _build_asset(output, facts) for asset, output in _by_asset(facts).items()},
        },
    }


def _find_extensions(facts: Item) -> list[str]:
    if isinstance(facts, CatalogItem):
        return ["file", "processing"]
    if isinstance(facts, VectorItem):
        return ["projection", "table", "file", "processing"]
    return ["projection", "raster", "file", "processing", *(["render"] if facts.renders else [])]


def find_outputs(facts: ItemFacts) -> list[PublishedOutput]:
    """The published objects of an item, with the names that readers fetch them by."""
    parts = {output.href: output for output in facts.outputs if output.kind in PARTS}
    return [
        PublishedOutput(
            output.name or _default_name(facts.id, asset, key), output.kind, tier, key,
            output.media_type, output.size, output.sha256, output.version,
        )
        for asset, output in (*_by_asset(facts).items(), *parts.items())
        for tier, key in [split_address(output.href)]
    ]  # fmt: skip


def write_time(moment: datetime) -> str:
    """A moment as STAC writes it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _describe(facts: Item, origin: Origin, version: str) -> JsonObject:
    texts = {"title": facts.title, "description": facts.description}
    return {
        **_present(texts),
        **_times(facts),
        **_present({"created": write_time(origin.created_at) if origin.created_at else None}),
        **_describe_content(facts),
        "processing:software": {"anabranch": version, **facts.software},
        "processing:lineage": _describe_lineage(facts, origin),
        "processing:expression": {"format": "anabranch", "expression": _provenance(facts, origin)},
    }


def _times(facts: ItemFacts) -> JsonObject:
    moments = {"start_datetime": facts.start_datetime, "end_datetime": facts.end_datetime}
    interval = {name: write_time(moment) for name, moment in moments.items() if moment}
    return {"datetime": write_time(facts.datetime) if facts.datetime else None, **interval}


def _describe_content(facts: Item) -> JsonObject:
    match facts:
        case CatalogItem():
            return {"anabranch:collections": [*facts.collections], "anabranch:items": facts.items}
        case VectorItem():
            return _describe_table(facts)
        case _:
            return _describe_raster(facts)


def _describe_raster(raster: RasterItem) -> JsonObject:
    return {
        **_present({"proj:code": raster.crs, "proj:projjson": raster.projjson}),
        "proj:shape": list(raster.shape),
        "proj:transform": list(raster.transform),
        "proj:bbox": list(raster.bounds),
        "anabranch:kind": raster.kind,
        **({"renders": {name: _dump(render) for name, render in raster.renders.items()}} if raster.renders else {}),
    }


def _describe_table(vector: VectorItem) -> JsonObject:
    table = vector.table
    return {
        "proj:code": TABLE_CRS,
        "table:columns": [_dump(column) for column in table.columns],
        "table:primary_geometry": GEOMETRY_COLUMN,
        "table:row_count": table.rows,
        "anabranch:geometry_type": table.geometry_type,
        "anabranch:layer": table.name,
        ROWS_SHA256: table.sha256,
    }


def _provenance(facts: ItemFacts, origin: Origin) -> JsonObject:
    source = facts.source
    digest = source.sha256 if source else None
    return _present({
        "job": origin.job_id, "workflow": origin.workflow, "workflow_hash": origin.workflow_hash,
        "source": source.name if source else None, "source_checksum": SHA256 + digest if digest else None,
    })  # fmt: skip


def _describe_lineage(facts: ItemFacts, origin: Origin) -> str:
    source = facts.source
    made = f"Made from a file with the SHA-256 {source.sha256}" if source and source.sha256 else "Made"
    workflow = f" of workflow {origin.workflow} (definition {origin.workflow_hash})" if origin.workflow else ""
    return f"{made} by job {origin.job_id}{workflow}."


def _by_asset(facts: ItemFacts) -> dict[str, Output]:
    outputs = [output for output in facts.outputs if output.kind not in PARTS]
    keys = [output.asset or ASSETS.get(output.kind, output.kind) for output in outputs]
    if twice := [key for key, times in Counter(keys).items() if times > 1]:
        raise InputError(
            "catalog.asset_twice",
            f"item {facts.id} has two outputs for the asset {twice[0]}",
            remedy="Give one of them another asset key.",
        )
    return dict(zip(keys, outputs, strict=True))


def _build_asset(output: Output, facts: ItemFacts) -> JsonObject:
    split_address(output.href)
    bands = facts.bands if isinstance(facts, RasterItem) and output.kind in ASSETS else []
    return {
        "href": output.href,
        "type": output.media_type,
        **_present({"title": output.title}),
        "roles": ROLES.get(output.kind, ["metadata"]),
        "file:size": output.size,
        **_present({"file:checksum": SHA256 + output.sha256 if output.sha256 else None}),
        **_present({DRAWN: output.drawn}),
        **({"bands": [_build_band(band) for band in bands]} if bands else {}),
    }


def _build_table(vector: VectorItem) -> JsonObject:
    """The asset of the table; servers turn its address into the URL of its features."""
    return {
        "href": f"{TABLE_ADDRESS}{vector.table.name}",
        "type": "application/geo+json",
        "title": f"The features of geo.{vector.table.name}",
        "roles": ["data"],
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
