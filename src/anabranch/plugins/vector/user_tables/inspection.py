"""Reads what a user's table is and holds, as the user, and refuses what can't become a layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from re import ASCII, fullmatch
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

from anabranch.errors import Permanent
from anabranch.plugins.stac.facts import TableColumn
from anabranch.plugins.vector.models import ColumnType, GeometryType
from anabranch.plugins.vector.tables.statements import name_in, run, text
from anabranch.strict_model import StrictModel

__all__ = ["Geometries", "TableFacts", "UserColumn", "UserTable", "check_geometries", "check_table", "inspect_table"]

SRID = 4326
# The types of PostgreSQL whose values a layer holds, and as what.
TYPES: dict[str, ColumnType] = {
    "bool": ColumnType.BOOLEAN, "int2": ColumnType.INTEGER, "int4": ColumnType.INTEGER, "int8": ColumnType.BIGINT,
    "float4": ColumnType.REAL, "float8": ColumnType.DOUBLE, "numeric": ColumnType.NUMERIC,
    "text": ColumnType.TEXT, "varchar": ColumnType.TEXT, "bpchar": ColumnType.TEXT, "uuid": ColumnType.TEXT,
    "date": ColumnType.DATE, "time": ColumnType.TIME, "timestamp": ColumnType.TIMESTAMP,
    "timestamptz": ColumnType.TIMESTAMPTZ, "json": ColumnType.JSONB, "jsonb": ColumnType.JSONB,
    "bytea": ColumnType.BYTEA,
}  # fmt: skip
GID_TYPES = ("int2", "int4", "int8")
FAMILIES: dict[GeometryType, tuple[str, ...]] = {
    "Point": ("Point",),
    "MultiPoint": ("Point", "MultiPoint"),
    "MultiLineString": ("LineString", "MultiLineString"),
    "MultiPolygon": ("Polygon", "MultiPolygon"),
}


class UserColumn(StrictModel):
    """A column of a user's table; `code` is the name of its type, where PostgreSQL itself or PostGIS has it."""

    name: str
    type: str
    code: str | None
    description: str | None = None


class UserTable(StrictModel):
    """A relation of schema geo, as the database describes it."""

    kind: str
    is_own: bool
    has_policies: bool
    has_children: bool
    has_expressions: bool
    columns: tuple[UserColumn, ...]

    def find_columns(self, *codes: str) -> list[UserColumn]:
        """The columns of some types."""
        return [column for column in self.columns if column.code in codes]


class Geometries(StrictModel):
    """What the geometry column of a table holds: counts of rows, and what there is among them."""

    rows: int
    missing: int
    srids: tuple[int, ...]
    types: tuple[str, ...]
    outside: int
    invalid: int
    has_z: bool
    postgis: str


@dataclass(frozen=True)
class TableFacts:
    """A table that can become a layer: its geometry column, and the other columns as the layer has them."""

    table: str
    geometry: str
    geometry_type: GeometryType
    has_z: bool
    has_gid: bool
    columns: tuple[TableColumn, ...]
    postgis: str


def inspect_table(connection: Connection[Any], table: str) -> TableFacts:
    """What is known of a user's table; Permanent where it can't become a layer. The owner may read it from now on."""
    run(connection, "no_time_limit")
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(text("find_user_table"), {"table": table}).fetchone()
        if found is None:
            remedy = "Create it with `ctx.database()`, in a `with` that has ended; it may have been published already."
            raise Permanent(f"there is no table geo.{table}", code="geo.no_table", remedy=remedy)
        described = UserTable.model_validate(found)
        geometry = check_table(table, described)
        names = {"table": table, "geometry": geometry}
        measured = Geometries.model_validate(cursor.execute(name_in("measure_geometries", **names)).fetchone())
        has_gid = any(column.name == "gid" for column in described.columns)
        if has_gid:
            check_numbers(table, cursor.execute(name_in("find_lowest_gid", table=table)).fetchone())
        cursor.execute(name_in("let_owner_read", table=table))
    return TableFacts(
        table=table,
        geometry=geometry,
        geometry_type=check_geometries(table, geometry, measured),
        has_z=measured.has_z,
        has_gid=has_gid,
        columns=tuple(
            TableColumn(name=column.name, type=TYPES[column.code], description=column.description)
            for column in described.columns
            if column.code and column.name not in ("gid", geometry)
        ),
        postgis=measured.postgis,
    )


def check_numbers(table: str, found: Mapping[str, int | None] | None) -> None:
    """Refuse numbers of rows below 0, which vector tiles can't hold."""
    lowest = found["min"] if found else None
    if lowest is not None and lowest < 0:
        remedy = "Name the column otherwise, or leave it out: rows are numbered."
        raise Permanent(
            f"gid of geo.{table} has {lowest}; numbers of rows are 0 or more", code="geo.gid", remedy=remedy
        )


def check_table(table: str, found: UserTable) -> str:
    """The name of the geometry column of a table that has the columns of a layer."""
    if found.kind != "r" or not found.is_own or found.has_policies or found.has_children or found.has_expressions:
        remedy = "Copy the rows: `create table … as select …`, without policies, partitions and such indexes."
        raise Permanent(_describe_relation(table, found), code="geo.not_a_table", remedy=remedy)
    shapes = [column.name for column in found.find_columns("geometry")]
    if len(shapes) != 1:
        what = f"has the geometry columns {', '.join(shapes)}" if shapes else "has no geometry column"
        remedy = "Create the table with one column of the type geometry; cast a geography with ::geometry."
        raise Permanent(f"geo.{table} {what}; a layer has one", code="geo.geometry_column", remedy=remedy)
    _check_columns(table, shapes[0], found)
    return shapes[0]


def _describe_relation(table: str, found: UserTable) -> str:
    reasons = {
        "is not an ordinary table": found.kind != "r",
        "is not a table of your handlers": not found.is_own,
        "has row security": found.has_policies,
        "has tables that inherit from it": found.has_children,
        "has indexes or statistics of expressions": found.has_expressions,
    }
    return f"geo.{table} " + " and ".join(reason for reason, holds in reasons.items() if holds)


def _check_columns(table: str, geometry: str, found: UserTable) -> None:
    for column in found.columns:
        if column.name == geometry:
            continue
        if column.name == "gid" and column.code not in GID_TYPES:
            what = f"gid of geo.{table} is {column.type}; it is the number of the row"
            raise Permanent(
                what, code="geo.gid", remedy="Name the column otherwise, or leave it out: rows are numbered."
            )
        if column.code not in TYPES:
            what = f"{column.name} of geo.{table} is {column.type}, which a layer can't hold"
            raise Permanent(what, code="geo.column_type", remedy="Cast it: to text, or an array by `to_jsonb`.")
        if not fullmatch(r"[a-z_][a-z0-9_]{0,62}", column.name, ASCII) or column.name == "geom":
            what = f"{column.name!r} of geo.{table} can't be the name of a column of a layer"
            remedy = "Use small letters a to z, digits and underscores; `geom` is the geometry."
            raise Permanent(what, code="geo.column_name", remedy=remedy)


def check_geometries(table: str, column: str, found: Geometries) -> GeometryType:
    """The type of the layer's geometries."""
    _check_places(table, column, found)
    fitting = [type_ for type_, members in FAMILIES.items() if set(found.types) <= set(members)]
    if not fitting:
        what = f"{column} of geo.{table} has the types {', '.join(found.types)}; a layer has points, lines or polygons"
        remedy = "Use ST_CollectionExtract or ST_CurveToLine, or publish a table for each kind."
        raise Permanent(what, code="geo.geometry_type", remedy=remedy)
    if found.invalid:
        what = f"{found.invalid} of the {found.rows} rows of geo.{table} have invalid geometries"
        remedy = f"Use ST_MakeValid({column}), and ST_CollectionExtract for the parts of one kind."
        raise Permanent(what, code="geo.invalid", remedy=remedy)
    return fitting[0]


def _check_places(table: str, column: str, found: Geometries) -> None:
    if not found.rows:
        raise Permanent(f"geo.{table} has no rows", code="geo.no_rows", remedy="Publish a table with rows.")
    if found.missing:
        what = f"{found.missing} of the {found.rows} rows of geo.{table} have no geometry"
        remedy = f"Delete the rows where {column} is null or ST_IsEmpty({column})."
        raise Permanent(what, code="geo.no_geometry", remedy=remedy)
    if found.srids != (SRID,):
        srids = ", ".join(str(srid) if srid else "none" for srid in found.srids)
        what = f"{column} of geo.{table} has the SRID {srids}; layers are in EPSG:{SRID}"
        remedy = f"Use ST_Transform({column}, {SRID}); where the SRID is missing, set it first by ST_SetSRID."
        raise Permanent(what, code="geo.srid", remedy=remedy)
    if found.outside:
        what = f"{found.outside} of the {found.rows} rows of geo.{table} have coordinates that are not on Earth"
        remedy = "Check that the SRID is right and x is the longitude; cut shapes at the antimeridian."
        raise Permanent(what, code="geo.outside", remedy=remedy)
