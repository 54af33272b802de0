"""Where a raster has data, as GeoJSON in WGS 84: split at 180 degrees as RFC 7946 wants, closed over a pole (C1)."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import rasterio
from affine import Affine
from pydantic import BaseModel, ConfigDict
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.io import DatasetReader
from rasterio.warp import reproject

from anabranch.engine.errors import Permanent
from anabranch.plugins.raster.crs import WGS84, Degrees, to_degrees
from anabranch.plugins.raster.models import Box
from anabranch.plugins.raster.outline import Point, Polygon, Ring, outlines, thin
from anabranch.plugins.raster.pixels import Mask
from anabranch.plugins.raster.reader import bounded, quiet

__all__ = ["Footprint", "footprint"]

MEMORY_MB = 256
SIDE = 512
DENSE = 24
DIGITS = 7
GLOBE, HALF = 360.0, 180.0
POLAR = 89.9


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
        mask, grid = _mask(src)
        if not mask.any():
            raise Permanent(
                f"{cog.name} has no valid pixel", code="raster.empty_pixels", remedy="Send a raster that has data."
            )
        extent = _extent(src) or _search(mask, grid, src.crs)
        if extent[0] < -HALF or extent[2] > HALF or max(-extent[1], extent[3]) > POLAR or not _is_whole(src):
            return _split(mask, grid, src.crs, extent)
        return _plain(mask, grid, src.crs)


def _mask(src: DatasetReader) -> tuple[Mask, Affine]:
    """Valid pixels of an overview, and its grid."""
    shrink = max(1.0, max(src.width, src.height) / SIDE)
    height, width = max(1, round(src.height / shrink)), max(1, round(src.width / shrink))
    mask = src.dataset_mask(out_shape=(height, width)) > 0
    if np.dtype(src.dtypes[0]).kind == "f":
        mask &= ~np.isnan(src.read(1, out_shape=(height, width)))
    return np.asarray(mask), src.transform * Affine.scale(src.width / width, src.height / height)


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
    lons = [lon for polygon in found for lon, _ in polygon[0]]
    lats = [lat for polygon in found for _, lat in polygon[0]]
    return max(-HALF, min(lons) - 1), max(-90.0, min(lats) - 1), min(HALF, max(lons) + 1), min(90.0, max(lats) + 1)


def _border(grid: Affine, width: int, height: int) -> Ring:
    corners = [(0.0, 0.0), (float(width), 0.0), (float(width), float(height)), (0.0, float(height)), (0.0, 0.0)]
    return [grid * point for point in _dense(corners, 2 * DENSE)[:-1]]


def _dense(ring: Ring, parts: int) -> Ring:
    """The ring with points between its corners: straight lines of one system are curves of another."""
    found: Ring = []
    for (x, y), (to_x, to_y) in pairwise(ring):
        found += [(x + (to_x - x) * part / parts, y + (to_y - y) * part / parts) for part in range(parts)]
    return [*found, ring[-1]]


def _degrees(crs: CRS, points: Ring) -> tuple[Degrees, Degrees]:
    lons, lats = to_degrees(crs, points)
    return lons, np.clip(lats, -90.0, 90.0)


def _plain(mask: Mask, grid: Affine, crs: CRS) -> Footprint:
    polygons = [[_to_degrees(ring, grid, crs) for ring in polygon] for polygon in outlines(mask)]
    return _wrap(polygons)


def _to_degrees(ring: Ring, grid: Affine, crs: CRS) -> Ring:
    lons, lats = _degrees(crs, [grid * point for point in _dense(ring, max(1, 2 * DENSE // len(ring)))])
    # A border at exactly 180 degrees may come back as -180: it stays on the side where the ring is.
    lons = np.unwrap(lons, period=GLOBE)
    lons -= GLOBE * np.round(np.median(lons) / GLOBE)
    points = list(zip(np.clip(lons, -HALF, HALF).tolist(), lats.tolist(), strict=True))
    return thin(points, max(np.ptp(lons), np.ptp(lats)) / (4 * SIDE))


def _split(mask: Mask, grid: Affine, crs: CRS, extent: Box) -> Footprint:
    """The footprint of what crosses 180 degrees or holds a pole, traced on a grid of degrees on either side."""
    west, south, east, north = extent
    here = _trace(mask, grid, crs, (west, south, min(east, HALF), north), shift=0.0)
    if east - HALF < GLOBE * 1e-9:
        return _wrap(here)
    there = _trace(mask, grid, crs, (HALF, south, east, north), shift=GLOBE)
    found = _wrap([*here, *there])
    if not here or not there or east - west > GLOBE - 1e-6:
        return found
    west, east = _wrap(here).bbox[0], _wrap(there).bbox[2]
    return found.model_copy(update={"bbox": (west, found.bbox[1], east, found.bbox[3])})


def _trace(mask: Mask, grid: Affine, crs: CRS, box: Box, *, shift: float) -> list[Polygon]:
    west, south, east, north = box
    pixel = max(east - west, north - south) / SIDE
    width, height = max(1, round((east - west) / pixel)), max(1, round((north - south) / pixel))
    degrees = Affine((east - west) / width, 0, west, 0, (south - north) / height, north)
    found = np.zeros((height, width), np.uint8)
    reproject(
        mask.astype(np.uint8),
        found,
        src_transform=grid,
        src_crs=crs,
        dst_transform=degrees,
        dst_crs=WGS84,
        resampling=Resampling.nearest,
        dst_nodata=0,
    )
    return [
        [[(lon - shift, lat) for lon, lat in (degrees * point for point in ring)] for ring in polygon]
        for polygon in outlines(found > 0)
    ]


def _wrap(polygons: list[Polygon]) -> Footprint:
    rounded = [[_round(ring) for ring in polygon] for polygon in polygons]
    lons = [lon for polygon in rounded for lon, _ in polygon[0]]
    lats = [lat for polygon in rounded for _, lat in polygon[0]]
    bbox = (min(lons), min(lats), max(lons), max(lats))
    if len(rounded) == 1:
        return Footprint(type="Polygon", coordinates=rounded[0], bbox=bbox)
    return Footprint(type="MultiPolygon", coordinates=rounded, bbox=bbox)


def _round(ring: Ring) -> Ring:
    points: list[Point] = [(round(lon, DIGITS) + 0.0, round(lat, DIGITS) + 0.0) for lon, lat in ring]
    return points
