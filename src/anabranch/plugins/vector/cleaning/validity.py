"""Geometries that are valid; what is repaired keeps the parts of its dimension."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import shapely

from anabranch.plugins.vector.cleaning.rows import Rows
from anabranch.plugins.vector.cleaning.shapes import collect

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Geometries

__all__ = ["repair"]


def repair(rows: Rows) -> None:
    """Repair invalid geometries; those of which nothing is left are dropped."""
    invalid = np.asarray(~shapely.is_valid(rows.geometry))
    if not invalid.any():
        return
    before = rows.geometry.copy()
    rows.geometry[invalid] = _keep_dimension(_make_valid(before[invalid]), shapely.get_dimensions(before[invalid]))
    after = rows.geometry.copy()
    rows.change(invalid, "repaired", lambda place: _describe(before[place], after[place]))
    lost = invalid & shapely.is_empty(after)
    rows.drop(lost, "nothing_left_of_invalid", lambda place: str(shapely.is_valid_reason(before[place])))


def _make_valid(geometry: "Geometries") -> "Geometries":
    try:
        return np.asarray(shapely.make_valid(geometry, method="structure", keep_collapsed=False))
    except shapely.GEOSException:
        return np.array([_make_one_valid(one) for one in geometry], object)


def _make_one_valid(geometry: shapely.Geometry) -> shapely.Geometry:
    for attempt in _ATTEMPTS:
        try:
            return attempt(geometry)
        except shapely.GEOSException:
            continue
    return shapely.Point()


_ATTEMPTS: tuple[Callable[[shapely.Geometry], shapely.Geometry], ...] = (
    lambda geometry: shapely.make_valid(geometry, method="structure", keep_collapsed=False),
    shapely.make_valid,
)


def _keep_dimension(geometry: "Geometries", dimensions: "Geometries") -> "Geometries":
    mixed = shapely.get_type_id(geometry) == shapely.GeometryType.GEOMETRYCOLLECTION
    for place in np.flatnonzero(mixed | (shapely.get_dimensions(geometry) != dimensions)):
        geometry[place] = collect(geometry[place], int(dimensions[place]))
    return geometry


def _describe(before: shapely.Geometry, after: shapely.Geometry) -> str:
    areas = f"; area {before.area:.6g} -> {after.area:.6g}" if shapely.get_dimensions(before) == 2 else ""
    return f"{shapely.is_valid_reason(before)}{areas}"
