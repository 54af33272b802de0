"""What the parts of the vector plugin pass to each other: options, layers, columns, reports."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from pydantic import Field

from anabranch.strict_model import StrictModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from anabranch.plugins.vector.cleaning.plain_points import PlainPoints

    Rows = npt.NDArray[np.int64]
    Geometries = npt.NDArray[np.object_]

__all__ = [
    "MAX_SAMPLES", "AppendTarget", "Bounds", "CleanBatch", "CleanedTable", "Column", "ColumnType", "Converted", "Count",
    "CrsReport", "Family", "GeometryType", "LayerReport", "Notes", "PartRows", "ReadBatches", "ReadOptions", "Sample",
    "SourceBatch", "SourceLayer", "TableKey", "TableRows", "TableShape", "WrittenChunk",
]  # fmt: skip

MAX_SAMPLES = 5
MAX_TEXT_CHARS = 200
GeometryType = Literal["Point", "MultiPoint", "MultiLineString", "MultiPolygon"]
Bounds = tuple[float, float, float, float]
TableKey = Annotated[str, Field(pattern=r"^layer[0-9]{1,5}-(point|line|polygon)$", description="A table of a file.")]


class Family(StrEnum):
    """The dimension of geometries: those of a table are of one."""

    POINT = "point"
    LINE = "line"
    POLYGON = "polygon"


class ColumnType(StrEnum):
    """The type of a column, as PostgreSQL writes it."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    BIGINT = "bigint"
    REAL = "real"
    DOUBLE = "double precision"
    NUMERIC = "numeric"
    TEXT = "text"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    JSONB = "jsonb"
    BYTEA = "bytea"


class Column(StrictModel):
    """A column of a published table: its name, and the one that it has in the source."""

    name: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]
    type: ColumnType
    source: str


class ReadOptions(StrictModel):
    """What a caller says of a file; what is not said is detected."""

    layer: str | None = None
    crs: str | None = None
    lat: str | None = None
    lon: str | None = None
    wkt: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    keep_z: bool = False


class Sample(StrictModel):
    """One row that something happened to: its number in the source, from 1, or its line where it has one."""

    row: int
    what: str = ""


class Count(StrictModel):
    """How many rows something happened to, with a few of them."""

    count: int
    samples: tuple[Sample, ...] = ()


class CrsReport(StrictModel):
    """The source's CRS, where that was found, and the operation that led to EPSG:4326."""

    source: str
    found: str = Field(description="file, caller, format, columns or values: what it was found by.")
    operation: str | None = None
    accuracy_metres: float | None = None
    missing_grids: tuple[str, ...] = ()


class LayerReport(StrictModel):
    """What was found in a layer, changed and dropped: rows read are rows written and rows dropped (V1)."""

    layer: str
    format: str
    rows: int
    written: int
    crs: CrsReport
    columns: tuple[Column, ...]
    dropped: dict[str, Count]
    changed: dict[str, Count]
    warnings: tuple[str, ...]
    detected: dict[str, str] = Field({}, description="What was detected: encoding, delimiter, geometry columns.")


class TableShape(StrictModel):
    """What a table is made by: the type of its geometries, and its columns besides gid and geom."""

    geometry_type: GeometryType
    mixed: bool = Field(False, description="Whether there are single points among the multiple ones.")
    has_z: bool
    columns: tuple[Column, ...]


class WrittenChunk(StrictModel):
    """A complete file of rows in the binary COPY format, which is sent as soon as it is written.

    It has the shape of its table where the table must be made or changed before the rows fit into it.
    """

    key: TableKey
    number: Annotated[int, Field(ge=0)]
    rows: Annotated[int, Field(ge=0)]
    shape: TableShape | None = None

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.key}-{self.number:05}.copy"


class TableRows(StrictModel):
    """The rows of one layer and family, in files of the binary COPY format."""

    layer: str
    family: Family
    rows: int
    bounds: tuple[float, float, float, float]
    chunks: int = Field(description="The number of files.")
    sha256: str = Field(description="Of the bytes of all files, in order.")


class CleanedTable(TableShape, TableRows):
    """A table to load."""

    key: TableKey


class PartRows(StrictModel):
    """The rows that one of many tasks wrote for a table; without rows there is no file."""

    rows: int
    bounds: Bounds | None
    size: int
    sha256: str
    file: str | None


class AppendTarget(StrictModel):
    """The layer that rows are added to."""

    name: str
    columns: tuple[Column, ...]
    geometry_type: GeometryType
    has_z: bool
    last_gid: int


class Converted(StrictModel):
    """The tables of a file with their rows in files, and a report for each layer."""

    tables: tuple[CleanedTable, ...]
    reports: tuple[LayerReport, ...]
    software: dict[str, str]


class Notes:
    """Collects what happens to rows: counts by what happened, with a few samples."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._samples: dict[str, list[Sample]] = {}

    def add(self, what: str, rows: "Rows | list[int]", details: "list[str] | None" = None) -> None:
        """Note rows by their numbers; `details` are for the first few of them."""
        if len(rows) == 0:
            return
        self._counts[what] = self._counts.get(what, 0) + len(rows)
        samples = self._samples.setdefault(what, [])
        for place, row in enumerate(rows[: MAX_SAMPLES - len(samples)]):
            detail = details[place] if details and place < len(details) else ""
            samples.append(Sample(row=int(row), what=detail[:MAX_TEXT_CHARS]))

    def total(self) -> int:
        """How many rows were noted."""
        return sum(self._counts.values())

    def counts(self) -> dict[str, Count]:
        """The counts by what happened."""
        return {what: Count(count=n, samples=tuple(self._samples[what])) for what, n in self._counts.items()}


@dataclass(frozen=True)
class SourceBatch:
    """Some rows of a layer: their numbers in the source, attributes, and geometries as ISO WKB, or null.

    `unreadable` is what the file has by the places of rows whose geometries are null since no reader has them.
    """

    rows: "Rows"
    attributes: "pa.RecordBatch"
    geometry: "pa.Array"
    unreadable: "Mapping[int, str]" = field(default_factory=dict)


class ReadBatches(Protocol):
    """Reads the rows of a layer, at most so many at once; rows that can't be read are noted as dropped."""

    def __call__(self, max_rows: int, dropped: Notes) -> "Iterator[SourceBatch]":
        """The batches, in the source's order."""


@dataclass(frozen=True)
class SourceLayer:
    """A layer of an opened file, before any row was read.

    `schema` are its attributes: their names are distinct, and JSON has Arrow's type for it. `crs` is the text of its
    CRS as the file has it (WKT, or a code like EPSG:25832), `no_crs` what to say where that is none, `features` the
    number of its rows, if that is known, and `changed` what reading itself changes in rows: it is complete when all
    batches are read.
    """

    name: str
    format: str
    schema: "pa.Schema"
    crs: str | None
    read: ReadBatches
    crs_found: str = "file"
    no_crs: str = "the layer has no CRS"
    features: int | None = None
    detected: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    changed: Notes = field(default_factory=Notes)


@dataclass(frozen=True)
class CleanBatch:
    """Rows of one table: geometries in EPSG:4326 as shapely has them, or plain points, and the table's attributes.

    Single lines and polygons become multi ones when they are written: that costs much less than making such objects.
    """

    family: Family
    rows: "Rows"
    geometry: "Geometries | PlainPoints"
    attributes: "pa.RecordBatch"
