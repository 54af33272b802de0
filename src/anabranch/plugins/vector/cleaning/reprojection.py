"""Coordinates of a CRS as longitudes and latitudes of EPSG:4326, by PROJ."""

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np
from pyproj import CRS, Transformer
from pyproj.enums import TransformDirection
from pyproj.exceptions import ProjError
from pyproj.network import set_network_enabled  # type: ignore[attr-defined]  # it is public by the docs only
from pyproj.transformer import AreaOfInterest, TransformerGroup

from anabranch.errors import Permanent
from anabranch.geo.boxes import FULL_TURN, POLE, Box
from anabranch.plugins.vector.cleaning.crs import WGS84, SourceCrs
from anabranch.plugins.vector.models import CrsReport

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Mask = npt.NDArray[np.bool_]

__all__ = ["Reprojection", "is_inside"]

# How far a position may be from itself after a round trip, as a share of its coordinates: else it is not on Earth.
ROUND_TRIP_TOLERANCE = 1e-3
POLE_TOLERANCE = 1e-6  # in units of the CRS


class Reprojection:
    """Reprojects coordinates, and remembers the operations that PROJ used."""

    def __init__(self, crs: CRS) -> None:
        set_network_enabled(active=False)
        self.crs = crs
        self.is_needed = not crs.equals(WGS84, ignore_axis_order=True)
        self.is_geographic = crs.is_geographic and not crs.is_derived
        self._transformer = _make_transformer(crs)
        self._used: dict[str, float] = {}
        self._safe: Box | None = None if self.is_geographic else _find_safe_box(self._transformer, crs)
        self._bounds: Box | None = None
        self.area = _find_area(crs)
        self.poles = [] if self.is_geographic else _find_poles(self._transformer)

    def to_degrees(self, points: "Floats") -> "Floats":
        """Longitudes and latitudes; infinite for positions that are not on Earth."""
        if not self.is_needed:
            return points
        lons, lats = self._transformer.transform(points[:, 0], points[:, 1])
        if self.is_geographic:
            lons = lons + FULL_TURN * _round_finite((self._lons_of(points) - lons) / FULL_TURN)
        else:
            lons = np.where(self._is_on_earth(points, lons, lats), lons, np.inf)
        return np.stack([lons, lats], axis=1)

    def remember(self, degrees: "Floats") -> None:
        """Remember the operation that was used last, and where the data are."""
        if not self.is_needed or not len(degrees):
            return
        try:
            used = self._transformer.get_last_used_operation()
        except ProjError:
            return
        self._used[used.description] = used.accuracy
        if self._bounds is None:
            self._bounds = Box(*degrees.min(axis=0).tolist(), *degrees.max(axis=0).tolist())

    def report(self, source: SourceCrs) -> CrsReport:
        """The operations that were used, the least accuracy of them, and grids that better ones would need."""
        known = [metres for metres in self._used.values() if metres >= 0]
        return CrsReport(
            source=source.name,
            found=source.found,
            operation="; ".join(sorted(self._used)) or None,
            accuracy_metres=max(known) if known and len(known) == len(self._used) else None,
            missing_grids=self._find_missing_grids(),
        )

    def _find_missing_grids(self) -> tuple[str, ...]:
        if self._bounds is None:
            return ()
        area = AreaOfInterest(*self._bounds) if abs(self._bounds.west) <= FULL_TURN / 2 else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of the grids that are reported here
            group = TransformerGroup(self.crs, WGS84, always_xy=True, area_of_interest=area)
        if group.best_available or not group.unavailable_operations:
            return ()
        return tuple(sorted({grid.short_name for grid in group.unavailable_operations[0].grids if not grid.available}))

    def _lons_of(self, points: "Floats") -> "Floats":
        """Longitudes from Greenwich in degrees, on the lap that the source has them: PROJ keeps them to one turn."""
        unit, meridian = self.crs.axis_info[0].unit_conversion_factor, self.crs.prime_meridian
        from_greenwich = float(meridian.longitude) * float(meridian.unit_conversion_factor) if meridian else 0.0
        return np.degrees(points[:, 0] * unit + from_greenwich)

    def _is_on_earth(self, points: "Floats", lons: "Floats", lats: "Floats") -> "Mask":
        """Whether positions come back where they were: some projections give degrees for any numbers."""
        on_earth = np.isfinite(lons)
        doubtful = on_earth & ~is_inside(self._safe, points) if self._safe else on_earth
        if doubtful.any():
            inverse = TransformDirection.INVERSE
            back = np.stack(self._transformer.transform(lons[doubtful], lats[doubtful], direction=inverse), axis=1)
            near = np.maximum(np.abs(points[doubtful]).max(axis=1), 1.0) * ROUND_TRIP_TOLERANCE
            on_earth[doubtful] = np.abs(back - points[doubtful]).max(axis=1) <= near
        return on_earth


def _make_transformer(crs: CRS) -> Transformer:
    try:
        return Transformer.from_crs(crs, WGS84, always_xy=True)
    except ProjError as error:
        raise Permanent(
            f"the CRS {crs.name[:60]} can't be converted to EPSG:4326: it is not one of the Earth",
            code="vector.crs_kind",
            remedy="Give the code of a projected or geographic CRS of the Earth, like EPSG:25832, as `crs`.",
        ) from error


def _find_poles(transformer: Transformer) -> list["Floats"]:
    """The poles in the CRS's own coordinates, as far as each is one point there."""
    found = []
    for lat in (-POLE, POLE):
        with np.errstate(all="ignore"):
            x, y = transformer.transform([0.0, 90.0], [lat, lat], direction=TransformDirection.INVERSE)
        points = np.stack([x, y], axis=1)
        if np.isfinite(points).all() and np.abs(points[0] - points[1]).max() < POLE_TOLERANCE:
            found.append(points[0])
    return found


def _find_area(crs: CRS) -> Box | None:
    """Where the CRS is used, roughly; None where that is not known, or across the antimeridian."""
    area = crs.area_of_use
    if area is None or area.west >= area.east:
        return None
    return Box(area.west - 1, area.south - 1, area.east + 1, area.north + 1)


def _find_safe_box(transformer: Transformer, crs: CRS) -> Box | None:
    """The area of use in the CRS's own coordinates; None where that is not known."""
    area = crs.area_of_use
    if area is None or area.west >= area.east:
        return None
    try:
        bounds = transformer.transform_bounds(*area.bounds, direction=TransformDirection.INVERSE)
    except ProjError:
        return None
    if not all(map(math.isfinite, bounds)):
        return None
    west, south, east, north = bounds
    margin = ROUND_TRIP_TOLERANCE * max(east - west, north - south)  # of numbers that were rounded at the edge
    return Box(west - margin, south - margin, east + margin, north + margin)


def is_inside(box: Box, points: "Floats") -> "Mask":
    """Which points are in a box."""
    west, south, east, north = box
    x, y = points[:, 0], points[:, 1]
    return np.asarray((x >= west) & (x <= east) & (y >= south) & (y <= north))


def _round_finite(numbers: "Floats") -> "Floats":
    return np.asarray(np.round(np.where(np.isfinite(numbers), numbers, 0.0)), np.float64)
