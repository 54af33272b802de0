"""Where a raster has data, as GeoJSON in WGS 84: split at 180 degrees as RFC 7946 wants, closed over a pole (C1)."""

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import rasterio
from affine import Affine
from pydantic import BaseModel, ConfigDict
from rasterio._err import CPLE_BaseError  # what rasterio raises bare where GDAL fails; it has no public name
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from rasterio.warp import reproject, transform

from anabranch.engine.errors import Permanent
from anabranch.plugins.raster.cells import valid_cells
from anabranch.plugins.raster.crs import WGS84, Degrees, to_degrees
from anabranch.plugins.raster.models import Box
from anabranch.plugins.raster.outline import Point, Polygon, Ring, bounds, grow, hull, outlines, thin
from anabranch.plugins.raster.pixels import Mask
from anabranch.plugins.raster.reader import bounded, quiet

__all__ = ["Footprint", "footprint"]

MEMORY_MB = 256
SIDE = 512
DENSE = 24
DIGITS = 7
GLOBE, HALF = 360.0, 180.0
POLAR = 89.9
EDGE = 1e-7


class Footprint(BaseModel):
    """A GeoJSON geometry, and its bbox; west is greater than east where it crosses 180 degrees."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    type: str
    coordinates: list[list[tuple[float, float]]] | list[list[list[tuple[float, float]]]]
    bbox: Box

    def geometry(self) -> dict[str, object]:
        """The GeoJSON geometry."""
        return {"type": self.type, "coordinates": self.coordinates}


def footprint(cog: Path) -> Footprint:
    """The valid data of a COG, simplified to about a pixel of a preview."""
    with bounded(MEMORY_MB), quiet(), rasterio.open(cog, driver="GTiff") as src:
        mask, grid = valid_cells(src, SIDE)
        if not mask.any():
            raise Permanent(
                f"{cog.name} has no valid pixel", code="raster.empty_pixels", remedy="Send a raster that has data."
            )
        extent = _extent(src) or _search(mask, grid, src.crs)
        if extent[0] < -HALF or extent[2] > HALF or max(-extent[1], extent[3]) > POLAR or not _is_whole(src):
            return _split(mask, grid, src.crs, extent)
        return _plain(mask, grid, src.crs)


def _is_whole(src: DatasetReader) -> bool:
    lons, _ = _degrees(src.crs, _border(src.transform, src.width, src.height))
    return bool(np.isfinite(lons).all())


def _extent(src: DatasetReader) -> Box | None:
    """The bounds in degrees, longitudes counted on past 180; None where the border leaves the Earth."""
    lons, lats = _degrees(src.crs, _border(src.transform, src.width, src.height))
    if not np.isfinite(lons).all():
        return None
    turned = np.unwrap(np.append(lons, lons[0]), period=GLOBE)
    south, north = float(lats.min()), float(lats.max())
    if abs(turned[-1] - turned[0]) > HALF:  # the border goes once around a pole
        return (-HALF, south, HALF, 90.0) if lats.mean() > 0 else (-HALF, -90.0, HALF, north)
    west, east = float(turned.min()), float(turned.max())
    shift = GLOBE * np.floor((west + HALF + 1e-9) / GLOBE)
    return west - shift, south, min(east - shift, west - shift + GLOBE), north


def _search(mask: Mask, grid: Affine, crs: CRS) -> Box:
    """The bounds of what lies on Earth, of a raster whose corners don't."""
    found = _trace(mask, grid, crs, (-HALF, -90.0, HALF, 90.0), shift=0.0)
    west, south, east, north = found.bbox if found else (-HALF, -90.0, HALF, 90.0)
    return max(-HALF, west - 1), max(-90.0, south - 1), min(HALF, east + 1), min(90.0, north + 1)


def _border(grid: Affine, width: int, height: int) -> Ring:
    corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)]
    return [grid * (x * width, y * height) for x, y in _dense(corners, 1 / (2 * DENSE))[:-1]]


def _dense(ring: Ring, step: float) -> Ring:
    """The ring with a point at every step between its corners: straight lines of one system are curves of another."""
    found: Ring = []
    for (x, y), (to_x, to_y) in pairwise(ring):
        parts = math.ceil(math.hypot(to_x - x, to_y - y) / step)
        found += [(x + (to_x - x) * part / parts, y + (to_y - y) * part / parts) for part in range(parts)]
    return [*found, ring[-1]]


def _degrees(crs: CRS, points: Ring) -> tuple[Degrees, Degrees]:
    lons, lats = to_degrees(crs, points)
    return lons, np.clip(lats, -90.0, 90.0)


def _plain(mask: Mask, grid: Affine, crs: CRS) -> Footprint:
    def place(points: Ring) -> Ring:
        return _on_one_side(points, mask, grid, crs)

    step = max(mask.shape) / DENSE
    polygons = [[_simplify(place(_dense(ring, step))) for ring in polygon] for polygon in outlines(mask)]
    # Simplified polygons may miss a cell; the box may not.
    return _wrap(polygons, _unite(_box(polygons), _box([[place(hull(mask))]])))


def _simplify(points: Ring) -> Ring:
    return thin(points, max(np.ptp(np.asarray(points), axis=0)) / (4 * SIDE))


def _on_one_side(points: Ring, mask: Mask, grid: Affine, crs: CRS) -> Ring:
    """Points of cells in degrees; one at exactly 180, which may come back as -180, is on the side of the cells."""
    lons, lats = _degrees(crs, [grid * point for point in points])
    edge = np.flatnonzero(np.abs(lons) > HALF - EDGE)
    if edge.size:
        middle = np.asarray(mask.shape[::-1]) / 2
        inner = middle + 0.99 * (np.asarray(points)[edge] - middle)
        sides, _ = _degrees(crs, [grid * (x, y) for x, y in inner.tolist()])
        lons[edge] = np.copysign(HALF, sides)
    return list(zip(lons.tolist(), lats.tolist(), strict=True))


def _split(mask: Mask, grid: Affine, crs: CRS, extent: Box) -> Footprint:
    """The footprint of what crosses 180 degrees or holds a pole, traced on a grid of degrees on either side."""
    west, south, east, north = extent
    here = _trace(mask, grid, crs, (west, south, min(east, HALF), north), shift=0.0)
    beyond = east - HALF >= GLOBE * 1e-9
    there = _trace(mask, grid, crs, (HALF, south, east, north), shift=GLOBE) if beyond else None
    if not here or not there:
        found = here or there or _whole(extent)
        return _wrap(found.polygons, found.bbox)
    polygons, both = [*here.polygons, *there.polygons], _unite(here.bbox, there.bbox)
    if east - west > GLOBE - 1e-6:
        return _wrap(polygons, both)
    return _wrap(polygons, (here.bbox[0], both[1], there.bbox[2], both[3]))


@dataclass(frozen=True)
class Traced:
    """Polygons in degrees, and the box of all that they were traced from."""

    polygons: list[Polygon]
    bbox: Box


def _trace(mask: Mask, grid: Affine, crs: CRS, box: Box, *, shift: float) -> Traced | None:
    west, south, east, north = box
    pixel = max(east - west, north - south) / SIDE
    width, height = max(1, round((east - west) / pixel)), max(1, round((north - south) / pixel))
    degrees = Affine((east - west) / width, 0, west - shift, 0, (south - north) / height, north)
    onto, found = Affine.translation(shift, 0) * degrees, np.zeros((height, width), bool)
    for place in _places(mask, grid, crs):
        found |= _warp(grow(mask), place, crs, found.shape, onto)
    if not found.any():
        return None
    cells = grow(found)  # again: warping may miss a cell, or place it beside
    top, left, bottom, right = bounds(cells)
    polygons = [[[degrees * point for point in ring] for ring in polygon] for polygon in outlines(cells)]
    return Traced(polygons, (*(degrees * (left, bottom)), *(degrees * (right, top))))


def _warp(cells: Mask, grid: Affine, crs: CRS, shape: tuple[int, ...], degrees: Affine) -> Mask:
    found = np.zeros(shape, np.uint8)
    reproject(
        cells.astype(np.uint8),
        found,
        src_transform=grid,
        src_crs=crs,
        dst_transform=degrees,
        dst_crs=WGS84,
        resampling=Resampling.max,
        dst_nodata=0,
    )
    return np.asarray(found > 0)


def _places(mask: Mask, grid: Affine, crs: CRS) -> list[Affine]:
    """The grid, and where it goes on past the edge of a cylindrical map also once around the Earth either way."""
    points = _border(grid, mask.shape[1], mask.shape[0])
    around = 0.0 if crs.is_geographic else _round_trip(crs, points)
    return [grid] if around < abs(grid.a) else [Affine.translation(way * around, 0) * grid for way in (0, 1, -1)]


def _round_trip(crs: CRS, points: Ring) -> float:
    """How far east or west of themselves points come back from degrees; 0 where that is not one length for all."""
    lons, lats = to_degrees(crs, points)
    try:
        back = np.asarray(transform(WGS84, crs, lons.tolist(), lats.tolist()))
    except (RasterioError, CPLE_BaseError):
        return 0.0
    east, north = np.abs(np.asarray(points).T - back)
    length = float(east.max())
    near = 1e-6 * length
    same = (east < near) | (east > length - near)
    return length if math.isfinite(length) and same.all() and north.max() < near else 0.0


def _whole(extent: Box) -> Traced:
    west, south, east, north = extent
    if west < -HALF or east > HALF:
        west, east = -HALF, HALF
    ring = [(west, north), (west, south), (east, south), (east, north), (west, north)]
    return Traced([[ring]], (west, south, east, north))


def _wrap(polygons: list[Polygon], bbox: Box) -> Footprint:
    rounded = [[_round(ring) for ring in polygon] for polygon in polygons]
    (west, south), (east, north) = _round([bbox[:2], bbox[2:]])
    box = (west, south, east, north)
    if len(rounded) == 1:
        return Footprint(type="Polygon", coordinates=rounded[0], bbox=box)
    return Footprint(type="MultiPolygon", coordinates=rounded, bbox=box)


def _box(polygons: list[Polygon]) -> Box:
    lons, lats = zip(*(point for polygon in polygons for point in polygon[0]), strict=True)
    return min(lons), min(lats), max(lons), max(lats)


def _unite(one: Box, other: Box) -> Box:
    west, south, east, north = one
    return min(west, other[0]), min(south, other[1]), max(east, other[2]), max(north, other[3])


def _round(ring: Ring) -> Ring:
    points: list[Point] = [(round(lon, DIGITS) + 0.0, round(lat, DIGITS) + 0.0) for lon, lat in ring]
    return points
