"""The footprint of valid data as GeoJSON in WGS 84, split at 180 degrees as in RFC 7946, closed over a pole (C1)."""

from pathlib import Path

import numpy as np
import rasterio
import shapely
from affine import Affine
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.warp import reproject
from shapely import MultiPolygon, Polygon

from anabranch.errors import Permanent
from anabranch.geo.boxes import ANTIMERIDIAN, FULL_TURN, GLOBE, POLE, TOLERANCE_DEGREES, Box
from anabranch.geo.degrees import WGS84, Floats, round_trip
from anabranch.geo.globe import COORDINATE_DECIMALS, cut, winds
from anabranch.geo.outlines import Mask, bounds, grow, hull, outlines
from anabranch.geo.rings import apply, find_extent, find_pole, locate, place
from anabranch.plugins.raster.files.reader import bounded, quiet
from anabranch.plugins.raster.item.valid_grid import valid_cells
from anabranch.strict_model import StrictModel

__all__ = ["GRID_CELLS", "Footprint", "footprint", "outline"]

MEMORY_MB = 256
GRID_CELLS = 512
POINTS_PER_SIDE = 48


class Footprint(StrictModel):
    """A GeoJSON geometry, and its bbox; west is greater than east where it crosses 180 degrees."""

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
        return outline(mask, grid, src.crs, find_extent(src.crs, src.transform, src.width, src.height))


def outline(mask: Mask, grid: Affine, crs: CRS, extent: Box | None) -> Footprint:
    """The footprint of cells on a grid; the extent of all of them in degrees is None where it has none."""
    if not (extent and _is_around(extent)):
        return _draw(mask, grid, crs, extent) or _trace(mask, grid, crs)
    whole = extent.within_globe()
    return _wrap([shapely.box(*whole)], whole) if mask.all() else _scan(mask, grid, crs, whole)


def _is_around(extent: Box) -> bool:
    """Whether it spans the whole Earth from a meridian other than 180 degrees."""
    off = max(abs(extent.west + ANTIMERIDIAN), abs(extent.east - ANTIMERIDIAN))
    return extent.goes_around and off >= TOLERANCE_DEGREES


def _draw(mask: Mask, grid: Affine, crs: CRS, extent: Box | None) -> Footprint | None:
    """The outlines of the cells in degrees; None where some can't be expressed so, or go around the Earth twice."""
    outer: list[Floats] = []
    found: list[Polygon] = []
    for polygon in outlines(mask):
        lines = map(shapely.get_coordinates, shapely.get_rings(polygon))
        rings = [place(line, grid, crs, max(mask.shape)) for line in lines]
        placed = [ring for ring in rings if ring is not None]
        parts = cut(placed, find_pole(placed[0], grid)) if len(placed) == len(rings) else []
        if not parts:
            return None
        outer.append(placed[0])
        found += parts
    united = list(shapely.get_parts(shapely.union_all(found)))  # simplified neighbours may overlap
    return _wrap(united, _surround(united, outer, locate(hull(mask), grid, crs), extent))


def _surround(polygons: list[Polygon], outer: list[Floats], ends: tuple[Floats, Floats], extent: Box | None) -> Box:
    """The bounding box of the polygons and of the outermost cells, which simplified polygons may cut off."""
    placed = np.abs(ends[1]) < POLE - TOLERANCE_DEGREES  # they are on Earth, and their longitude is defined
    lats = np.append(shapely.get_coordinates(polygons)[:, 1], ends[1][placed])
    if any(map(winds, outer)):
        return Box(-ANTIMERIDIAN, lats.min(), ANTIMERIDIAN, lats.max())
    middle = _middle(outer[0][:, 0]) if extent is None else (extent.west + extent.east) / 2
    near = [ring[:, 0] + FULL_TURN * round((middle - _middle(ring[:, 0])) / FULL_TURN) for ring in outer]
    lons = np.concatenate([*near, ends[0][placed] + FULL_TURN * np.round((middle - ends[0][placed]) / FULL_TURN)])
    return Box(lons.min(), lats.min(), lons.max(), lats.max()).within_globe()


def _middle(lons: Floats) -> float:
    return float(lons.min() + lons.max()) / 2


def _trace(mask: Mask, grid: Affine, crs: CRS) -> Footprint:
    """The footprint of a raster whose outlines can't be drawn: first find the part of it that is on Earth."""
    around = np.add(_scan(mask, grid, crs, GLOBE).bbox, (-1, -1, 1, 1))
    return _scan(mask, grid, crs, Box(*np.clip(around, GLOBE[:2] * 2, GLOBE[2:] * 2).tolist()))


def _scan(mask: Mask, grid: Affine, crs: CRS, box: Box) -> Footprint:
    """The footprint of the cells that a raster covers on a grid of degrees."""
    west, south, east, north = box
    degrees = Affine((east - west) / GRID_CELLS, 0, west, 0, (south - north) / GRID_CELLS, north)
    found = np.zeros((GRID_CELLS, GRID_CELLS), bool)
    for onto in _places(mask, grid, crs):
        onto_degrees = {"src_transform": onto, "src_crs": crs, "dst_transform": degrees, "dst_crs": WGS84}
        warped, _ = reproject(
            grow(mask).astype(np.uint8), found.astype(np.uint8), resampling=Resampling.max, dst_nodata=0, **onto_degrees
        )
        found |= warped > 0
    if not found.any():
        return _wrap([shapely.box(*box)], box)
    cells = grow(grow(found))  # warping may shift by one cell, and simplifying may cut one off
    top, left, bottom, right = bounds(cells)
    polygons = shapely.transform(outlines(cells), lambda points: apply(degrees, points))
    return _wrap(list(polygons), Box(*(degrees @ (left, bottom)), *(degrees @ (right, top))))


def _places(mask: Mask, grid: Affine, crs: CRS) -> list[Affine]:
    """The grid; also shifted around the Earth in both directions where it crosses the edge of a cylindrical map."""
    border = shapely.segmentize(shapely.box(0, 0, *mask.shape[::-1]), max(mask.shape) / POINTS_PER_SIDE)
    points = apply(grid, shapely.get_coordinates(border))
    around = FULL_TURN if crs.is_geographic else (round_trip(crs, points) or 0.0)
    return [grid] if around < abs(grid.a) else [Affine.translation(way * around, 0) * grid for way in (0, 1, -1)]


def _wrap(polygons: list[Polygon], bbox: Box) -> Footprint:
    shape = polygons[0] if len(polygons) == 1 else MultiPolygon(polygons)
    rounded = shapely.transform(shape, _round)
    box = Box(*_round(np.array(bbox)).tolist())
    return Footprint(type=shape.geom_type, coordinates=shapely.geometry.mapping(rounded)["coordinates"], bbox=box)


def _round(points: Floats) -> Floats:
    return points.round(COORDINATE_DECIMALS) + 0.0  # minus zero is zero
