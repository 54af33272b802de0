"""Shapes near and over a pole keep their area, compared in an equal-area projection and on the ellipsoid (V2)."""

from functools import cache

import numpy as np
import pyproj
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shapely import LineString, MultiPolygon, Point, Polygon, box

from tests.support.vector_batches import clean, make_layer

M = 1_000_000
GLOBE = box(-180, -90, 180, 90)
EARTH = pyproj.Geod(ellps="WGS84")
EQUAL_AREA = {"EPSG:3031": "EPSG:6932", "EPSG:3995": "EPSG:6931", "EPSG:3413": "EPSG:6931"}
WEDGE = Polygon([(0, 0), (M, 0), (M, M), (-M, M), (-M, -M), (0, -M)])


@cache
def transformer(source: str, target: str) -> pyproj.Transformer:
    return pyproj.Transformer.from_crs(source, target, always_xy=True)


def measure(geometry: shapely.Geometry, source: str, target: str, side: float) -> float:
    """The area in an equal-area projection, of a shape whose sides are straight in its own CRS."""
    dense = shapely.segmentize(shapely.get_parts(geometry), side)
    move = transformer(source, target).transform
    return float(shapely.area(shapely.transform(dense, lambda points: np.stack(move(*points.T), axis=1))).sum())


def clean_one(geometry: shapely.Geometry, crs: str) -> shapely.Geometry:
    (found,) = clean(make_layer([geometry], crs=crs)).geometries()
    assert GLOBE.covers(found)
    return found


def share_of_area(geometry: shapely.Geometry, crs: str) -> float:
    target = EQUAL_AREA[crs]
    return measure(clean_one(geometry, crs), "EPSG:4326", target, 0.05) / measure(geometry, crs, target, 5_000)


@pytest.mark.parametrize("crs", list(EQUAL_AREA))
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(box(-2 * M, -2 * M, 2 * M, 2 * M), id="around"),
        pytest.param(shapely.orient_polygons(box(-M, -M, M, M), exterior_cw=True), id="clockwise"),
        pytest.param(Polygon([(-2 * M, -M), (2 * M, -M), (0, 2 * M)]), id="triangle"),
        pytest.param(box(-10, -10, 10, 10), id="small"),
        pytest.param(box(10_000, -M, M, M), id="close"),
        pytest.param(Polygon([(-2 * M, 50_000), (2 * M, 50_000), (0, 2 * M)]), id="side close"),
        pytest.param(box(0, -M, M, M), id="side over it"),
        pytest.param(box(0, 0, M, M), id="vertex at it"),
        pytest.param(WEDGE, id="reflex vertex at it"),
        pytest.param(box(-2 * M, -2 * M, 2 * M, 2 * M) - box(-M, -M, M, M), id="hole around"),
        pytest.param(box(-2 * M, -2 * M, 2 * M, 2 * M) - box(M / 10, -M, M, M), id="hole close"),
        pytest.param(box(-2 * M, -2 * M, 2 * M, 2 * M) - box(0, 0, M, M), id="hole with a vertex at it"),
        pytest.param(box(-2 * M, -2 * M, 2 * M, 2 * M) - box(0, -M, M, M), id="hole with a side over it"),
        pytest.param(MultiPolygon([box(-M, -M, M, M), box(2 * M, 2 * M, 3 * M, 3 * M)]), id="two"),
    ],
)
def test_v2_a_polygon_near_a_pole_keeps_its_area(crs: str, shape: shapely.Geometry) -> None:
    assert share_of_area(shape, crs) == pytest.approx(1, abs=5e-4)


turns = st.lists(st.floats(0, 2 * np.pi - 0.2), min_size=3, max_size=8, unique_by=lambda turn: round(turn, 1))


@settings(max_examples=15, deadline=None)
@example(525_098, 0, 10_000, [0.0, 1.0, 2.0], False)
@given(st.floats(-2 * M, 2 * M), st.floats(-2 * M, 2 * M), st.floats(10_000, 2 * M), turns, st.booleans())
def test_v2_every_polygon_near_a_pole_keeps_its_area(
    x: float, y: float, size: float, turns: list[float], south: bool
) -> None:
    shape = Polygon([(x + size * np.cos(turn), y + size * np.sin(turn)) for turn in sorted(turns)])
    if shape.area > size**2 / 4:
        assert share_of_area(shape, "EPSG:3031" if south else "EPSG:3995") == pytest.approx(1, abs=3e-2)


def coast() -> np.typing.NDArray[np.float64]:
    """A ring around the South Pole in degrees, which crosses the antimeridian once, as naive conversions write it."""
    lons = np.arange(-179.75, 180, 0.5)
    lats: np.typing.NDArray[np.float64] = -72 + 6 * np.sin(np.radians(3 * lons)) + 2 * np.cos(np.radians(17 * lons))
    return np.stack([lons, lats], axis=1)


def geodesic_area(geometry: shapely.Geometry) -> float:
    return abs(EARTH.geometry_area_perimeter(geometry)[0])


@pytest.mark.parametrize("crs", ["EPSG:3031", "EPSG:4326"])
@pytest.mark.parametrize("clockwise", [True, False])
def test_v2_a_continent_around_a_pole_has_its_area_on_the_ellipsoid(crs: str, clockwise: bool) -> None:
    ring = coast()[:: -1 if clockwise else 1]
    x, y = transformer("EPSG:4326", crs).transform(*ring.T)
    found = clean_one(Polygon(np.c_[x, y]), crs)
    wanted = geodesic_area(Polygon(ring))
    assert sum(map(geodesic_area, shapely.get_parts(found))) == pytest.approx(wanted, rel=1e-4)
    assert found.bounds[1] == -90
    assert found.contains(Point(0, -85))


@pytest.mark.parametrize("north", [True, False])
@pytest.mark.parametrize("shift", [0, 180])
def test_v2_a_ring_in_degrees_around_a_pole_is_closed_over_it(north: bool, shift: int) -> None:
    """Longitudes may be from 0 to 360; a hole around the pole stays one."""
    side = 1 if north else -1
    lons = np.arange(-175, 180, 10.0) + shift
    outer, inner = np.c_[lons, np.full(len(lons), side * 60.0)], np.c_[lons, np.full(len(lons), side * 80.0)]
    found = clean_one(Polygon(outer), "EPSG:4326")
    assert found.equals(box(-180, 60, 180, 90) if north else box(-180, -90, 180, -60))
    ring = clean_one(Polygon(outer, [inner]), "EPSG:4326")
    assert ring.area == pytest.approx(360 * 20)


@pytest.mark.parametrize(
    "shape",
    [
        Polygon([(-170, 60), (-60, 60), (60, 60), (170, 60), (170, 80), (-170, 80)]),
        Polygon([*((lon, 10.0) for lon in range(-170, 180, 20)), (170, 70), (-170, 70)]),
        Polygon([(-180, -60), *((lon, -62.0) for lon in range(-160, 180, 20)), (180, -60), (180, -80), (-180, -80)]),
    ],
)
def test_v2_a_shape_that_is_drawn_on_a_map_of_the_world_is_not_closed_over_a_pole(shape: Polygon) -> None:
    assert clean_one(shape, "EPSG:4326").equals(shape)


def test_v2_a_line_over_a_pole_keeps_its_length() -> None:
    found = clean_one(LineString([(-M, -M), (M, M)]), "EPSG:3031")
    ends = transformer("EPSG:3031", "EPSG:4326").transform([-M, M], [-M, M])
    wanted = EARTH.inv(ends[0][0], ends[1][0], ends[0][1], ends[1][1])[2]
    lengths = [EARTH.line_length(*shapely.get_coordinates(part).T) for part in shapely.get_parts(found)]
    assert sum(lengths) == pytest.approx(wanted, rel=1e-6)
    assert found.bounds[1] == -90


def test_v2_sides_that_are_straight_in_degrees_get_no_vertices() -> None:
    cleaned = clean(make_layer([box(-M, -M, M, 5 * M)], crs="EPSG:3857"))
    assert cleaned.changes() == {}
    cleaned = clean(make_layer([box(500_000, 5_800_000, 540_000, 5_840_000)], crs="EPSG:25832"))
    assert cleaned.changes() == {}
