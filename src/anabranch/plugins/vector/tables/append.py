"""Rows that are added to a published layer: their columns must be those of the layer, in any order."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from anabranch.errors import Permanent
from anabranch.plugins.vector.cleaning.types import ARROW_TYPES
from anabranch.plugins.vector.models import AppendTarget, CleanBatch, Column, ColumnType, Family, GeometryType

__all__ = ["fit_columns", "require_family"]

# Types whose values fit into another; integers that a double can't hold exactly are refused when they come.
WIDER: dict[ColumnType, frozenset[ColumnType]] = {
    ColumnType.INTEGER: frozenset({ColumnType.BIGINT, ColumnType.DOUBLE, ColumnType.NUMERIC}),
    ColumnType.BIGINT: frozenset({ColumnType.DOUBLE, ColumnType.NUMERIC}),
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


def fit_columns(found: Sequence[Column], target: AppendTarget) -> Callable[[CleanBatch], CleanBatch]:
    """A function that gives rows the columns of the layer; an error names those that are missing or don't fit."""
    types = {column.name: column.type for column in found}
    wanted = {column.name: column.type for column in target.columns}
    wrong = [
        *(f"{name} is missing" for name in wanted if name not in types),
        *(f"{name} is not a column of the layer" for name in types if name not in wanted),
        *(
            f"{name} is {types[name]}, not {type_}"
            for name, type_ in wanted.items()
            if name in types and types[name] is not type_ and type_ not in WIDER.get(types[name], ())
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
        return CleanBatch(batch.family, batch.rows, batch.geometry, chosen)

    return fit


def _refuse(what: str) -> Permanent:
    remedy = "Send a file with the same columns, or publish it under another `table`, or with `mode` replace."
    return Permanent(what, code="vector.append_columns", remedy=remedy)
