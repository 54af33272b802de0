"""The area that a target CRS is made for, which says where a reprojected raster is exact."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from affine import Affine
from rasterio.crs import CRS
from rasterio.io import DatasetReader, MemoryFile
from rasterio.transform import array_bounds, from_bounds
from rasterio.vrt import WarpedVRT

from anabranch.errors import Permanent
from anabranch.geo.boxes import ANTIMERIDIAN, Box
from anabranch.geo.degrees import transform_points
from anabranch.plugins.raster.checks.crs import describe_crs, name_crs
from anabranch.plugins.raster.checks.limits import MAX_GROWTH_FACTOR
from anabranch.plugins.raster.models import Notice

__all__ = ["Area", "check_area", "choose_grid"]

_EDGES = ("west_longitude", "south_latitude", "east_longitude", "north_latitude")


@dataclass(frozen=True)
class Area:
    """An area of use: its name, and its bounds in degrees."""

    name: str
    box: Box

    @classmethod
    def of(cls, crs: CRS) -> Self | None:
        """That of a CRS; None where it has several, or none."""
        said = describe_crs(crs)
        if (box := said.get("bbox")) is None:
            return None
        return cls(said.get("area", "").rstrip("."), Box(*(float(box[edge]) for edge in _EDGES)))


def check_area(src: DatasetReader, crs: CRS, target: CRS, bounds: Box) -> Iterator[Notice]:
    """Warn of a target CRS that is made for another area, and of rows that it can't show."""
    if (area := Area.of(target)) is None:
        return
    middle = Box(*bounds).middle
    if not area.box.covers(Box(*middle, *middle)):
        message = (
            f"The centre of the raster lies outside the area of {name_crs(target)} ({area.name}): "
            "positions can be off by more than a pixel. Choose a `target_crs` of the raster's area."
        )
        yield Notice(code="raster.target_area", message=message)
    if _shown_latitudes(src, crs, area):
        message = (
            f"The raster reaches beyond {area.box.south:g} to {area.box.north:g} degrees of latitude, where "
            f"{name_crs(target)} ends; the COG does not cover those parts."
        )
        yield Notice(code="raster.target_area", message=message)


def choose_grid(src: DatasetReader, crs: CRS, target: CRS) -> dict[str, object]:
    """The grid of a raster in degrees in a target around the Earth, where GDAL's own would not do; else nothing.

    It has only the latitudes that the target has. Around a pole, GDAL takes the size of pixels from the raster's
    diagonal, which is short there, and makes far too many; then they are as large as those in the raster's centre.
    """
    area = Area.of(target)
    if area is None or not _goes_around(src, crs, area):
        return {}
    latitudes, (left, bottom, right, top) = _shown_latitudes(src, crs, area), src.bounds
    south, north = latitudes or sorted((bottom, top))
    rows = max(1, round(src.height * (north - south) / abs(top - bottom)))
    place = from_bounds(left, south, right, north, src.width, rows)
    transform, width, height = _suggest_grid(src.width, rows, crs, place, target)
    if width * height > MAX_GROWTH_FACTOR * src.width * src.height:
        pixel = (right - left) / src.width, (north - south) / rows
        side = _find_side(crs, target, ((left + right) / 2, (south + north) / 2), pixel)
        if side is None:
            return {}
        west, low, east, high = array_bounds(height, width, transform)
        transform = Affine(side, 0, west, 0, -side, high)
        width, height = (max(1, math.ceil(length / side)) for length in (east - west, high - low))
    elif latitudes is None:
        return {}
    if max(-left, right) > ANTIMERIDIAN + (right - left) / src.width:  # on such a grid, GDAL leaves out what is beyond
        raise Permanent(
            f"the raster has longitudes beyond 180 degrees, which can't be cut to the area of {name_crs(target)}",
            code="raster.reprojection",
            remedy="Set no `target_crs`: the raster is published as it is, and maps draw it whole. Or move what is "
            "beyond 180 degrees to the west of the raster first.",
        )
    return {"transform": transform, "width": width, "height": height}


def _suggest_grid(width: int, height: int, crs: CRS, place: Affine, target: CRS) -> tuple[Affine, int, int]:
    """GDAL's grid for a raster in a target, from an empty one: rasterio's own function needs the VRT driver."""
    empty = {"driver": "GTiff", "width": width, "height": height, "count": 1, "dtype": "uint8"}
    with MemoryFile() as file:
        file.open(**empty, crs=crs, transform=place, tiled=True, sparse_ok=True).close()
        with file.open(driver="GTiff") as raster, WarpedVRT(raster, crs=target) as grid:
            return grid.transform, grid.width, grid.height


def _find_side(crs: CRS, target: CRS, centre: tuple[float, float], pixel: tuple[float, float]) -> float | None:
    """The side of a square in the target that has the area of a pixel there; None where it has none."""
    (x, y), (across, down) = centre, pixel
    xs, ys = transform_points(crs, target, [(x, y), (x + across, y), (x, y + down)])
    area = abs((xs[1] - xs[0]) * (ys[2] - ys[0]) - (xs[2] - xs[0]) * (ys[1] - ys[0]))
    return math.sqrt(area) if 0 < area < math.inf else None


def _goes_around(src: DatasetReader, crs: CRS, area: Area) -> bool:
    placed = src.transform.is_rectilinear and not src.transform.is_identity  # it is, with control points only
    return bool(crs.is_geographic and area.box.goes_around and placed)


def _shown_latitudes(src: DatasetReader, crs: CRS, area: Area) -> tuple[float, float] | None:
    """The latitudes of a raster in degrees that lie in an area around the Earth; None where all of them do, or none."""
    if not _goes_around(src, crs, area):
        return None
    bottom, top = sorted((src.bounds.bottom, src.bounds.top))
    south, north = max(bottom, area.box.south), min(top, area.box.north)
    return (south, north) if south < north and (south, north) != (bottom, top) else None
