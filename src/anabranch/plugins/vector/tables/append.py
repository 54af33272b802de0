"""Rows that are added to a published layer: their columns must be those of the layer, in any order.

Their geometries get its type and dimensions: heights that a file does not have are 0.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.cleaning.plain_points import PlainPoints
from anabranch.plugins.vector.cleaning.types import ARROW_TYPES
from anabranch.plugins.vector.models import AppendTarget, CleanBatch, Column, ColumnType, Family, GeometryType

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Geometries

__all__ = ["fit_rows", "require_family"]

# Types whose values fit into another; an integer that it can't hold exactly is refused when it comes.
FITTING: dict[ColumnType, frozenset[ColumnType]] = {
    ColumnType.INTEGER: frozenset({ColumnType.BIGINT, ColumnType.DOUBLE, ColumnType.NUMERIC}),
    ColumnType.BIGINT: frozenset({ColumnType.INTEGER, ColumnType.DOUBLE, ColumnType.NUMERIC}),
    ColumnType.REAL: frozenset({ColumnType.DOUBLE}),
}
FAMILIES: dict[GeometryType, Family] = {
    "Point": Family.POINT,
    "MultiPoint": Family.POINT,
    "MultiLineString": Family.LINE,
    "MultiPolygon": Family.POLYGON,
}


def require_family(family: Family, target: AppendTarget) -> None:
    """Refuse geometries of another kind than the layer's."""
    if family is not FAMILIES[target.geometry_type]:
        raise _refuse(f"the file has {family}s, and geo.{target.name} is of the type {target.geometry_type}")


def fit_rows(found: Sequence[Column], target: AppendTarget) -> Callable[[CleanBatch], CleanBatch]:
    """A function that gives rows the columns and the geometry type of the layer; an error names what does not fit."""
    types = {column.name: column.type for column in found}
    wanted = {column.name: column.type for column in target.columns}
    wrong = [
        *(f"{name} is missing" for name in wanted if name not in types),
        *(f"{name} is not a column of the layer" for name in types if name not in wanted),
        *(
            f"{name} is {types[name]}, not {type_}"
            for name, type_ in wanted.items()
            if name in types and types[name] is not type_ and type_ not in FITTING.get(types[name], ())
        ),
    ]
    if wrong:
        raise _refuse(f"the columns of the file are not those of geo.{target.name}: {'; '.join(wrong[:10])}")
    schema = pa.schema([(name, ARROW_TYPES[type_]) for name, type_ in wanted.items()])

    def fit(batch: CleanBatch) -> CleanBatch:
        try:
            chosen = batch.attributes.select(list(wanted)).cast(schema)
        except pa.ArrowInvalid as error:
            raise _refuse(f"a value of the file does not fit into geo.{target.name}: {error}") from error
        return CleanBatch(batch.family, batch.rows, _fit_geometry(batch.geometry, target), chosen)

    return fit


def _fit_geometry(geometry: "Geometries | PlainPoints", target: AppendTarget) -> "Geometries | PlainPoints":
    if isinstance(geometry, PlainPoints):
        if target.geometry_type == "Point" and not target.has_z:
            return geometry
        geometry = shapely.points(geometry.xy)
    fitted: Geometries = shapely.force_3d(geometry) if target.has_z else shapely.force_2d(geometry)
    single = shapely.get_type_id(fitted) == shapely.GeometryType.POINT
    if target.geometry_type == "Point" and not single.all():
        raise _refuse(f"the file has multiple points, and geo.{target.name} is of the type Point")
    if target.geometry_type == "MultiPoint" and single.any():
        fitted[single] = shapely.multipoints(fitted[single], indices=np.arange(single.sum()))
    return fitted


def _refuse(what: str) -> Permanent:
    remedy = "Send a file with the same columns, or publish it under another `table`, or with `mode` replace."
    return Permanent(what, code="vector.append_columns", remedy=remedy)
