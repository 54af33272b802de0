"""Writes items as stac-geoparquet, a batch at a time, and reads the file again."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from anabranch.canonical import canonical
from anabranch.errors import Permanent
from anabranch.plugins.stac.exports.columns import MAX_FIELDS, Column
from anabranch.plugins.stac.exports.snapshot import Document, Snapshot
from anabranch.plugins.stac.exports.static_catalog import JSON, collection_path
from anabranch.plugins.stac.ingest.sandbox_functions import SIDES, TOP_LEVEL

__all__ = ["verify_geoparquet", "write_geoparquet"]

VERSION, GEO_VERSION = "1.1.0", "1.1.0"
TIMES = ("datetime", "start_datetime", "end_datetime", "created", "updated", "published", "expires", "unpublished")
TIME = pa.timestamp("us", "UTC")
GEOMETRY, BBOX = "geometry", "bbox"
MAX_SHOWN = 20  # names in a warning


def write_geoparquet(snapshot: Snapshot, target: Path) -> list[str]:
    """Write a row for each item; returns warnings about what the columns can't hold as it is."""
    table = ItemTable()
    for document in snapshot:
        table.add(document)
    types: set[str] = set()
    with pq.ParquetWriter(target, table.schema, compression="zstd") as writer:
        for documents in snapshot.read_batches():
            if items := [each for each in documents if each["type"] == "Feature"]:
                writer.write_batch(table.build_batch(items, types))
        writer.add_key_value_metadata(
            {"geo": canonical(_describe_geometry(types)), "stac-geoparquet": table.describe()}
        )
    return table.warnings


def verify_geoparquet(path: Path, snapshot: Snapshot) -> None:
    """Refuse a file whose ids, geometries and boxes are not those of the items, in their order."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        metadata = file.metadata.metadata
        geo, stac = (json.loads(metadata[key]) for key in (b"geo", b"stac-geoparquet"))
        _compare(path, "metadata", (geo["version"], geo["primary_column"]), (GEO_VERSION, GEOMETRY))
        _compare(path, "collections", sorted(stac["collections"]), sorted(snapshot.collections))
        items = (document for document in snapshot if document["type"] == "Feature")
        for row, item in zip_longest(_read_rows(file), items):
            if row is None or item is None:
                raise _wrong(path, f"it has not as many rows as there are items ({snapshot.items})")
            _compare(path, "row", (row["collection"], row["id"]), (item["collection"], item["id"]))
            box = [row[BBOX][side] for side in SIDES if row[BBOX].get(side) is not None]
            _compare(path, f"bbox of {item['id']}", box, item[BBOX])
            shape = shapely.from_geojson(json.dumps(item[GEOMETRY]))
            _compare(path, f"geometry of {item['id']}", shapely.from_wkb(row[GEOMETRY]).wkt, shape.wkt)


def _read_rows(file: pq.ParquetFile) -> Iterator[dict[str, Any]]:
    for batch in file.iter_batches(1_000, columns=["id", "collection", GEOMETRY, BBOX], use_threads=False):
        yield from batch.to_pylist()


class ItemTable:
    """The columns of items, which are known once all items were added, and the collections beside them."""

    def __init__(self) -> None:
        """Without items."""
        self._known = [0]
        self._columns: dict[str, Column] = {}
        self._no_times: set[str] = set()
        self._left_out: dict[str, None] = {}
        self._has_heights = False
        self._collections: dict[str, Document] = {}

    def add(self, document: Document) -> None:
        """Look at the values of an item, or store a collection."""
        if document["type"] == "Collection":
            self._collections[document["id"]] = document
            return
        self._has_heights |= len(document[BBOX]) == len(SIDES)
        self._left_out |= dict.fromkeys(key for key in document["properties"] if key in TOP_LEVEL)
        for key, value in _flatten(document).items():
            if key not in self._columns and self._known[0] >= MAX_FIELDS:
                self._left_out[key] = None
                continue
            self._columns.setdefault(key, Column(self._known)).add(value)
            if key in TIMES and value is not None and _read_time(value) is None:
                self._no_times.add(key)

    @property
    def schema(self) -> pa.Schema:
        """The columns: those of the item itself, its geometry and box, and its properties."""
        box = pa.struct([(side, pa.float64()) for side in self._sides])
        plain = [(key, TIME if self._is_time(key) else column.type) for key, column in self._columns.items()]
        return pa.schema([*plain, (GEOMETRY, pa.binary()), (BBOX, box)])

    @property
    def warnings(self) -> list[str]:
        """What is not in the file as it is in the items."""
        texts = [name for key, column in self._columns.items() for name in column.find_texts(key)]
        found = {
            "values of several types, or too many keys, are JSON text in": texts,
            "times that can't be read are text in": sorted(self._no_times),
            "properties are left out that have the name of a field of an item, or are too many:": list(self._left_out),
        }
        return [f"{about} {', '.join(names[:MAX_SHOWN])}" for about, names in found.items() if names]

    @property
    def _sides(self) -> Sequence[str]:
        return SIDES if self._has_heights else [side for side in SIDES if side[0] != "z"]

    def _is_time(self, key: str) -> bool:
        return key in TIMES and key not in self._no_times

    def build_batch(self, items: Sequence[Document], types: set[str]) -> pa.RecordBatch:
        """The rows of some items that were added; their geometry types are added to `types`."""
        rows = [_flatten(item) for item in items]
        arrays = [self._build_array(key, [row.get(key) for row in rows]) for key in self._columns]
        shapes = shapely.from_geojson([json.dumps(item[GEOMETRY]) for item in items])
        types |= {f"{each.geom_type}{' Z' if each.has_z else ''}" for each in shapes}
        boxes = [dict(zip(_name_sides(item[BBOX]), item[BBOX], strict=True)) for item in items]
        wkb, box = pa.array(shapely.to_wkb(shapes), pa.binary()), pa.array(boxes, self.schema.field(BBOX).type)
        return pa.RecordBatch.from_arrays([*arrays, wkb, box], schema=self.schema)

    def _build_array(self, key: str, values: list[Any]) -> pa.Array:
        if self._is_time(key):
            return pa.array([None if value is None else _read_time(value) for value in values], TIME)
        return self._columns[key].convert(values)

    def describe(self) -> str:
        """What the file says of itself, with the collections of its items."""
        return canonical({"version": VERSION, "collections": self._collections})


def _flatten(item: Document) -> Document:
    """The values of an item by the names of their columns; its collection is found from the file's own folder."""
    own = {"rel": "collection", "href": f"./{collection_path(item['collection'])}", "type": JSON}
    plain = {key: item[key] for key in TOP_LEVEL if key in item and key not in (GEOMETRY, BBOX)}
    properties = {key: value for key, value in item["properties"].items() if key not in TOP_LEVEL}
    return {**plain, "links": [own, *item["links"]], **properties}


def _read_time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value).upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _name_sides(box: Sequence[float]) -> Iterable[str]:
    return SIDES if len(box) == len(SIDES) else [side for side in SIDES if side[0] != "z"]


def _describe_geometry(types: set[str]) -> Document:
    """What GeoParquet says of the geometry; without a CRS it is OGC:CRS84, longitude first."""
    sides = {side: [BBOX, side] for side in ("xmin", "ymin", "xmax", "ymax")}
    column = {"encoding": "WKB", "geometry_types": sorted(types), "covering": {"bbox": sides}}
    return {"version": GEO_VERSION, "primary_column": GEOMETRY, "columns": {GEOMETRY: column}}


def _compare(path: Path, what: str, found: object, expected: object) -> None:
    if found != expected:
        raise _wrong(path, f"{what}: {str(found)[:200]}, and not {str(expected)[:200]}")


def _wrong(path: Path, what: str) -> Permanent:
    return Permanent(f"{path.name} is wrong: {what}", code="export.wrong")
