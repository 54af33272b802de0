"""Georeferencing: which grids are accepted, which are repaired, and which are refused."""

import math
from dataclasses import dataclass

import numpy as np
from affine import Affine
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.crs import CRS
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from rasterio.transform import from_gcps
from rasterio.warp import transform_bounds

from anabranch.errors import Permanent
from anabranch.geo.boxes import FULL_TURN, POLE, Box
from anabranch.geo.degrees import WGS84, to_degrees
from anabranch.plugins.raster.checks.crs import name_crs
from anabranch.plugins.raster.models import Notice, Repairs

__all__ = ["GridCheck", "check_bounds", "check_grid", "crs_of", "is_unrectified", "locate", "upright"]

NO_REPAIRS = Repairs()
# Over the longest side: a smaller drift is rounding by the program that wrote the file.
_MAX_DRIFT_PIXELS = 0.1
MIN_POINTS = 3
_MAX_OVERHANG_DEGREES = 5.0
_MAX_COORDINATE = 4.0e7


@dataclass(frozen=True)
class GridCheck:
    """The result of a grid check."""

    errors: tuple[Permanent, ...] = ()
    notices: tuple[Notice, ...] = ()
    repairs: Repairs = NO_REPAIRS


def check_grid(src: DatasetReader, *, warped: bool) -> GridCheck:
    """Check that the grid is north up, or can be flipped to be so without changing a value."""
    if src.transform.is_identity or not src.transform.determinant:
        by_points = warped and locate(src).determinant and not locate(src).is_identity
        return GridCheck(notices=(_by_points(src),)) if by_points else GridCheck(errors=(_no_transform(src),))
    if _is_turned(src):
        return GridCheck(notices=(_resampled(),)) if warped else GridCheck(errors=(_turned(),))
    rows, columns = src.transform.e > 0, src.transform.a < 0
    if not rows and not columns:
        return GridCheck()
    message = "The raster is south up or mirrored; its rows or columns are flipped, and no value changes."
    notice = Notice(code="raster.flipped", message=message)
    return GridCheck(notices=(notice,), repairs=Repairs(flip_rows=rows, flip_columns=columns))


def is_unrectified(src: DatasetReader) -> bool:
    """Whether only control points or RPCs locate it: they have a CRS of their own, so `input_crs` can't help."""
    return bool(src.transform.is_identity and (src.gcps[0] or src.rpcs))


def locate(src: DatasetReader) -> Affine:
    """The geotransform of a raster; of one with control points only, the one that fits them best."""
    found: Affine = src.transform
    if not found.is_identity or len(src.gcps[0]) < MIN_POINTS:
        return found
    fitted: Affine = from_gcps(src.gcps[0])
    return fitted


def crs_of(src: DatasetReader) -> CRS | None:
    """The CRS of a raster, or that of its control points."""
    found: CRS | None = src.crs or src.gcps[1]
    return found


def check_bounds(src: DatasetReader, crs: CRS) -> Box | Permanent:
    """The bounds in WGS 84; an error where the coordinates are impossible in that CRS."""
    bounds = left, bottom, right, top = _bounds(src)
    fits = _fits_degrees(locate(src), *bounds) if crs.is_geographic else True
    if not fits or max(map(abs, bounds)) > _MAX_COORDINATE:
        return _implausible(src, crs)
    try:
        found = transform_bounds(crs, WGS84, *bounds, densify_pts=21)
    except (RasterioError, CPLE_BaseError):
        found = (math.inf,) * 4
    if all(map(math.isfinite, found)):
        return Box(*found)
    # The corners of a world map may not be on Earth.
    steps = [step / 16 for step in range(17)]
    points = [(left + (right - left) * x, bottom + (top - bottom) * y) for x in steps for y in steps]
    lons, lats = (values[np.isfinite(values)] for values in to_degrees(crs, points))
    if not lons.size:
        return _implausible(src, crs)
    return Box(float(lons.min()), float(lats.min()), float(lons.max()), float(lats.max()))


def upright(src: DatasetReader, repairs: Repairs) -> Affine:
    """The geotransform after rows and columns are flipped."""
    found = locate(src)
    if repairs.flip_rows:
        found = found * Affine.translation(0, src.height) * Affine.scale(1, -1)
    if repairs.flip_columns:
        found = found * Affine.translation(src.width, 0) * Affine.scale(-1, 1)
    return found


def _bounds(src: DatasetReader) -> tuple[float, float, float, float]:
    grid = locate(src)
    xs, ys = zip(
        *(grid * corner for corner in ((0, 0), (src.width, 0), (0, src.height), (src.width, src.height))),
        strict=True,
    )
    return min(xs), min(ys), max(xs), max(ys)


def _fits_degrees(grid: Affine, left: float, bottom: float, right: float, top: float) -> bool:
    """Whether bounds are degrees, of -180 to 180 or 0 to 360; pixels centred on the edge of the world reach past it."""
    across, down = (
        min(_MAX_OVERHANG_DEGREES, abs(grid.a) + abs(grid.b)),
        min(_MAX_OVERHANG_DEGREES, abs(grid.d) + abs(grid.e)),
    )
    wide = right - left <= FULL_TURN + across and max(-left, right) <= FULL_TURN + across
    return wide and max(-bottom, top) <= POLE + down


def _is_turned(src: DatasetReader) -> bool:
    drift = max(abs(src.transform.b), abs(src.transform.d)) * max(src.width, src.height)
    return bool(drift > _MAX_DRIFT_PIXELS * min(abs(src.transform.a), abs(src.transform.e)))


def _no_transform(src: DatasetReader) -> Permanent:
    points, _ = src.gcps
    if points:
        found = f"only {len(points)} ground control points"
    elif src.rpcs:
        found = "only rational polynomial coefficients (RPCs)"
    else:
        found = "no georeference: its geotransform is missing or the identity"
    return Permanent(
        f"the raster has {found}",
        code="raster.no_georeference",
        remedy="Set `target_crs` to have it warped by them; it may be the CRS of the points."
        if len(points) >= MIN_POINTS
        else "Rectify it first, for example with `gdalwarp`: only you know which model and elevation fit."
        if points or src.rpcs
        else "Write its origin and pixel size into the file, or send its world file along, like a.tfw of a.tif.",
    )


def _by_points(src: DatasetReader) -> Notice:
    message = f"The raster has no geotransform; it is warped by its {len(src.gcps[0])} ground control points."
    return Notice(code="raster.control_points", message=message)


def _turned() -> Permanent:
    return Permanent(
        "the raster is rotated or sheared, so it must be resampled to a north-up grid",
        code="raster.rotated",
        remedy="Set `target_crs` to have it resampled; it may be the raster's own CRS.",
    )


def _resampled() -> Notice:
    return Notice(code="raster.rotated", message="The raster is rotated or sheared; it is resampled to north up.")


def _implausible(src: DatasetReader, crs: CRS) -> Permanent:
    left, bottom, right, top = _bounds(src)
    return Permanent(
        f"the bounds ({left:g}, {bottom:g}, {right:g}, {top:g}) are impossible in {name_crs(crs) or 'its CRS'}",
        code="raster.bounds",
        remedy="Check that the CRS is the right one, and that x and y are not swapped.",
    )
