"""The footprint of valid data as GeoJSON in WGS 84, split at 180 degrees as in RFC 7946, closed over a pole (C1)."""

import math
from pathlib import Path

import numpy as np
import rasterio
from affine import Affine
from pydantic import BaseModel, ConfigDict
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.warp import reproject

from anabranch.errors import Permanent
from anabranch.plugins.raster.antimeridian import cut, winds
from anabranch.plugins.raster.crs import WGS84, Degrees
from anabranch.plugins.raster.geographic import border, find_extent, find_pole, hull_of, place, round_trip
from anabranch.plugins.raster.models import Box
from anabranch.plugins.raster.outline import Point, Polygon, Ring, bounds, grow, outlines
from anabranch.plugins.raster.pixels import Mask
from anabranch.plugins.raster.reader import bounded, quiet
from anabranch.plugins.raster.valid_grid import valid_cells

__all__ = ["Footprint", "footprint"]

MEMORY_MB = 256
GRID_CELLS = 512
COORDINATE_DECIMALS = 7
FULL_TURN, ANTIMERIDIAN = 360.0, 180.0
EDGE_TOLERANCE = 1e-7
FULL_TURN_TOLERANCE = 1e-6


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
    """The footprint of a COG's valid data, simplified to about one pixel of a preview."""
    with bounded(MEMORY_MB), quiet(), rasterio.open(cog, driver="GTiff") as src:
        mask, grid = valid_cells(src, GRID_CELLS)
        if not mask.any():
            raise Permanent(
                f"{cog.name} has no valid pixel", code="raster.empty_pixels", remedy="Send a raster that has data."
            )
        extent = find_extent(src.crs, src.transform, src.width, src.height)
        if extent and _is_around(extent):
            return _band(extent) if mask.all() else _trace(mask, grid, src.crs, extent)
        return _draw(mask, grid, src.crs, extent) or _trace(mask, grid, src.crs, extent)


def _is_around(extent: Box) -> bool:
    """Whether it spans the whole Earth from a meridian other than 180 degrees."""
    west, _, east, _ = extent
    whole = abs(west + ANTIMERIDIAN) < EDGE_TOLERANCE and abs(east - ANTIMERIDIAN) < EDGE_TOLERANCE
    return east - west > FULL_TURN - FULL_TURN_TOLERANCE and not whole


def _band(extent: Box) -> Footprint:
    _, south, _, north = extent
    ring = [
        (-ANTIMERIDIAN, north),
        (-ANTIMERIDIAN, south),
        (ANTIMERIDIAN, south),
        (ANTIMERIDIAN, north),
        (-ANTIMERIDIAN, north),
    ]
    return _wrap([[ring]], (-ANTIMERIDIAN, south, ANTIMERIDIAN, north))


def _draw(mask: Mask, grid: Affine, crs: CRS, extent: Box | None) -> Footprint | None:
    """The outlines of the cells in degrees; None where some can't be expressed so, or go around the Earth twice."""
    placed: list[Polygon] = []
    for polygon in outlines(mask):
        rings = [place(ring, grid, crs, max(mask.shape)) for ring in polygon]
        placed.append([ring for ring in rings if ring])
        if len(placed[-1]) < len(polygon):
            return None
    parts = [cut(polygon, find_pole(polygon, grid)) for polygon in placed]
    polygons = [polygon for part in parts if part for polygon in part]
    return _wrap(polygons, _surround(polygons, placed, hull_of(mask, grid, crs), extent)) if all(parts) else None


def _surround(polygons: list[Polygon], placed: list[Polygon], ends: tuple[Degrees, Degrees], extent: Box | None) -> Box:
    """The bounding box of the polygons and of the outermost cells, which simplified polygons may cut off."""
    lats = [*(lat for polygon in polygons for _, lat in polygon[0]), *ends[1].tolist()]
    outer = [polygon[0] for polygon in placed]
    if any(map(winds, outer)):
        return -ANTIMERIDIAN, min(lats), ANTIMERIDIAN, max(lats)
    west, east = _span(outer[0]) if extent is None else (extent[0], extent[2])
    middle = (west + east) / 2
    lons = [lon for ring in outer for lon in _near(_span(ring), middle)]
    lons += (ends[0] + FULL_TURN * np.round((middle - ends[0]) / FULL_TURN)).tolist()
    west, east = _across(min(lons), max(lons))
    return west, min(lats), east, max(lats)


def _span(ring: Ring) -> tuple[float, float]:
    lons = [lon for lon, _ in ring]
    return min(lons), max(lons)


def _near(span: tuple[float, float], middle: float) -> tuple[float, float]:
    lap = FULL_TURN * round((middle - sum(span) / 2) / FULL_TURN)
    return span[0] + lap, span[1] + lap


def _across(west: float, east: float) -> tuple[float, float]:
    """West and east as RFC 7946 writes them."""
    if east - west > FULL_TURN - FULL_TURN_TOLERANCE:
        return -ANTIMERIDIAN, ANTIMERIDIAN
    lap = FULL_TURN * math.floor((west + ANTIMERIDIAN + EDGE_TOLERANCE) / FULL_TURN)
    west, east = max(west - lap, -ANTIMERIDIAN), east - lap
    return west, (
        east if east <= ANTIMERIDIAN else ANTIMERIDIAN if east < ANTIMERIDIAN + EDGE_TOLERANCE else east - FULL_TURN
    )


def _search(mask: Mask, grid: Affine, crs: CRS) -> Box:
    """The bounds of the part on Earth, of a raster whose corners are not."""
    west, south, east, north = _scan(mask, grid, crs, (-ANTIMERIDIAN, -90.0, ANTIMERIDIAN, 90.0)).bbox
    return max(-ANTIMERIDIAN, west - 1), max(-90.0, south - 1), min(ANTIMERIDIAN, east + 1), min(90.0, north + 1)


def _trace(mask: Mask, grid: Affine, crs: CRS, extent: Box | None) -> Footprint:
    """The footprint of a raster whose outlines can't be drawn, from the cells that it covers on a grid of degrees."""
    if extent and _is_around(extent):
        return _scan(mask, grid, crs, (-ANTIMERIDIAN, extent[1], ANTIMERIDIAN, extent[3]))
    return _scan(mask, grid, crs, _search(mask, grid, crs))


def _scan(mask: Mask, grid: Affine, crs: CRS, box: Box) -> Footprint:
    west, south, east, north = box
    degrees = Affine((east - west) / GRID_CELLS, 0, west, 0, (south - north) / GRID_CELLS, north)
    found = np.zeros((GRID_CELLS, GRID_CELLS), bool)
    for onto in _places(mask, grid, crs):
        found |= _warp(grow(mask), onto, crs, found.shape, degrees)
    if not found.any():
        return _band(box)
    cells = grow(grow(found))  # warping may shift by one cell, and simplifying may cut one off
    top, left, bottom, right = bounds(cells)
    polygons = [[[degrees @ point for point in ring] for ring in polygon] for polygon in outlines(cells)]
    return _wrap(polygons, (*(degrees @ (left, bottom)), *(degrees @ (right, top))))


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
    """The grid; also shifted around the Earth in both directions where it crosses the edge of a cylindrical map."""
    points = border(grid, mask.shape[1], mask.shape[0])
    around = FULL_TURN if crs.is_geographic else (round_trip(crs, points) or 0.0)
    return [grid] if around < abs(grid.a) else [Affine.translation(way * around, 0) * grid for way in (0, 1, -1)]


def _wrap(polygons: list[Polygon], bbox: Box) -> Footprint:
    rounded = [[_round(ring) for ring in polygon] for polygon in polygons]
    (west, south), (east, north) = _round([bbox[:2], bbox[2:]])
    box = (west, south, east, north)
    if len(rounded) == 1:
        return Footprint(type="Polygon", coordinates=rounded[0], bbox=box)
    return Footprint(type="MultiPolygon", coordinates=rounded, bbox=box)


def _round(ring: Ring) -> Ring:
    points: list[Point] = [
        (round(lon, COORDINATE_DECIMALS) + 0.0, round(lat, COORDINATE_DECIMALS) + 0.0) for lon, lat in ring
    ]
    return points
