"""The table of a grid: its columns, and the software that makes it."""

from importlib.metadata import version

from anabranch.plugins.vector.models import Column, ColumnType, TableShape

__all__ = ["CELL_COLUMNS", "GRID_SHAPE", "QUEUE", "SOFTWARE"]

QUEUE = "vector"
CELL_COLUMNS = (
    Column(name="h3", type=ColumnType.BIGINT, source="h3"),
    Column(name="h3_text", type=ColumnType.TEXT, source="h3_text"),
    Column(name="resolution", type=ColumnType.INTEGER, source="resolution"),
    Column(name="parent", type=ColumnType.BIGINT, source="parent"),
)
GRID_SHAPE = TableShape(geometry_type="MultiPolygon", has_z=False, columns=CELL_COLUMNS)
SOFTWARE = {name: version(name) for name in ("h3", "shapely")}
