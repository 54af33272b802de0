"""STAC items and collections as others write them, for tests of what is ingested."""

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

__all__ = ["make_collection", "make_item", "write_items", "write_json", "write_ndjson"]

Document = dict[str, Any]


def make_item(item: str = "a", **changes: Any) -> Document:
    """A scene of one degree near Bonn, in the collection `scenes`."""
    made: Document = {
        "type": "Feature",
        "stac_version": "1.1.0",
        "stac_extensions": [],
        "id": item,
        "collection": "scenes",
        "geometry": {"type": "Polygon", "coordinates": [[[7, 50], [8, 50], [8, 51], [7, 51], [7, 50]]]},
        "bbox": [7, 50, 8, 51],
        "properties": {"datetime": "2024-05-01T10:30:00Z", "platform": "landsat-9"},
        "links": [{"rel": "root", "href": "./catalog.json"}, {"rel": "license", "href": "https://example.com/license"}],
        "assets": {"red": {"href": f"https://example.com/{item}.tif", "type": "image/tiff", "roles": ["data"]}},
    }
    return made | changes


def make_collection(collection: str = "scenes", **changes: Any) -> Document:
    """A collection with a title and a wrong extent."""
    made: Document = {
        "type": "Collection",
        "stac_version": "1.0.0",
        "id": collection,
        "title": "Scenes",
        "description": "Scenes of a satellite.",
        "license": "CC-BY-4.0",
        "extent": {"spatial": {"bbox": [[0, 0, 1, 1]]}, "temporal": {"interval": [["2000-01-01T00:00:00Z", None]]}},
        "links": [],
    }
    return made | changes


def write_json(path: Path, document: object) -> Path:
    """A file with a document; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))
    return path


def write_ndjson(path: Path, documents: Iterable[object]) -> Path:
    """A file with a document a line; text is written as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in documents))
    return path


def write_items(path: Path, items: Iterable[Document]) -> Path:
    """A stac-geoparquet file: properties are columns, the geometry is WKB, and the bbox a struct."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import shapely

    rows = []
    for item in items:
        top = {key: value for key, value in item.items() if key != "properties"}
        west, south, east, north = item["bbox"]
        box = {"xmin": west, "ymin": south, "xmax": east, "ymax": north}
        moment = datetime.fromisoformat(item["properties"]["datetime"])
        geometry = shapely.to_wkb(shapely.from_geojson(json.dumps(item["geometry"])))
        rows.append({**top, **item["properties"], "datetime": moment, "bbox": box, "geometry": geometry})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path
