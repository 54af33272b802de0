"""The catalog, rasters and layers in the document: what packages of others describe, completed by what we know."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from anabranch.access import Scope
from anabranch.api.openapi.declare import BODY_CODES, JOB_CODES, Schema, problems

__all__ = ["describe_features", "describe_raster", "describe_stac"]


class Mounted(NamedTuple):
    """An operation of a mounted application."""

    operation_id: str
    about: str
    codes: tuple[str, ...] = ()
    scope: Scope = Scope.READ


def _describe_item(prefix: str, name: str, which: str, *codes: str, scope: Scope = Scope.READ) -> dict[str, Mounted]:
    outside = (*codes, "raster.outside")
    return {
        f"get {prefix}/info": Mounted(f"show_{name}raster", f"Size, bands and bounds of {which}.", codes, scope),
        f"get {prefix}/info.geojson": Mounted(
            f"show_{name}raster_as_feature", f"The same of {which} as a GeoJSON feature.", codes, scope
        ),
        f"get {prefix}/statistics": Mounted(
            f"measure_{name}raster", f"Statistics of each band of {which}.", codes, scope
        ),
        f"get {prefix}/{TILE}.{{format}}": Mounted(
            f"draw_{name}tile_as", f"A map tile of {which}, in a format.", outside, scope
        ),
        f"get {prefix}/{TILE}": Mounted(
            f"draw_{name}tile", f"A map tile of {which}, in PNG where it needs transparency.", outside, scope
        ),
        f"get {prefix}/{{tileMatrixSetId}}/tilejson.json": Mounted(
            f"show_{name}tilejson", f"The tiles of {which}, for maps.", codes, scope
        ),
        f"get {prefix}/point/{{lon}},{{lat}}": Mounted(
            f"read_{name}point", f"The values of {which} at a point.", outside, scope
        ),
        f"get {prefix}/preview": Mounted(f"draw_{name}preview", f"All of {which} as a small image.", codes, scope),
        f"get {prefix}/preview.{{format}}": Mounted(
            f"draw_{name}preview_as", f"The same of {which} in a format.", codes, scope
        ),
        f"get {prefix}/preview/{{width}}x{{height}}.{{format}}": Mounted(
            f"draw_{name}preview_sized", f"The same of {which} in a size.", codes, scope
        ),
    }


def _describe_layer(prefix: str, name: str, which: str, *codes: str) -> dict[str, Mounted]:
    tile, codes = f"get {prefix}/{TILE}", ("raster.outside", *codes)
    drawn = (*codes, "raster.assets")
    return {
        f"{tile}.{{format}}": Mounted(f"draw_{name}_tile_as", f"A map tile of {which}, in a format.", drawn),
        tile: Mounted(f"draw_{name}_tile", f"A map tile of {which}, the newest on top.", drawn),
        f"get {prefix}/{{tileMatrixSetId}}/tilejson.json": Mounted(
            f"show_{name}_tilejson", f"The tiles of {which} as one layer, for maps.", codes
        ),
        f"get {prefix}/point/{{lon}},{{lat}}": Mounted(
            f"read_{name}_point", f"The values at a point, of the newest of {which} that has some.", drawn
        ),
    }


CATALOG_CODES = ("catalog.query", "catalog.refused", "catalog.missing", "catalog.slow", "serving.not_installed")
RASTER_CODES = (
    *("item.not_found", "item.no_raster", "asset.unreadable", "file.gone", "file.lost"),
    *("raster.query", "raster.size", "raster.slow", "serving.drivers"),
    *("catalog.missing", "catalog.slow", "serving.not_installed"),
)
COLLECTION = "/collections/{collection_id}"
ITEM = "/collections/{collection_id}/items/{item_id}"
REVISION = f"{ITEM}/publications/{{number}}"
DRAFT = "/previews/{job_id}/items/{item_id}"
DRAFT_CODES = (*JOB_CODES, "preview.not_found", "preview.item")
TILE = "tiles/{tileMatrixSetId}/{z}/{x}/{y}"
STAC = {
    "get /": Mounted("show_catalog", "The landing page of the catalog, with links to all collections."),
    "get /conformance": Mounted(
        "list_conformance_classes", "The classes of the STAC API that the catalog conforms to."
    ),
    "get /search": Mounted("search_items", "Items by area, time, collection, properties or a CQL2 filter."),
    "post /search": Mounted("search_items_by_body", "The same; the search is in the body.", BODY_CODES),
    "get /collections": Mounted("list_collections", "Collections, or those that match a search."),
    f"get {COLLECTION}": Mounted("show_collection", "A collection.", ("item.not_found",)),
    f"get {COLLECTION}/items": Mounted(
        "list_items", "The items of a collection, or those that match a search.", ("item.not_found",)
    ),
    f"get {ITEM}": Mounted("show_item", "An item; the links of its assets can be fetched.", ("item.not_found",)),
    "get /queryables": Mounted("list_queryables", "What a filter may name in any collection, as JSON Schema."),
    f"get {COLLECTION}/queryables": Mounted(
        "list_collection_queryables", "What a filter may name in a collection.", ("item.not_found",)
    ),
}
RASTER = {
    **_describe_item(ITEM, "", "an item's raster"),
    **_describe_item(REVISION, "revision_", "an item's raster as a publication showed it", "publication.not_found"),
    **_describe_item(DRAFT, "draft_", "a raster that waits for a review", *DRAFT_CODES, scope=Scope.OPERATE),
    **_describe_layer(COLLECTION, "collection", "the items of a collection"),
    **_describe_layer("/search", "search", "the items that a search finds", "catalog.query"),
}
LAYER = "/collections/{collectionId}"
FEATURES_CODES = ("features.query", "features.slow", "catalog.missing", "serving.not_installed")
LAYER_CODES = ("layer.not_found", "features.changing")
FEATURES = {
    "get /": Mounted("show_features", "The landing page of the published vector layers."),
    "get /conformance": Mounted(
        "list_features_conformance", "The classes of OGC API Features, CQL2 and OGC API Tiles that are conformed to."
    ),
    "get /collections": Mounted("list_layers", "The published vector layers."),
    f"get {LAYER}": Mounted("show_layer", "A layer: what and where it is.", LAYER_CODES),
    f"get {LAYER}/queryables": Mounted("list_layer_queryables", "What a filter may name in a layer.", LAYER_CODES),
    f"get {LAYER}/items": Mounted(
        "list_features",
        "Features of a layer. A parameter with the name of a column chooses those with that value.",
        (*LAYER_CODES, "features.size"),
    ),
    f"get {LAYER}/items/{{featureId}}": Mounted(
        "show_feature", "A feature.", (*LAYER_CODES, "feature.not_found", "features.size")
    ),
    f"get {LAYER}/tiles": Mounted("list_layer_tilesets", "The tilesets of a layer.", LAYER_CODES),
    f"get {LAYER}/tiles/{{tileMatrixSetId}}": Mounted("show_layer_tileset", "A tileset of a layer.", LAYER_CODES),
    f"get {LAYER}/tiles/{{tileMatrixSetId}}/tilejson.json": Mounted(
        "show_layer_tilejson", "The vector tiles of a layer, for maps.", LAYER_CODES
    ),
    f"get {LAYER}/tiles/{{tileMatrixSetId}}/{{z}}/{{x}}/{{y}}": Mounted(
        "draw_vector_tile", "A vector tile (MVT) of a layer.", (*LAYER_CODES, "features.tile")
    ),
    "get /tileMatrixSets": Mounted("list_tile_matrix_sets", "The grids of vector tiles."),
    "get /tileMatrixSets/{tileMatrixSetId}": Mounted("show_tile_matrix_set", "A grid of vector tiles."),
}
OGC_DOCUMENTS = {
    "FeatureQueryables": "A JSON Schema whose properties are what a filter may name.",
    "FeatureTileMatrixSet": "A tile matrix set of OGC.",
    "FeatureTileMatrixSetList": "Links to tile matrix sets.",
    "FeatureTileSet": "The metadata of a tileset of OGC API Tiles.",
    "FeatureTileSetList": "Links to tilesets.",
}
SCHEMAS = Path(__file__).with_name("catalog.yaml")
SCHEMA_REFERENCE = re.compile(r"#/components/schemas/([A-Za-z0-9._-]+)")


def describe_stac() -> Schema:
    """The part of the document under `/stac`."""
    from anabranch.serving.stac.api import describe_stac as describe

    described = _complete(describe(), "/stac", "catalog", STAC, CATALOG_CODES)
    described["paths"]["/stac/search"]["post"]["requestBody"]["required"] = False  # none is a search for all
    described["components"]["schemas"] = yaml.safe_load(SCHEMAS.read_text())
    return described


def describe_raster() -> Schema:
    """The part of the document under `/raster`."""
    from anabranch.serving.tiles.routes import describe_raster as describe

    return _complete(describe(), "/raster", "rasters", RASTER, RASTER_CODES)


def describe_features() -> Schema:
    """The part of the document under `/features`."""
    from anabranch.serving.features.api import describe_features as describe

    described = _complete(describe(), "/features", "features", FEATURES, FEATURES_CODES)
    for operation in (operation for path in described["paths"].values() for operation in path.values()):
        operation["responses"]["200"]["content"].pop("text/html", None)  # of tipg, which we leave out
    schemas = described["components"]["schemas"]
    for name, about in OGC_DOCUMENTS.items():  # which OGC defines, in many pages
        schemas[name] = {"type": "object", "description": about}
    used, found = set[str](), set(SCHEMA_REFERENCE.findall(json.dumps(described["paths"])))
    while found - used:
        used |= found
        found = set(SCHEMA_REFERENCE.findall(json.dumps([schemas[name] for name in used & schemas.keys()])))
    described["components"]["schemas"] = {name: schema for name, schema in schemas.items() if name in used}
    return described


def _complete(given: Schema, root: str, tag: str, known: dict[str, Mounted], codes: tuple[str, ...]) -> Schema:
    document = _rename(given, tag)
    paths: Schema = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            mounted = known[f"{method} {path}"]
            all_codes = (*codes, *mounted.codes, *(("request.route",) if "{" in path else ()))
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path" and "anyOf" in parameter["schema"]:
                    parameter["schema"] = parameter["schema"]["anyOf"][0]  # the other is null, which no path can have
            responses = {status: response for status, response in operation["responses"].items() if status != "422"}
            operation |= {
                "tags": [tag],
                "operationId": mounted.operation_id,
                "summary": mounted.operation_id.replace("_", " ").capitalize(),
                "description": mounted.about,
                "responses": responses | {str(k): v for k, v in problems(*all_codes).items()},
                "security": [{"key": [mounted.scope.value]}],
            }
            paths.setdefault(root + path.rstrip("/"), {})[method] = operation
    return {"paths": paths, "components": document["components"]}


def _rename(given: Schema, tag: str) -> Schema:
    """A description whose schemas have names of their own, without those of errors."""
    prefix = tag.removesuffix("s").capitalize()

    def name(old: str) -> str:
        return prefix + "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", old))

    text = SCHEMA_REFERENCE.sub(lambda found: f"#/components/schemas/{name(found[1])}", json.dumps(given))
    document: Schema = _simplify(json.loads(text))
    schemas = document["components"]["schemas"]
    document["components"] = {
        "schemas": {
            name(old): schema
            for old, schema in schemas.items()
            if old not in ("HTTPValidationError", "ValidationError")
        }
    }
    return document


def _simplify(part: Any) -> Any:  # JSON in, JSON out
    """A schema with sorted enums and choices, and with lists for tuples, which few generators know.

    The order of choices depends on which equal union Python's typing has met first.
    """
    if isinstance(part, list):
        return [_simplify(one) for one in part]
    if not isinstance(part, dict):
        return part
    simple = {key: sorted(value) if key == "enum" else _simplify(value) for key, value in part.items()}
    if kinds := simple.pop("prefixItems", None):
        simple["items"] = kinds[0] if all(kind == kinds[0] for kind in kinds) else {"anyOf": kinds}
    if choices := simple.get("anyOf"):
        simple["anyOf"] = sorted(choices, key=lambda one: (one.get("type") == "null", json.dumps(one, sort_keys=True)))
    return simple
