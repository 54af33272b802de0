"""The area that a target CRS is made for, which says where a reprojected raster is exact."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from rasterio.crs import CRS
from rasterio.io import DatasetReader
from rasterio.warp import calculate_default_transform

from anabranch.plugins.raster.crs import describe_crs, name_crs
from anabranch.plugins.raster.models import Box, Notice

__all__ = ["Area", "check_area", "cut_grid"]

FULL_TURN_DEGREES = 360.0
_EDGES = ("west_longitude", "south_latitude", "east_longitude", "north_latitude")


@dataclass(frozen=True)
class Area:
    """An area of use: its name, and its bounds in degrees; west is greater than east across 180 degrees."""

    name: str
    west: float
    south: float
    east: float
    north: float

    @classmethod
    def of(cls, crs: CRS) -> Self | None:
        """That of a CRS; None where it has several, or none."""
        said = describe_crs(crs)
        if (box := said.get("bbox")) is None:
            return None
        west, south, east, north = (float(box[edge]) for edge in _EDGES)
        return cls(said.get("area", "").rstrip("."), west, south, east, north)

    def holds(self, lon: float, lat: float) -> bool:
        """Whether a point lies in it."""
        across = (self.east - self.west) % FULL_TURN_DEGREES or FULL_TURN_DEGREES
        return self.south <= lat <= self.north and (lon - self.west) % FULL_TURN_DEGREES <= across

    @property
    def goes_around(self) -> bool:
        """Whether only latitudes bound it."""
        return self.east - self.west >= FULL_TURN_DEGREES


def check_area(src: DatasetReader, crs: CRS, target: CRS, bounds: Box) -> Iterator[Notice]:
    """Warn of a target CRS that is made for another area, and of rows that it can't show."""
    if (area := Area.of(target)) is None:
        return
    west, south, east, north = bounds
    middle = west + (east - west) % FULL_TURN_DEGREES / 2 if east < west else (west + east) / 2
    if not area.holds(middle, (south + north) / 2):
        message = (
            f"The centre of the raster lies outside the area of {name_crs(target)} ({area.name}): "
            "positions can be off by more than a pixel. Choose a `target_crs` of the raster's area."
        )
        yield Notice(code="raster.target_area", message=message)
    if _shown_latitudes(src, crs, area):
        message = (
            f"The raster reaches beyond {area.south:g} to {area.north:g} degrees of latitude, where "
            f"{name_crs(target)} ends; the COG does not cover those parts."
        )
        yield Notice(code="raster.target_area", message=message)


def cut_grid(src: DatasetReader, crs: CRS, target: CRS) -> dict[str, object]:
    """The target grid of the latitudes that the target has, for a raster beyond them; else nothing, for GDAL's own."""
    area = Area.of(target)
    if area is None or (latitudes := _shown_latitudes(src, crs, area)) is None:
        return {}
    (south, north), (left, bottom, right, top) = latitudes, src.bounds
    rows = max(1, round(src.height * (north - south) / abs(top - bottom)))
    transform, width, height = calculate_default_transform(crs, target, src.width, rows, left, south, right, north)
    return {"transform": transform, "width": width, "height": height}


def _shown_latitudes(src: DatasetReader, crs: CRS, area: Area) -> tuple[float, float] | None:
    """The latitudes of a raster in degrees that lie in an area around the Earth; None where all of them do, or none."""
    if not (crs.is_geographic and area.goes_around and src.transform.is_rectilinear):
        return None
    bottom, top = sorted((src.bounds.bottom, src.bounds.top))
    south, north = max(bottom, area.south), min(top, area.north)
    return (south, north) if south < north and (south, north) != (bottom, top) else None
