"""Geometries of a table: of one dimension, without M, and with their rings in RFC 7946's order."""

from typing import TYPE_CHECKING

import numpy as np
import shapely
from shapely import GeometryType as Kind

from anabranch.errors import Permanent
from anabranch.plugins.vector.cleaning.rows import Rows
from anabranch.plugins.vector.models import Family

if TYPE_CHECKING:
    import numpy.typing as npt

    from anabranch.plugins.vector.models import Geometries

__all__ = [
    "FAMILIES",
    "check_vertices",
    "collect",
    "drop_empty",
    "fill_heights",
    "flatten",
    "force_2d",
    "force_3d",
    "orient",
]

FAMILIES = (Family.POINT, Family.LINE, Family.POLYGON)  # by dimension
_COLLECT = (shapely.multipoints, shapely.multilinestrings, shapely.multipolygons)


def drop_empty(rows: Rows) -> None:
    """Drop rows whose geometries are empty."""
    rows.drop(shapely.is_empty(rows.geometry), "empty_geometry")


def check_vertices(rows: Rows, limit: int) -> None:
    """Refuse a layer with a feature of more vertices than the limit."""
    counts = shapely.get_num_coordinates(rows.geometry)
    if len(counts) and counts.max() > limit:
        place = int(counts.argmax())
        raise Permanent(
            f"the feature of row {rows.numbers[place]} has {counts[place]:,} vertices, and {limit:,} are allowed",
            code="vector.vertices",
            remedy="Simplify the feature or divide it, or raise the setting `vector_max_vertices`.",
        )


def flatten(rows: Rows) -> None:
    """Of collections, keep the parts of the highest dimension."""
    collections = shapely.get_type_id(rows.geometry) == Kind.GEOMETRYCOLLECTION
    lost = np.zeros(len(rows), bool)
    for place in np.flatnonzero(collections):
        dimensions = shapely.get_dimensions(_explode(rows.geometry[place]))
        rows.geometry[place] = collect(rows.geometry[place], dimensions.max(initial=0))
        lost[place] = np.ptp(dimensions) > 0 if len(dimensions) else False
    rows.change(collections & ~lost, "collection_flattened")
    kept = rows.geometry.copy()
    rows.change(lost, "collection_parts_lost", lambda place: f"kept: {kept[place].geom_type}")


def collect(geometry: shapely.Geometry, dimension: int) -> shapely.Geometry:
    """The parts of a collection that have a dimension, as one geometry."""
    parts = _explode(geometry)
    return _COLLECT[dimension](parts[shapely.get_dimensions(parts) == dimension])


def _explode(geometry: shapely.Geometry) -> "Geometries":
    """The single parts of a collection, without those that are empty."""
    parts = np.array([geometry], object)
    while (shapely.get_type_id(parts) >= Kind.MULTIPOINT).any():
        parts = shapely.get_parts(parts)
    return np.asarray(parts[~shapely.is_empty(parts)])


def force_2d(rows: Rows) -> None:
    """Remove heights and measures."""
    has_z, has_m = shapely.has_z(rows.geometry), shapely.has_m(rows.geometry)
    flat = has_z | has_m
    if flat.any():
        rows.geometry[flat] = shapely.force_2d(rows.geometry[flat])
        rows.change(has_z, "z_dropped")
        rows.change(has_m, "m_dropped")


def force_3d(rows: Rows) -> None:
    """Remove measures, and give all rows heights that are numbers."""
    has_z, has_m = shapely.has_z(rows.geometry), shapely.has_m(rows.geometry)
    if has_m.any():  # GEOS forgets heights where it is asked to force three dimensions
        rows.geometry[has_m] = shapely.from_wkb(shapely.to_wkb(rows.geometry[has_m], output_dimension=3))
        measured = has_m & ~has_z
        rows.geometry[measured] = shapely.force_2d(rows.geometry[measured])
        rows.change(has_m, "m_dropped")
    if not has_z.all():
        rows.geometry[~has_z] = shapely.force_3d(rows.geometry[~has_z])
        rows.change(~has_z, "z_added")
    rows.change(fill_heights(rows), "z_not_finite")


def fill_heights(rows: Rows) -> "npt.NDArray[np.bool_]":
    """Give heights of zero to vertices without; which rows had such."""
    points, index = shapely.get_coordinates(rows.geometry, include_z=True, return_index=True)
    broken = ~np.isfinite(points[:, 2])
    if broken.any():
        points[broken, 2] = 0.0
        rows.geometry = shapely.set_coordinates(shapely.force_3d(rows.geometry), points)
    return np.isin(np.arange(len(rows)), index[broken])


def orient(rows: Rows) -> None:
    """Turn rings into RFC 7946's order: outer ones counter-clockwise."""
    suspects = _find_suspects(rows.geometry)
    if not suspects.any():
        return
    before = rows.geometry[suspects]
    rows.geometry[suspects] = shapely.orient_polygons(before)
    turned = np.zeros(len(rows), bool)
    turned[suspects] = ~shapely.equals_identical(before, rows.geometry[suspects])
    rows.change(turned & ~rows.were_changed("antimeridian", "repaired"), "rings_oriented")


def _find_suspects(geometry: "Geometries") -> "npt.NDArray[np.bool_]":
    """Polygons whose rings may be in another order: all but those of one ring whose area is positive."""
    kinds = shapely.get_type_id(geometry)
    plain = (kinds == Kind.POLYGON) & (shapely.get_num_interior_rings(geometry) == 0)
    suspects: npt.NDArray[np.bool_] = (kinds == Kind.MULTIPOLYGON) | (kinds == Kind.POLYGON)
    points, index = shapely.get_coordinates(geometry[plain], return_index=True)
    if len(points):
        first = np.searchsorted(index, np.arange(index[-1] + 1))
        x, y = (points - points[first][index]).T  # near zero, so that small areas keep their sign
        turns = (x[:-1] * y[1:] - x[1:] * y[:-1]) * (index[:-1] == index[1:])
        suspects[plain] = np.bincount(index[:-1], turns, minlength=index[-1] + 1) <= 0
    return suspects
