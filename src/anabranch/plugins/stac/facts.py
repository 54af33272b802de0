"""The facts of a raster or a vector layer to publish: validated once, where they enter."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, Discriminator, Field, Tag, TypeAdapter, field_validator, model_validator

from anabranch.canonical import Json, JsonObject
from anabranch.geo.boxes import ANTIMERIDIAN, POLE, Box, box_of
from anabranch.strict_model import StrictModel

__all__ = [
    "AnyItem", "Band", "Footprint", "ItemFacts", "ItemReference", "Output", "RasterItem", "Render", "Source",
    "Statistics", "Table", "TableColumn", "VectorItem", "read_facts",
]  # fmt: skip

DataType = Literal[
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "cint16", "cint32", "cfloat32", "cfloat64", "other",
]  # fmt: skip
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Number = int | float
MAX_POSITIONS = 10_000
DECIMALS = 9  # a tenth of a millimetre: finer digits are noise of a reprojection
BBOX_TOLERANCE_DEGREES = 1.01e-6  # the outline of a point is 1e-6 around it, and both are rounded
CODE = re.compile(r"[A-Z][A-Za-z0-9_]{0,31}:[A-Za-z0-9_.-]{1,64}", re.ASCII)  # of any authority


class ItemReference(StrictModel):
    """An item in the catalog."""

    collection: str
    id: str


class Statistics(StrictModel):
    """Statistics of all valid pixels of a band."""

    minimum: Number | None = None
    maximum: Number | None = None
    mean: Number | None = None
    stddev: Number | None = None
    count: int | None = Field(None, ge=0)
    valid_percent: Number | None = Field(None, ge=0, le=100)


class Band(StrictModel):
    """One band; `scale` and `offset` turn its pixels into values of `unit`."""

    name: str = Field(min_length=1)
    description: str | None = Field(None, min_length=1)
    data_type: DataType
    nodata: Number | Literal["nan", "inf", "-inf"] | None = None
    unit: str | None = None
    scale: Number | None = None
    offset: Number | None = None
    sampling: Literal["area", "point"] | None = None
    spatial_resolution: Annotated[Number, Field(gt=0)] | None = None
    statistics: Statistics | None = None


class Output(StrictModel):
    """An object of the item: `asset` is its key, by default from its kind; readers fetch it by `name`.

    One that others can overwrite has a `version`, and readers get no other; its hash may be unknown.
    """

    kind: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    href: str
    media_type: str = Field(min_length=3)
    size: int = Field(ge=0)
    sha256: Sha256 | None = None
    version: str | None = Field(None, min_length=1, exclude_if=lambda version: version is None)
    drawn: bool | None = Field(
        None, description="False if no tiles are made of it.", exclude_if=lambda given: given is None
    )
    asset: str | None = Field(None, pattern=r"^[a-z][a-z0-9_-]{0,62}$")
    name: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")
    title: str | None = Field(None, exclude_if=lambda title: title is None)

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.sha256 is None and self.version is None:
            raise ValueError("give the sha256 of the output, or the version of a file in place")
        return self


class Source(StrictModel):
    """The file that the item was made from, with its sidecars: versions and, of the sidecars, hashes by address."""

    sha256: Sha256 | None = None
    name: str | None = None
    address: str | None = None
    versions: dict[str, str] = Field({})
    sidecars: dict[str, Sha256] = Field({}, exclude_if=lambda sidecars: not sidecars)


class Render(StrictModel):
    """How a map may show it, in the fields of the render extension."""

    assets: list[str] = Field(["data"], min_length=1)
    title: str | None = None
    rescale: list[tuple[Number, Number]] | None = None
    colormap_name: str | None = None
    colormap: dict[str, Any] | None = None  # by value or interval, as the renderer reads it
    color_formula: str | None = None
    resampling: str | None = None
    expression: str | None = None
    bidx: list[int] | None = None
    nodata: Number | str | None = None
    minmax_zoom: tuple[int, int] | None = None


class Footprint(StrictModel):
    """The area with data: one or more polygons in WGS 84 degrees (C1)."""

    type: Literal["Polygon", "MultiPolygon"]
    coordinates: list[Any]  # nested as the type requires; checked below

    @model_validator(mode="after")
    def _is_on_the_globe(self) -> Self:
        rings = [ring for rings in self.polygons for ring in rings]
        if not rings or not all(self.polygons):
            raise ValueError("the footprint is empty")
        if sum(map(len, rings)) > MAX_POSITIONS:
            raise ValueError(f"the footprint has more than {MAX_POSITIONS} positions: simplify it")
        for ring in rings:
            _check_ring(ring)
        return self

    @property
    def polygons(self) -> list[list[list[list[float]]]]:
        """The rings of each polygon."""
        return [self.coordinates] if self.type == "Polygon" else self.coordinates

    @property
    def geometry(self) -> JsonObject:
        """The GeoJSON that is published."""
        polygons: list[Json] = [[[[_round(x), _round(y)] for x, y in ring] for ring in p] for p in self.polygons]
        return {"type": self.type, "coordinates": polygons[0] if self.type == "Polygon" else polygons}

    @property
    def box(self) -> Box:
        """The bounding box."""
        return Box(*map(_round, box_of(self.polygons)))


class ItemFacts(StrictModel):
    """What becomes an item, with its objects. Its time is a moment or an interval."""

    id: str
    title: str | None = None
    description: str | None = Field(None, min_length=1)
    footprint: Footprint
    bbox: tuple[Number, Number, Number, Number] | None = Field(None, description="By default the footprint's.")
    datetime: AwareDatetime | None = None
    start_datetime: AwareDatetime | None = None
    end_datetime: AwareDatetime | None = None
    outputs: list[Output] = Field(min_length=1)
    source: Source | None = None
    software: dict[str, str] = Field({}, description="The software that made it, with versions.")
    expected: int | None = Field(None, ge=0, description="The number that the item had when the caller looked.")

    @model_validator(mode="after")
    def _has_a_box(self) -> Self:
        if self.bbox and not _is_on_globe(Box(*self.bbox)):
            raise ValueError("bbox leaves the globe: give west, south, east, north in degrees of WGS 84")
        if self.bbox and not _covers_all(Box(*self.bbox), self.footprint):
            raise ValueError("bbox does not cover the footprint")
        return self

    @model_validator(mode="after")
    def _has_a_time(self) -> Self:
        start, end = self.start_datetime, self.end_datetime
        if (start is None) != (end is None):
            raise ValueError("give start_datetime and end_datetime together")
        if self.datetime is None and start is None:
            raise ValueError("the item has no time: give datetime, or start_datetime and end_datetime")
        if start and end and start > end:
            raise ValueError("start_datetime is after end_datetime")
        return self

    @property
    def box(self) -> Box:
        """The published bbox."""
        return Box(*map(_round, self.bbox)) if self.bbox else self.footprint.box


class RasterItem(ItemFacts):
    """A raster with its objects, to become an item."""

    kind: str
    crs: str | None = None
    projjson: dict[str, Any] | None = Field(None, description="Of a CRS without a code.")  # of PROJ's own schema
    shape: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]] = Field(description="Height and width.")
    transform: tuple[Number, Number, Number, Number, Number, Number] = Field(description="As in rasterio's Affine.")
    bounds: tuple[Number, Number, Number, Number] = Field(description="In the raster's CRS.")
    bands: list[Band] = Field(min_length=1)
    renders: dict[str, Render] = Field({})

    @field_validator("crs")
    @classmethod
    def _is_a_code(cls, crs: str | None) -> str | None:
        if crs is not None and not CODE.fullmatch(crs):
            raise ValueError("write the CRS like EPSG:25832, or give it as projjson")
        return crs

    @model_validator(mode="after")
    def _has_a_crs(self) -> Self:
        if self.crs is None and self.projjson is None:
            raise ValueError("the CRS is missing: give crs or projjson")
        return self


class TableColumn(StrictModel):
    """A column of a table, with its type in PostgreSQL."""

    name: str
    type: str
    description: str | None = Field(None, exclude_if=lambda description: description is None)


class Table(StrictModel):
    """The view that shows a layer, and the tables that it shows; `sha256` is that of their rows."""

    name: str = Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")
    parts: list[str] = Field(min_length=1)
    columns: list[TableColumn]
    rows: int = Field(ge=0)
    geometry_type: str
    sha256: Sha256


class VectorItem(ItemFacts):
    """A vector layer with its table, to become an item."""

    table: Table


def read_facts(line: str | bytes) -> RasterItem | VectorItem:
    """The facts of an item that was written as JSON."""
    return FACTS.validate_json(line)


def _is_on_globe(box: Box) -> bool:
    return max(abs(box.west), abs(box.east)) <= ANTIMERIDIAN and -POLE <= box.south <= box.north <= POLE


def _covers_all(box: Box, footprint: Footprint) -> bool:
    # Part by part: the box of islands on both sides of the antimeridian, none of them at it, may cross it.
    return all(box.covers(box_of([polygon]), BBOX_TOLERANCE_DEGREES) for polygon in footprint.polygons)


def _check_ring(ring: Any) -> None:  # unchecked input
    if not isinstance(ring, list | tuple) or len(ring) < 4:
        raise ValueError("a ring of the footprint has fewer than four positions")
    for position in ring:
        if not isinstance(position, list | tuple) or len(position) != 2 or not all(map(_is_number, position)):
            raise ValueError("a position of the footprint is not a longitude and a latitude")
        if not (abs(position[0]) <= ANTIMERIDIAN and abs(position[1]) <= POLE):
            raise ValueError("the footprint leaves the globe: give it in degrees of WGS 84, split at the antimeridian")
    if list(ring[0]) != list(ring[-1]):
        raise ValueError("a ring of the footprint is not closed")


def _round(value: float) -> float:
    return round(value, DECIMALS) + 0.0  # minus zero is zero


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _find_kind(facts: object) -> str:
    is_vector = "table" in facts if isinstance(facts, dict) else isinstance(facts, VectorItem)
    return "vector" if is_vector else "raster"


AnyItem = Annotated[
    Annotated[RasterItem, Tag("raster")] | Annotated[VectorItem, Tag("vector")], Discriminator(_find_kind)
]
FACTS: TypeAdapter[RasterItem | VectorItem] = TypeAdapter(AnyItem)
