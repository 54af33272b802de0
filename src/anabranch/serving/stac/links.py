"""Links from the catalog to its collections, its description and the tiles of its items."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import Request

from anabranch.contract.mosaic import DRAWN

if TYPE_CHECKING:
    from anabranch.serving.stac.pool import Catalog

__all__ = [
    "OPENAPI",
    "Document",
    "add_features",
    "add_layer",
    "add_predecessor",
    "add_tiles",
    "complete_landing",
    "root_of",
]

COLLECTIONS = Path(__file__).with_name("collections.sql").read_text()
MAX_CHILD_LINKS = 1_000  # the link `data` leads to all
OPENAPI = "application/vnd.oai.openapi+json;version=3.1"
GRID = "WebMercatorQuad"
RASTER = "image/tiff"
Document = dict[str, Any]  # STAC's own shape


def root_of(request: Request) -> str:
    """The URL of this API as the caller sees it; the catalog is below it."""
    return str(request.base_url).rstrip("/").removesuffix("/stac")


async def complete_landing(page: Document, request: Request, catalog: "Catalog") -> Document:
    """The landing page with the collections as children, and links to its descriptions for programs and people."""
    root, visible = root_of(request), await catalog.list_visible()
    async with request.app.state.get_connection(request, "r") as connection:
        found = await connection.fetch(COLLECTIONS, MAX_CHILD_LINKS, None if visible is None else list(visible))
    kept = [link for link in page["links"] if link["rel"] not in ("service-desc", "service-doc")]
    described = {"rel": "service-desc", "type": OPENAPI, "title": "OpenAPI description", "href": f"{root}/openapi.json"}
    explained = {"rel": "service-doc", "type": "text/html", "title": "Its routes", "href": f"{root}/docs"}
    children = [_child(root, row["id"], row["title"]) for row in found]
    return {**page, "links": [*kept, described, explained, *children]}


def add_tiles(item: Document, root: str) -> None:
    """Add the link to an item's tiles, where it has a raster that we serve and shows its links."""
    if _has_raster(item, root) and {"links", "id", "collection"} <= item.keys():
        _link_tiles(item, root, f"{quote(item['collection'])}/items/{quote(item['id'])}")


def add_features(item: Document, table: str, root: str) -> None:
    """Add the links to the layer of an item's table, and to its vector tiles."""
    if "links" in item:
        layer = f"{root}/features/collections/{quote(table)}"
        tiles = f"{layer}/tiles/{GRID}/tilejson.json"
        item["links"] += [
            {"rel": "alternate", "type": "application/json", "title": "OGC API Features", "href": layer},
            {"rel": "tilejson", "type": "application/json", "title": "Vector tiles", "href": tiles},
        ]


def add_layer(collection: Document, items: Iterable[Document], root: str) -> None:
    """Add the link to a collection's tiles, where one of these items of it has a raster that we serve."""
    if any(_has_raster(item, root) for item in items):
        _link_tiles(collection, root, quote(collection["id"]))


def _has_raster(item: Document, root: str) -> bool:
    ours = [each for each in (item.get("assets") or {}).values() if str(each.get("href", "")).startswith(f"{root}/")]
    drawn = (asset for asset in ours if asset.get(DRAWN) is not False)
    return RASTER in {str(asset.get("type", "")).partition(";")[0] for asset in drawn}


def _link_tiles(document: Document, root: str, path: str) -> None:
    href = f"{root}/raster/collections/{path}/{GRID}/tilejson.json"
    document["links"].append({"rel": "tilejson", "type": "application/json", "title": "Tiles", "href": href})


def add_predecessor(item: Document, number: int | None, root: str) -> None:
    """Add the link to the former publication of an item, if it can still be read."""
    if number is None or not {"links", "id", "collection"} <= item.keys():
        return
    path = f"/api/items/{quote(item['collection'])}/{quote(item['id'])}/publications/{number}"
    link = {"rel": "predecessor-version", "type": "application/geo+json", "title": f"Number {number}"}
    item["links"].append({**link, "href": f"{root}{path}"})


def _child(root: str, collection: str, title: str | None) -> Document:
    about = {"rel": "child", "type": "application/json", "href": f"{root}/stac/collections/{quote(collection)}"}
    return {**about, "title": title or collection}
