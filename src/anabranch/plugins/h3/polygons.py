"""The polygons of H3 cells in EPSG:4326: cut at the antimeridian, and closed over the poles."""

from typing import TYPE_CHECKING

import h3.api.numpy_int as h3
import numpy as np
import shapely

from anabranch.geo import globe
from anabranch.geo.boxes import ANTIMERIDIAN, FULL_TURN, POLE
from anabranch.plugins.vector.cleaning import antimeridian

if TYPE_CHECKING:
    from anabranch.plugins.h3.cells import Cells, Floats
    from anabranch.plugins.vector.models import Geometries

__all__ = ["polygons_of"]


def polygons_of(cells: "Cells") -> "Geometries":
    """The polygon of each cell, as multi polygons."""
    rings = [np.array(h3.cell_to_boundary(cell))[:, ::-1] for cell in cells]
    counts = np.array([len(ring) for ring in rings], int)
    owners = np.repeat(np.arange(len(rings)), counts)
    points = np.concatenate(rings) if rings else np.zeros((0, 2))
    polygons: Geometries = shapely.polygons(shapely.linearrings(points, indices=owners))
    bounds = shapely.bounds(polygons)
    for place in np.flatnonzero(bounds[:, 2] - bounds[:, 0] > ANTIMERIDIAN):
        polygons[place] = _cut(rings[place])
    parts, owners = shapely.get_parts(polygons, return_index=True)
    found: Geometries = shapely.multipolygons(parts, indices=owners)
    return found


def _cut(ring: "Floats") -> shapely.Geometry:
    closed = np.concatenate([ring, ring[:1]])
    lons = np.unwrap(closed[:, 0], period=FULL_TURN)
    unrolled = np.stack([lons, closed[:, 1]], axis=1)
    if globe.winds(unrolled):
        return shapely.multipolygons(globe.cut([unrolled], float(np.copysign(POLE, ring[0, 1]))))
    return antimeridian.cut(shapely.Polygon(closed), None, None)
