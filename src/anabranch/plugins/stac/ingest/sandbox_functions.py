"""Reads stac-geoparquet, in the sandbox: items with their properties as columns, and WKB for geometries."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from anabranch.errors import Permanent
from anabranch.geo.wkb_depth import is_too_deep
from anabranch.plugins.stac.item import write_time

__all__ = ["warm_up", "write_items"]

BATCH_ROWS = 200
TOP_LEVEL = ("type", "stac_version", "stac_extensions", "id", "collection", "geometry", "bbox", "links", "assets")
SIDES = ("xmin", "ymin", "zmin", "xmax", "ymax", "zmax")
METADATA_KEYS = (b"stac-geoparquet", b"stac:collections")
UNREADABLE = (
    pa.ArrowException, OSError, ValueError, TypeError, RecursionError, NotImplementedError, shapely.errors.ShapelyError
)  # fmt: skip
Row = dict[str, Any]  # of a file's own columns
Progress = Callable[[float, float | None, str], None]


def warm_up() -> None:
    """Keep all work in this thread, on which the restrictions are."""
    pa.set_cpu_count(1)


def write_items(source: str, target: str, max_items: int, progress: Progress) -> int:
    """Write a line of JSON for each row, and for each collection in the file's metadata; returns their number."""
    try:
        with pq.ParquetFile(source, memory_map=False, pre_buffer=False) as file, open(target, "wb") as lines:  # noqa: PTH123
            _check(file, max_items)
            return _write(file, lines, progress)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise _unreadable(str(error)) from error


def _unreadable(reason: str) -> Permanent:
    what, remedy = (
        f"this is no GeoParquet file of STAC items: {reason[:300]}",
        "Write it with stac-geoparquet or rustac.",
    )
    return Permanent(what, code="ingest.unreadable", remedy=remedy)


def _check(file: pq.ParquetFile, max_items: int) -> None:
    rows, missing = file.metadata.num_rows, {"id", "geometry", "assets"} - set(file.schema_arrow.names)
    if rows > max_items:
        remedy = "Ingest parts of it, or raise `stac_max_items`."
        what = f"the file has {rows} items; at most {max_items} are read"
        raise Permanent(what, code="ingest.too_many", remedy=remedy)
    if missing:
        raise _unreadable(f"it has no column {min(missing)}")


def _write(file: pq.ParquetFile, lines: BinaryIO, progress: Progress) -> int:
    written = 0
    for collection in _find_collections(file.schema_arrow.metadata or {}):
        lines.write(_encode(collection))
        written += 1
    for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
        for row in batch.to_pylist():
            lines.write(_encode(_build_item(row)))
            written += 1
        progress(written, file.metadata.num_rows, "rows")
    return written


def _find_collections(metadata: dict[bytes, bytes]) -> Iterator[Row]:
    """The collections that a writer put beside the items."""
    for key in METADATA_KEYS:
        found = json.loads(metadata.get(key, b"{}"))
        listed = found.get("collections", found) if isinstance(found, dict) else {}
        values = [*listed.values()] if isinstance(listed, dict) else listed if isinstance(listed, list) else []
        if isinstance(found, dict) and "collection" in found:
            values.append(found["collection"])
        yield from (value for value in values if isinstance(value, dict) and value.get("type") == "Collection")


def _build_item(row: Row) -> Row:
    """The item of a row: what is not of an item itself is one of its properties."""
    item: Row = {
        "type": "Feature",
        "links": [],
        **{key: _plain(row[key]) for key in TOP_LEVEL if row.get(key) is not None},
    }
    properties = {key: _plain(value) for key, value in row.items() if key not in TOP_LEVEL and value is not None}
    item["properties"] = {"datetime": None, **properties}
    item["geometry"] = _geometry(row.get("geometry"))
    if isinstance(box := row.get("bbox"), dict):
        item["bbox"] = [box[side] for side in SIDES if box.get(side) is not None]
    return item


def _plain(value: Any) -> Any:  # any value of Arrow's, as JSON
    """A value as JSON, without nulls: a column of structs has every key in every row."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        pairs = value and all(isinstance(each, tuple) for each in value)  # how Arrow returns a map
        return _plain(dict(value)) if pairs else [_plain(each) for each in value]
    if isinstance(value, datetime):
        return write_time(value if value.tzinfo else value.replace(tzinfo=UTC))
    if isinstance(value, date):
        return value.isoformat()
    return _geometry(value) if isinstance(value, bytes) else value


def _geometry(value: Any) -> Any:  # GeoJSON
    """GeoJSON of WKB, or of text that is GeoJSON already."""
    if isinstance(value, bytes):
        if is_too_deep(value):
            raise _unreadable("the collections of a geometry are nested too deep")
        return json.loads(shapely.to_geojson(shapely.from_wkb(value)))
    return _plain(value)


def _encode(value: Row) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode() + b"\n"
