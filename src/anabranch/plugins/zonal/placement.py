"""Polygons in EPSG:4326 where a raster is: in its CRS, and clipped to its surroundings."""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import shapely
from pyproj import CRS, Transformer
from pyproj.network import set_network_enabled  # type: ignore[attr-defined]  # it is public by the docs only

from anabranch.errors import Permanent
from anabranch.geo.boxes import ANTIMERIDIAN, FULL_TURN, GLOBE, Box
from anabranch.geo.rings import find_extent

if TYPE_CHECKING:
    from affine import Affine
    from rasterio.coords import BoundingBox

    from anabranch.plugins.vector.models import Geometries

__all__ = ["RasterGrid", "place", "require_north_up"]

# A straight side in degrees is a curve in other CRSs: at this length it deviates by about a metre.
MAX_SIDE_DEGREES = 0.1
MARGIN = 0.01
WGS84 = CRS.from_epsg(4326)
LAPS = (-1, 0, 1)


class RasterGrid(Protocol):
    """Where the pixels of a raster are: of an open file, or of a mosaic."""

    crs: Any  # rasterio has no types
    transform: "Affine"
    width: int
    height: int
    count: int
    bounds: "BoundingBox"


def require_north_up(raster: RasterGrid) -> None:
    """Refuse a raster whose pixels are no upright boxes of a CRS."""
    grid = raster.transform
    if raster.crs is None or grid.b != 0 or grid.d != 0 or grid.a <= 0 or grid.e >= 0:
        raise Permanent(
            "the raster is rotated, sheared or mirrored, or it has no CRS",
            code="zonal.rotated",
            remedy="Publish it with `process_raster`, which makes it north up.",
        )


def place(geometry: "Geometries", raster: RasterGrid) -> "Geometries":
    """The polygons in the raster's CRS; None for those that are nowhere near it."""
    set_network_enabled(active=False)
    crs = CRS.from_wkt(raster.crs.to_wkt())
    if crs.is_geographic and not crs.is_derived:
        placed = geometry if crs.equals(WGS84, ignore_axis_order=True) else _transform(geometry, crs)
        return _repeat(placed, raster.bounds.left, raster.bounds.right)
    extent = find_extent(raster.crs, raster.transform, raster.width, raster.height)
    near = _clip(geometry, extent) if extent else geometry
    return _transform(shapely.segmentize(near, MAX_SIDE_DEGREES), crs)


def _repeat(geometry: "Geometries", west: float, east: float) -> "Geometries":
    """The polygons at the longitudes of the raster, which may continue past 180 degrees."""
    laps = [lap for lap in LAPS if west < FULL_TURN * lap + ANTIMERIDIAN and east > FULL_TURN * lap - ANTIMERIDIAN]
    if laps == [0]:
        return geometry
    copies = [_shift(geometry, lap) for lap in laps]
    parts, owners = shapely.get_parts(np.concatenate(copies), return_index=True)
    owners %= len(geometry)
    order = np.argsort(owners, kind="stable")
    found: Geometries = np.full(len(geometry), None, object)
    shapely.multipolygons(parts[order], indices=owners[order], out=found)
    return found


def _shift(geometry: Any, laps: int) -> Any:  # one geometry, or an array of them
    shift = np.array([FULL_TURN * laps, 0.0])
    return shapely.transform(geometry, lambda points: points + shift)


def _clip(geometry: "Geometries", extent: Box) -> "Geometries":
    """What is left of the polygons near an extent; a polygon that leads around the Earth has no place elsewhere."""
    wide, high = MARGIN * (extent.east - extent.west), MARGIN * (extent.north - extent.south)
    box = shapely.box(extent.west - wide, extent.south - high, extent.east + wide, extent.north + high)
    shifted = [_shift(box, lap) for lap in LAPS]
    area = shapely.intersection(shapely.union_all(shifted), shapely.box(*GLOBE))
    shapely.prepare(area)
    clipped: Geometries = geometry.copy()
    clipped[~shapely.intersects(area, geometry)] = None
    across = np.flatnonzero(shapely.is_geometry(clipped) & ~shapely.covers(area, clipped))
    clipped[across] = [_keep_polygons(part) for part in shapely.intersection(_make_valid(clipped[across]), area)]
    return clipped


def _make_valid(geometry: "Geometries") -> "Geometries":
    return np.where(shapely.is_valid(geometry), geometry, shapely.make_valid(geometry))


def _keep_polygons(geometry: shapely.Geometry) -> shapely.Geometry | None:
    """The areas of what a clip left, without the lines and points where only borders met."""
    parts = shapely.get_parts(shapely.get_parts(geometry))
    parts = parts[shapely.get_dimensions(parts) == 2]
    return shapely.multipolygons(parts) if len(parts) else None


def _transform(geometry: "Geometries", crs: CRS) -> "Geometries":
    """Polygons in another CRS; None for those that have no coordinates in it."""
    transformer = Transformer.from_crs(WGS84, crs, always_xy=True)
    flat: Geometries = shapely.force_2d(geometry)
    points = np.stack(transformer.transform(*shapely.get_coordinates(flat).T), axis=1)
    owners = np.repeat(np.arange(len(flat)), shapely.get_num_coordinates(flat))
    lost = np.unique(owners[~np.isfinite(points).all(axis=1)])
    points = points[~np.isin(owners, lost)]
    flat[lost] = None
    placed: Geometries = shapely.set_coordinates(flat, points)
    return placed
