"""The catalog: its items, and the addresses of what is published."""

from collections.abc import Sequence
from functools import partial
from urllib.parse import parse_qs, urlencode, urlsplit

from anabranch.client.calls import Call
from anabranch.client.paths import segment
from anabranch.contract.answer import JsonObject, Page, read
from anabranch.contract.catalog import Item, PublishedItem
from anabranch.errors import NotFound

__all__ = [
    "current_file_path", "download_path", "file_path", "item_path", "items_call", "items_path", "layer_path",
    "map_path", "published_path", "tile_path", "tilejson_path",
]  # fmt: skip

FILES = "/files/p/"
GRID = "WebMercatorQuad"
MAX_PAGE_ITEMS = 200


def items_call(
    collection: str | None, bbox: Sequence[float] | None, datetime: str | None, token: str | None
) -> Call[Page[Item]]:
    """The request for a page of items."""
    box = ",".join(map(str, bbox)) if bbox else None
    query = {"collections": collection, "bbox": box, "datetime": datetime, "token": token, "limit": MAX_PAGE_ITEMS}
    return Call(_read_page, "GET", "/stac/search", query=query)


def _read_page(raw: JsonObject) -> Page[Item]:
    following = (link["href"] for link in raw["links"] if link["rel"] == "next")
    tokens = (parse_qs(urlsplit(href).query).get("token", [None])[0] for href in following)
    return Page(tuple(map(partial(read, Item), raw["features"])), next(tokens, None))


def items_path(collection: str) -> str:
    """The path of the items of a collection."""
    return f"/stac/collections/{segment(collection)}/items"


def item_path(collection: str, item: str) -> str:
    """The path of an item."""
    return f"{items_path(collection)}/{segment(item)}"


def map_path(collection: str, item: str) -> str:
    """The path of the page with an item chosen."""
    return f"/data#{urlencode({'collection': collection, 'item': item})}"


def tilejson_path(collection: str, item: str) -> str:
    """The path of the TileJSON of an item's raster."""
    return f"/raster/collections/{segment(collection)}/items/{segment(item)}/{GRID}/tilejson.json"


def layer_path(collection: str) -> str:
    """The path of the tiles of all items of a collection, with {z}, {x} and {y}."""
    return f"/raster/collections/{segment(collection)}/tiles/{GRID}/{{z}}/{{x}}/{{y}}"


def tile_path(collection: str, item: str) -> str:
    """The path of the tiles of an item's raster, with {z}, {x} and {y}."""
    return f"/raster/collections/{segment(collection)}/items/{segment(item)}/tiles/{GRID}/{{z}}/{{x}}/{{y}}"


def published_path(collection: str, item: str, part: str = "") -> str:
    """The path of a published item, or of a part: its manifest, its history, or an action on it."""
    return f"/api/items/{segment(collection)}/{segment(item)}{part and f'/{part}'}"


def file_path(publication: str, name: str) -> str:
    """The path of a file of a publication, which never changes."""
    return f"/files/p/{segment(publication)}/{_segments(name)}"


def download_path(source: Item | PublishedItem | str, name: str) -> str:
    """The path of an asset of an item, by its name or that of its file; or of a file of a publication."""
    if isinstance(source, PublishedItem | str):
        return file_path(source if isinstance(source, str) else source.publication, name)
    if not isinstance(source, Item):  # as a notebook may pass it
        raise TypeError(f"give an item, or the id of a publication, not a {type(source).__name__}: {str(source)[:80]}")
    paths = {asset: urlsplit(str(about.get("href", ""))).path for asset, about in source.assets.items()}
    found = paths.get(name) or next((path for path in paths.values() if path.endswith(f"/{segment(name)}")), "")
    if FILES not in found:
        have = ", ".join(source.assets) or "none"
        raise NotFound("file.not_published", f"{source.id} has no asset {name!r}", remedy=f"Its assets: {have}.")
    return found[found.index(FILES) :]


def current_file_path(collection: str, item: str, name: str) -> str:
    """The path that leads to a file of an item as it is published now."""
    return f"/files/current/{segment(collection)}/{segment(item)}/{_segments(name)}"


def _segments(name: str) -> str:
    """The name of a file, which may have folders."""
    return "/".join(map(segment, name.split("/")))
