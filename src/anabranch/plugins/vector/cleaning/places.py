"""Where rows are: coordinates in EPSG:4326, within the globe (R1, V2)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import shapely

from anabranch.errors import Permanent
from anabranch.geo.boxes import ANTIMERIDIAN, FULL_TURN, POLE
from anabranch.plugins.vector.cleaning.antimeridian import NOISE_DEGREES, cut, wrap_points
from anabranch.plugins.vector.cleaning.bends import bend, is_wide, snap_to_poles
from anabranch.plugins.vector.cleaning.crs import missing_crs
from anabranch.plugins.vector.cleaning.plain_points import PlainPoints
from anabranch.plugins.vector.cleaning.reprojection import Reprojection, is_inside
from anabranch.plugins.vector.cleaning.rows import Rows

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.intp]
    Mask = npt.NDArray[np.bool_]

__all__ = ["Placement"]

MOST_ROWS_SHARE = 0.5
SWAPPED_SHARE = 0.9


class Placement:
    """Places the rows of a layer on the globe, and judges at its end whether its CRS can be right.

    `no_crs` says that the layer has no CRS, if so: its values must show that they are degrees.
    """

    def __init__(self, reprojection: Reprojection, *, no_crs: str | None) -> None:
        self._reprojection = reprojection
        self._no_crs = no_crs
        self._has_fractions = False
        self._rows = self._outside = self._fit_swapped = self._elsewhere = self._across_zero = 0

    def place(self, rows: Rows) -> None:
        """Reproject rows, drop those that are not on the globe, and cut those that cross the antimeridian."""
        source, index = _read_coordinates(rows)
        self._rows += len(rows)
        if self._no_crs and len(rows):
            self._check_guess(source, self._no_crs)
        degrees = self._reprojection.to_degrees(source[:, :2])
        self._look_for_swapped(source, degrees, index)
        degrees, index = self._drop_outside(rows, source, degrees, index)
        if not self._reprojection.is_geographic:
            degrees, index = self._bend(rows, degrees, index)
        self._reprojection.remember(degrees)
        if len(rows):
            self._move(rows, degrees, index)

    def place_points(self, points: PlainPoints) -> PlainPoints | None:
        """Points in degrees, one for each row; nothing, and nothing is counted, if any must be dropped or moved."""
        degrees = self._reprojection.to_degrees(points.xy)
        lons, lats = np.abs(degrees).T
        if not ((lons <= ANTIMERIDIAN).all() and (lats <= POLE).all()):
            return None
        self._rows += len(points)
        if self._no_crs:
            self._check_guess(points.xy, self._no_crs)
        self._look_for_swapped(points.xy, degrees, np.arange(len(points)))
        self._reprojection.remember(degrees)
        return PlainPoints(degrees)

    def judge(self) -> list[str]:
        """Warnings of the layer; an error if it can't be where its CRS says."""
        if self._no_crs and self._rows and not self._has_fractions:
            raise missing_crs(self._no_crs, "all of its coordinates are integers")
        if self._elsewhere > MOST_ROWS_SHARE * self._rows or self._is_swapped():
            raise Permanent(
                f"x and y are swapped: with its first coordinate as y, the layer is where {self._crs_name} is used; "
                "as it is, it is not",
                code="vector.axes",
                remedy="Write x (or longitude) before y (or latitude); for CSV, set `lon` and `lat` the other way.",
            )
        if self._outside > MOST_ROWS_SHARE * self._rows:
            raise Permanent(
                f"{self._outside:,} of {self._rows:,} rows are not on Earth in {self._crs_name}",
                code="vector.coordinates",
                remedy="Check whether the CRS is right, and set `crs` if the file has none.",
            )
        return list(self._warn())

    def _warn(self) -> Iterator[str]:
        if self._fit_swapped:
            yield f"{self._fit_swapped:,} of the rows out of range would fit if x and y were swapped."
        if self._across_zero:
            yield (
                f"{self._across_zero:,} shapes with longitudes from 0 to 360 have sides that are nearly a full turn"
                " wide; they were taken for short ones across 0 degrees. The report has the areas of some."
            )

    @property
    def _crs_name(self) -> str:
        return self._reprojection.crs.name[:60]

    def _is_swapped(self) -> bool:
        return self._outside > MOST_ROWS_SHARE * self._rows and self._fit_swapped >= SWAPPED_SHARE * self._outside

    def _check_guess(self, source: "Floats", no_crs: str) -> None:
        (west, south), (east, north) = source[:, :2].min(axis=0).tolist(), source[:, :2].max(axis=0).tolist()
        if max(-west, east) > ANTIMERIDIAN or max(-south, north) > POLE:
            raise missing_crs(no_crs, f"its coordinates go from {west:.12g} {south:.12g} to {east:.12g} {north:.12g}")
        self._has_fractions = self._has_fractions or bool((source[:, :2] % 1 != 0).any())

    def _look_for_swapped(self, source: "Floats", degrees: "Floats", index: "Integers") -> None:
        """Count rows that are not where the CRS is used, but would be with x and y swapped."""
        area = self._reprojection.area
        if area is None or not len(index):
            return
        first = np.flatnonzero(np.diff(index, prepend=-1))
        away = ~is_inside(area, degrees[first])
        if away.mean() > MOST_ROWS_SHARE:
            swapped = self._reprojection.to_degrees(source[first[away]][:, 1::-1])
            self._elsewhere += int(is_inside(area, swapped).sum())

    def _drop_outside(
        self, rows: Rows, source: "Floats", degrees: "Floats", index: "Integers"
    ) -> tuple["Floats", "Integers"]:
        lons, lats = degrees[:, 0], degrees[:, 1]
        # NaN and infinite are not below either.
        inside = (np.abs(lons) <= FULL_TURN) & (np.abs(lats) <= POLE + NOISE_DEGREES)
        if inside.all():
            return degrees, index
        outside = np.zeros(len(rows), bool)
        outside[index[~inside]] = True
        bad = np.flatnonzero(~inside)
        if self._reprojection.is_geographic:
            fits = (np.abs(source[:, 0]) <= POLE) & (np.abs(source[:, 1]) <= ANTIMERIDIAN)
            self._fit_swapped += len(np.setdiff1d(index[bad], index[~fits]))
        self._outside += int(outside.sum())
        firsts = dict(zip(index[bad][::-1].tolist(), bad[::-1].tolist(), strict=True))
        left = rows.drop(outside, "out_of_range", lambda place: _describe(source[firsts[place]]))
        kept = left[index]
        return degrees[kept], (np.cumsum(left) - 1)[index[kept]]

    def _bend(self, rows: Rows, degrees: "Floats", index: "Integers") -> tuple["Floats", "Integers"]:
        """Give vertices to rows with sides that span many degrees, where these are not straight in degrees."""
        places = np.unique(index[1:][is_wide(degrees) & (np.diff(index) == 0)])
        changed = np.zeros(len(rows), bool)
        for place in places[shapely.get_dimensions(rows.geometry[places]) > 0]:
            before = rows.geometry[place]
            rows.geometry[place] = bend(before, self._reprojection.to_degrees, self._reprojection.poles)
            changed[place] = not rows.geometry[place].equals_exact(before)
        if not changed.any():
            return degrees, index
        rows.change(changed, "vertices_added")
        source, index = _read_coordinates(rows)
        degrees = self._reprojection.to_degrees(source[:, :2])
        degrees[:, 1] = np.where(changed[index], snap_to_poles(degrees[:, 1]), degrees[:, 1])
        return degrees, index

    def _move(self, rows: Rows, degrees: "Floats", index: "Integers") -> None:
        lons, lats = degrees[:, 0], degrees[:, 1]
        beyond = bool((np.abs(lats) > POLE).any())
        degrees = np.stack([lons, np.clip(lats, -POLE, POLE)], axis=1) if beyond else degrees
        whole = lons.min() >= -ANTIMERIDIAN and lons.max() <= ANTIMERIDIAN
        source = rows.geometry
        if self._reprojection.is_needed or beyond:
            rows.geometry = _write(rows, degrees)
        if whole and np.ptp(lons) <= ANTIMERIDIAN:
            return
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        west, east = np.minimum.reduceat(lons, starts), np.maximum.reduceat(lons, starts)
        is_point = shapely.get_dimensions(rows.geometry) == 0
        wide = ~is_point & (east - west > ANTIMERIDIAN)
        inside = (west >= -ANTIMERIDIAN) & (east <= ANTIMERIDIAN)
        laps = np.where(is_point | wide | inside, 0, np.floor((west + ANTIMERIDIAN) / FULL_TURN))
        crosses = wide | (~is_point & (east > FULL_TURN * laps + ANTIMERIDIAN + NOISE_DEGREES))
        shifted = np.where(is_point[index], wrap_points(lons), lons - FULL_TURN * np.where(crosses, 0, laps)[index])
        moved = shifted != lons
        if moved.any():
            degrees[:, 0] = shifted
            rows.geometry = _write(rows, degrees)
            rows.change(np.isin(np.arange(len(rows)), index[moved]), "longitude_shifted")
        self._cut(rows, source, crosses)

    def _cut(self, rows: Rows, source: "npt.NDArray[np.object_]", crosses: "Mask") -> None:
        projected = not self._reprojection.is_geographic
        locate = self._reprojection.to_degrees if projected else None
        changed, drawn = np.zeros(len(rows), bool), rows.geometry.copy()
        for place in np.flatnonzero(crosses):
            found = cut(drawn[place], source[place] if projected else None, locate)
            changed[place] = found is not drawn[place]
            rows.geometry[place] = found
        if not projected:
            moved = ~np.isclose(_measure(drawn[changed]), _measure(rows.geometry[changed]))
            self._across_zero += int((moved & (shapely.bounds(drawn[changed])[:, 0] >= 0)).sum())
        cut_ones = rows.geometry.copy()
        rows.change(changed, "antimeridian", lambda place: _describe_cut(drawn[place], cut_ones[place]))


def _read_coordinates(rows: Rows) -> tuple["Floats", "Integers"]:
    """The coordinates of rows and the places of these; rows with any that is not finite are dropped."""
    has_z = bool(shapely.has_z(rows.geometry[:1]).any())
    points, index = shapely.get_coordinates(rows.geometry, include_z=has_z, return_index=True)
    finite = np.isfinite(points[:, :2]).all(axis=1)
    if finite.all():
        return points, index
    broken = np.zeros(len(rows), bool)
    broken[index[~finite]] = True
    left = rows.drop(broken, "not_finite")
    kept = left[index]
    return points[kept], (np.cumsum(left) - 1)[index[kept]]


def _write(rows: Rows, degrees: "Floats") -> "npt.NDArray[np.object_]":
    """Geometries with other longitudes and latitudes, and their heights."""
    geometry = rows.geometry.copy()
    if shapely.has_z(geometry[:1]).any():
        heights = shapely.get_coordinates(geometry, include_z=True)[:, 2:]
        degrees = np.concatenate([degrees, heights], axis=1)
    return np.asarray(shapely.set_coordinates(geometry, degrees))


def _measure(shapes: "npt.NDArray[np.object_]") -> "Floats":
    """The area of polygons, and the length of lines."""
    found: Floats = np.where(shapely.get_dimensions(shapes) == 2, shapely.area(shapes), shapely.length(shapes))
    return found


def _describe_cut(drawn: shapely.Geometry, found: shapely.Geometry) -> str:
    before, after = _measure(np.array([drawn, found], object))
    parts = f"{len(shapely.get_parts(found))} parts"
    what = "area" if shapely.get_dimensions(found) == 2 else "length"
    return parts if np.isclose(before, after) else f"{parts}, of the {what} {after:.4g}; as drawn {before:.4g}"


def _describe(point: "Floats") -> str:
    return f"x {point[0]:.10g}, y {point[1]:.10g}"
