"""Writes a static STAC catalog: files with relative links, which need no server."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath

from anabranch.canonical import Json, JsonObject, canonical
from anabranch.plugins.stac.exports.snapshot import Document
from anabranch.plugins.stac.item import STAC_VERSION

__all__ = ["ITEMS_FILE", "JSON", "ROOT_FILE", "About", "collection_path", "media_type_of", "write_static_catalog"]

JSON, GEOJSON, PARQUET = "application/json", "application/geo+json", "application/vnd.apache.parquet"
ROOT_FILE, ITEMS_FILE = "catalog.json", "items.parquet"


@dataclass(frozen=True)
class About:
    """The fields of the catalog itself."""

    id: str
    description: str
    title: str | None = None


def collection_path(collection: str) -> str:
    """The path of a collection in the folder of the catalog."""
    return f"collections/{collection}/collection.json"


def media_type_of(name: str) -> str:
    """The media type of a file in the folder of the catalog."""
    return PARQUET if name == ITEMS_FILE else GEOJSON if PurePosixPath(name).parent.name == "items" else JSON


def write_static_catalog(documents: Iterable[Document], folder: Path, about: About) -> None:
    """Write a file for the catalog and one for each document; a collection comes before its items."""
    children = [
        _write_collection(next(group), group, folder)
        for _, group in groupby(documents, lambda document: document.get("collection", document["id"]))
    ]
    table = _link("alternate", f"./{ITEMS_FILE}", PARQUET, "All items as stac-geoparquet")
    catalog: JsonObject = {
        "type": "Catalog",
        "stac_version": STAC_VERSION,
        "id": about.id,
        **({"title": about.title} if about.title else {}),
        "description": about.description,
        "links": [_link("root", f"./{ROOT_FILE}", JSON), table, *children],
    }
    _write(folder / ROOT_FILE, catalog)


def _write_collection(collection: Document, items: Iterator[Document], folder: Path) -> Json:
    """Write a collection and its items; returns the link to it."""
    name = collection_path(collection["id"])
    path = folder / name
    (path.parent / "items").mkdir(parents=True)
    up = "../../" + ROOT_FILE
    links = [_link("root", up, JSON), _link("parent", up, JSON)]
    for item in items:
        title, file = item["properties"].get("title"), f"items/{item['id']}.json"
        _write(path.parent / file, {**item, "links": [*_item_links(), *item["links"]]})
        links.append(_link("item", f"./{file}", GEOJSON, title))
    _write(path, {**collection, "links": [*links, *collection["links"]]})
    return _link("child", f"./{name}", JSON, collection.get("title"))


def _item_links() -> list[Json]:
    own = "../collection.json"
    return [_link("root", "../../../" + ROOT_FILE, JSON), _link("parent", own, JSON), _link("collection", own, JSON)]


def _link(rel: str, href: str, media_type: str, title: str | None = None) -> Json:
    return {"rel": rel, "href": href, "type": media_type, **({"title": title} if title else {})}


def _write(path: Path, document: Document) -> None:
    path.write_text(canonical(document), encoding="utf-8")
