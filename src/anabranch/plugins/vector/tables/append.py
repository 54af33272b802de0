"""Rows that are added to a published layer: their columns must be those of the layer, in any order.

A column without values fits any type. Formats without types show what values look like, and not what they are: they are
taken for what the layer has where that changes nothing. Geometries get the layer's type and dimensions: heights that a
file does not have are 0.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.cleaning.plain_points import PlainPoints
from anabranch.plugins.vector.cleaning.types import ARROW_TYPES
from anabranch.plugins.vector.models import AppendTarget, CleanBatch, Column, ColumnType, Family, GeometryType
from anabranch.redaction import show_text

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Geometries

__all__ = ["fit_rows", "require_family"]

# Types whose values fit into another; an integer that it can't hold exactly is refused when it comes.
FITTING: dict[ColumnType, frozenset[ColumnType]] = {
    ColumnType.INTEGER: frozenset({ColumnType.BIGINT, ColumnType.DOUBLE, ColumnType.NUMERIC}),
    ColumnType.BIGINT: frozenset({ColumnType.INTEGER, ColumnType.DOUBLE, ColumnType.NUMERIC}),
    ColumnType.REAL: frozenset({ColumnType.DOUBLE}),
}
# The same in files of formats without types: what looks like a whole number or a day is written in one way only.
UNTYPED_FORMATS = frozenset({"CSV", "GeoJSON", "TopoJSON"})
UNTYPED_FITTING: dict[ColumnType, frozenset[ColumnType]] = {
    ColumnType.INTEGER: frozenset({ColumnType.TEXT}),
    ColumnType.BIGINT: frozenset({ColumnType.TEXT}),
    ColumnType.DATE: frozenset({ColumnType.TEXT}),
    ColumnType.DOUBLE: frozenset({ColumnType.INTEGER, ColumnType.BIGINT, ColumnType.NUMERIC}),
    ColumnType.TEXT: frozenset({ColumnType.NUMERIC}),
}
DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"  # written as PostgreSQL writes it: 007 is a text
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


def fit_rows(found: Sequence[Column], target: AppendTarget, source_format: str) -> Callable[[CleanBatch], CleanBatch]:
    """A function that gives rows the columns and the geometry type of the layer; an error names what does not fit."""
    types = {column.name: column.type for column in found}
    untyped = UNTYPED_FITTING if source_format in UNTYPED_FORMATS else {}
    wanted = {column.name: column.type for column in target.columns}
    wrong = [
        *(f"{name} is missing" for name in wanted if name not in types),
        *(f"{name} is not a column of the layer" for name in types if name not in wanted),
    ]
    others = [
        name
        for name, type_ in wanted.items()
        if (has := types.get(name, type_)) is not type_ and type_ not in (*FITTING.get(has, ()), *untyped.get(has, ()))
    ]
    schema = pa.schema([(name, ARROW_TYPES[type_]) for name, type_ in wanted.items()])

    def check(filled: Sequence[str]) -> None:
        """Refuse columns that the layer does not have, and those with values of another type."""
        problems = [*wrong, *(f"{name} is {types[name]}, not {wanted[name]}" for name in filled)]
        if problems:
            raise _refuse(f"the columns of the file are not those of geo.{target.name}: {'; '.join(problems[:10])}")

    def fit(batch: CleanBatch) -> CleanBatch:
        check([name for name in others if batch.attributes[name].null_count < len(batch.attributes)])
        columns = [_fit_column(batch, field, wanted[field.name], target.name) for field in schema]
        chosen = pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch.attributes.select([])
        return CleanBatch(batch.family, batch.rows, _fit_geometry(batch.geometry, target), chosen)

    if wrong and not others:
        check(())
    return fit


def _fit_column(batch: CleanBatch, field: pa.Field, column_type: ColumnType, layer: str) -> pa.Array:
    values = batch.attributes[field.name]
    try:
        return _fit_values(values, field.type, column_type)
    except pa.ArrowInvalid as error:
        place = next(at for at in range(len(values)) if not _is_fitting(values.slice(at, 1), field.type, column_type))
        value = show_text(str(values[place].as_py()))
        raise Permanent(
            f"{value} in column {field.name} of row {batch.rows[place]:,} does not fit into geo.{layer}, "
            f"where the column is {column_type}",
            code="vector.append_columns",
            remedy="Correct the value, or publish the file under another `table`, or with `mode` replace.",
        ) from error


def _is_fitting(values: pa.Array, arrow_type: pa.DataType, column_type: ColumnType) -> bool:
    try:
        _fit_values(values, arrow_type, column_type)
    except pa.ArrowInvalid:
        return False
    return True


def _fit_values(values: pa.Array, arrow_type: pa.DataType, column_type: ColumnType) -> pa.Array:
    if values.null_count == len(values):
        return pa.nulls(len(values), arrow_type)
    fitted = values.cast(arrow_type)
    if column_type is ColumnType.NUMERIC and pa.types.is_floating(values.type):
        fitted = pa.array([None if value is None else f"{Decimal(repr(value)):f}" for value in values.to_pylist()])
    if column_type is ColumnType.NUMERIC and not pc.all(pc.match_substring_regex(fitted, DECIMAL)).as_py():
        raise pa.ArrowInvalid("it is no decimal number")
    return fitted


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
