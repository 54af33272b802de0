"""GeoParquet, read by pyarrow: pyogrio's GDAL has no driver for it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyproj
import shapely
from pyarrow import parquet
from pydantic import BaseModel, ConfigDict, ValidationError

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import Notes, ReadBatches, ReadOptions, SourceBatch, SourceLayer
from anabranch.plugins.vector.reading.batches import check_count, make_unique
from anabranch.plugins.vector.reading.choose import check_name
from anabranch.plugins.vector.reading.curves import simplify_types
from anabranch.plugins.vector.reading.drivers import batch_bytes
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.redaction import show_text

__all__ = ["open_parquet"]

DEFAULT_CRS = "OGC:CRS84"
MAX_FOOTER_BYTES = 64 * 2**20
BUFFER_BYTES = 2**20
INDEX_BYTES = 8  # more than a place in a dictionary takes
_SPHERICAL = "Edges are lines on the sphere in this file; they are published as straight lines."
_OTHERS = "Only the geometries of {first} are published; those of other columns are left out: {names}."


class _GeoColumn(BaseModel):
    """A geometry column in the metadata of GeoParquet."""

    model_config = ConfigDict(extra="ignore")
    encoding: str = "WKB"
    crs: dict[str, object] | str | None = DEFAULT_CRS
    edges: str = "planar"
    covering: dict[str, dict[str, tuple[str, ...]]] = {}


class _Geo(BaseModel):
    """The metadata of GeoParquet."""

    model_config = ConfigDict(extra="ignore")
    primary_column: str
    columns: dict[str, _GeoColumn]


@dataclass(frozen=True)
class _ParquetFile:
    """A file whose metadata are understood."""

    path: Path
    geo: _Geo
    schema: pa.Schema
    names: list[str]  # of columns, as the file has them
    kept: list[int]  # the places of attributes among the columns that are read
    bytes_per_row: float
    repeated: list[str]  # columns of text or bytes whose values are stored once, and may be repeated by each row


def open_parquet(path: Path, options: ReadOptions, settings: VectorSettings) -> tuple[SourceLayer, ...]:
    """The layer of a GeoParquet file, with its primary geometry column."""
    check_name(path.name, options.layer, [path.stem])
    file, features = _inspect(path, settings)
    column = file.geo.columns[file.geo.primary_column]
    changed = Notes()
    notices = [_SPHERICAL] if column.edges == "spherical" else []
    if others := sorted(set(file.geo.columns) - {file.geo.primary_column}):
        names = ", ".join(show_text(name) for name in others)
        notices.append(_OTHERS.format(first=show_text(file.geo.primary_column), names=names))
    layer = SourceLayer(
        name=path.stem,
        format="GeoParquet",
        schema=file.schema,
        crs=_read_crs(path.name, column),
        read=_Reader(file, features, changed, settings),
        crs_found="file" if "crs" in column.model_fields_set else "format",
        features=features,
        warnings=tuple(notices),
        changed=changed,
    )
    return (layer,)


def _inspect(path: Path, settings: VectorSettings) -> tuple[_ParquetFile, int]:
    with _Opened(path) as source:
        metadata = source.metadata
        geo = _read_geo(path.name, metadata.metadata or {})
        schema = source.schema_arrow
        left_out = set(geo.columns) | _coverings(geo)
        names = [name for name in schema.names if name not in left_out or name == geo.primary_column]
        # Columns come in the order in which they are asked for, those of one name together.
        order = sorted(range(len(names)), key=lambda place: names.index(names[place]))
        kept = [order.index(place) for place, name in enumerate(names) if name not in left_out]
        _check(path.name, schema, geo, len(kept), settings)
        size = sum(metadata.row_group(place).total_byte_size for place in range(metadata.num_row_groups))
        fields = [field for field in schema if field.name not in left_out]
        unique = make_unique([field.name for field in fields])
        named = [field.with_name(name) for name, field in zip(unique, fields, strict=True)]
        rows = metadata.num_rows
        repeated = [name for name in names if names.count(name) == 1 and _is_repeated(metadata, schema, name)]
    return _ParquetFile(path, geo, pa.schema(named), names, kept, size / max(1, rows), repeated), rows


def _is_repeated(metadata: parquet.FileMetaData, schema: pa.Schema, name: str) -> bool:
    kind = schema.field(name).type
    if kind not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return False
    place = next(number for number in range(metadata.num_columns) if metadata.schema.column(number).path == name)
    groups = (metadata.row_group(group).column(place) for group in range(metadata.num_row_groups))
    return any(group.has_dictionary_page and _is_mostly_dictionary(group) for group in groups)


def _is_mostly_dictionary(group: parquet.ColumnChunkMetaData) -> bool:
    """Whether rows refer to values in the dictionary: writers also begin one for columns whose values all differ."""
    dictionary = group.data_page_offset - (group.dictionary_page_offset or group.data_page_offset)
    few_bytes: bool = group.total_uncompressed_size < INDEX_BYTES * group.num_values
    return few_bytes or bool(dictionary * 4 > group.total_compressed_size)


def _check(name: str, schema: pa.Schema, geo: _Geo, columns: int, settings: VectorSettings) -> None:
    if geo.primary_column not in schema.names or geo.primary_column not in geo.columns:
        raise _no_geometry(name, f"its primary column {show_text(geo.primary_column)!r} is not there")
    if schema.names.count(geo.primary_column) > 1:
        raise Permanent(
            f"{name} has two columns with the name of its geometries, {show_text(geo.primary_column)!r}",
            code="vector.damaged",
            remedy="Rename one of them, and write the file again.",
        )
    if columns > settings.vector_max_columns:
        raise Permanent(
            f"{name} has {columns:,} columns, over the limit of {settings.vector_max_columns:,}",
            code="vector.columns",
            remedy="Remove columns, or ask the operator to raise ANABRANCH_VECTOR_MAX_COLUMNS.",
        )


def _coverings(geo: _Geo) -> set[str]:
    """The columns with the bounds of each row, which only help readers to skip some."""
    paths = [path for column in geo.columns.values() for box in column.covering.values() for path in box.values()]
    return {path[0] for path in paths if path}


def _read_geo(name: str, metadata: dict[bytes, bytes]) -> _Geo:
    if b"geo" not in metadata:
        raise _no_geometry(name, "it has no GeoParquet metadata")
    try:
        return _Geo.model_validate_json(metadata[b"geo"])
    except ValidationError as error:
        raise _no_geometry(name, f"its GeoParquet metadata are wrong: {error.errors()[0]['msg']}") from error


def _no_geometry(name: str, reason: str) -> Permanent:
    return Permanent(
        f"{name} is a Parquet file without geometries: {reason}",
        code="vector.no_geometry",
        remedy="Write it as GeoParquet, for example with geopandas' `to_parquet`.",
    )


def _read_crs(name: str, column: _GeoColumn) -> str | None:
    """The CRS as WKT; none where the file says that it is unknown."""
    if not isinstance(column.crs, dict):
        return column.crs
    try:
        return pyproj.CRS.from_json_dict(column.crs).to_wkt()
    except pyproj.exceptions.CRSError as error:
        raise Permanent(
            f"the CRS of {name} can't be read: {show_text(json.dumps(column.crs))}",
            code="vector.damaged",
            remedy="Give its code as `crs` after writing the file again without one.",
        ) from error


class _Opened:
    """An open Parquet file, whose errors are ours; pages are read one by one."""

    def __init__(self, path: Path, repeated: Sequence[str] = ()) -> None:
        self._path = path
        self._repeated = list(repeated)

    def __enter__(self) -> parquet.ParquetFile:
        try:
            self._file = parquet.ParquetFile(
                self._path,
                pre_buffer=False,
                buffer_size=BUFFER_BYTES,
                thrift_string_size_limit=MAX_FOOTER_BYTES,
                read_dictionary=self._repeated,
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._explain(error) from error
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._file.close()
        if isinstance(error, (pa.ArrowException, OSError)):
            raise self._explain(error) from error

    def _explain(self, error: BaseException) -> Permanent:
        lines = str(error).splitlines() or ["it is damaged"]
        return Permanent(
            f"{self._path.name} can't be read as Parquet: {lines[0]}",
            code="vector.damaged",
            remedy="Upload it again; open it elsewhere to check that it is complete.",
        )


class _Reader(ReadBatches):
    """Reads a file by batches that fit in memory."""

    def __init__(self, file: _ParquetFile, rows: int, changed: Notes, settings: VectorSettings) -> None:
        self._file = file
        self._rows = rows
        self._changed = changed
        self._bytes = batch_bytes(settings.vector_memory_mb)
        self._most = max(1, int(self._bytes / max(1.0, file.bytes_per_row)))

    def __call__(self, max_rows: int, dropped: Notes) -> Iterator[SourceBatch]:
        done, geo = 0, self._file.geo
        encoding = geo.columns[geo.primary_column].encoding
        with _Opened(self._file.path, self._file.repeated) as source:
            batches = source.iter_batches(
                min(max_rows, self._most), columns=list(dict.fromkeys(self._file.names)), use_threads=False
            )
            for batch in (part for whole in batches for part in _split(whole, self._bytes)):
                rows = np.arange(done + 1, done + 1 + len(batch), dtype=np.int64)
                geometry = _as_wkb(_decode(batch.column(geo.primary_column)), encoding)
                columns = [_decode(batch.column(place)) for place in self._file.kept]
                attributes = pa.RecordBatch.from_arrays(columns, schema=self._file.schema)
                yield SourceBatch(rows, attributes, simplify_types(geometry, rows, self._changed))
                done += len(batch)
        check_count(self._file.path.name, self._rows, done)


def _split(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """The batch in parts of so many bytes: a value that is stored once may be that of every row."""
    sizes = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
            sizes += pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False)
    totals, start = np.cumsum(sizes), 0
    while start < len(batch):
        before = int(totals[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(totals, before + most, side="right")))
        yield batch.slice(start, end - start)
        start = end


def _decode(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _as_wkb(column: pa.Array, encoding: str) -> pa.Array:
    """Geometries in WKB, from WKB or from one of the encodings of GeoArrow."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if encoding == "WKB":
        return column.cast(pa.binary())
    geometries = _from_arrow(column, encoding)
    return pa.array(shapely.to_wkb(geometries, flavor="iso"), pa.binary())


_AXES = ("x", "y", "z")
_LEVELS = {"point": 0, "linestring": 1, "multipoint": 1, "polygon": 2, "multilinestring": 2, "multipolygon": 3}
_KINDS = {
    "point": shapely.GeometryType.POINT,
    "linestring": shapely.GeometryType.LINESTRING,
    "multipoint": shapely.GeometryType.MULTIPOINT,
    "polygon": shapely.GeometryType.POLYGON,
    "multilinestring": shapely.GeometryType.MULTILINESTRING,
    "multipolygon": shapely.GeometryType.MULTIPOLYGON,
}


def _from_arrow(column: pa.Array, encoding: str) -> "np.ndarray[tuple[int], np.dtype[np.object_]]":
    if encoding not in _LEVELS:
        raise pa.ArrowInvalid(f"geometries are encoded as {show_text(encoding)}")
    present = column.drop_null()
    offsets, values = [], present
    for _ in range(_LEVELS[encoding]):
        if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
            raise pa.ArrowInvalid(f"geometries of the encoding {encoding} are not lists")
        starts = values.offsets.to_numpy()
        offsets.append(starts - starts[0])
        values = values.flatten()
    names = [field.name for field in values.type if field.name in _AXES] if pa.types.is_struct(values.type) else []
    if not {"x", "y"} <= set(names):
        raise pa.ArrowInvalid(f"geometries of the encoding {encoding} are not pairs of x and y")
    coordinates = np.column_stack([values.field(name).to_numpy(zero_copy_only=False) for name in names])
    made = shapely.from_ragged_array(_KINDS[encoding], coordinates, tuple(reversed(offsets)))
    geometries = np.full(len(column), None, dtype=object)
    geometries[column.is_valid().to_numpy(zero_copy_only=False)] = made
    return geometries
