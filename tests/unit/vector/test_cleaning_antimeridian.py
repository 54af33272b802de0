"""What crosses the antimeridian is cut there, and everything keeps its area (V2)."""

import numpy as np
import pyproj
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely import MultiPolygon, Point, Polygon, box

from anabranch.plugins.vector.models import Family
from tests.support.vector_batches import clean, make_layer

GLOBE = box(-180, -90, 180, 90)


def wrap(geometry: shapely.Geometry) -> shapely.Geometry:
    """A geometry as files without cuts have it: each longitude from -180 to 180."""
    return shapely.transform(geometry, lambda points: np.c_[(points[:, 0] + 180) % 360 - 180, points[:, 1]])


def clean_one(geometry: object, crs: str = "EPSG:4326") -> tuple[shapely.Geometry, dict[str, int]]:
    cleaned = clean(make_layer([geometry], crs=crs))
    (found,) = cleaned.geometries()
    assert GLOBE.covers(found)
    return found, cleaned.changes()


def test_v2_a_polygon_that_crosses_is_cut() -> None:
    found, changes = clean_one(wrap(box(177, -20, 182, -15)))

    assert found.equals(MultiPolygon([box(177, -20, 180, -15), box(-180, -20, -178, -15)]))
    assert changes == {"antimeridian": 1}


def test_v2_holes_of_a_polygon_that_crosses_are_kept() -> None:
    holes = [box(175, 2, 176, 3), box(177, 2, 178, 3), box(179, 2, 181, 3), box(182, 2, 183, 3), box(184, 2, 185, 3)]
    shape = shapely.difference(box(170, 0, 190, 10), shapely.union_all(holes))

    found, _ = clean_one(wrap(shape))

    assert found.area == pytest.approx(200 - 6)
    assert not any(found.covers(wrap(hole).centroid) for hole in (holes[0], holes[1], holes[3], holes[4]))


@pytest.mark.parametrize(
    "geometry",
    [
        box(-180, -90, 180, 90),
        box(-180, -60, 180, 75),
        box(-179.9, -89, 179.9, 89),
        box(-170, -80, 170, 80),
        box(-65, 10, 144, 50),
        shapely.segmentize(box(-180, -90, 180, 90), 10),
        Polygon([(-180, -90), (180, -90), (180, 0), (180, 90), (-180, 90)]),
        Polygon([(-180, -90), (-180, -78), (-60, -65), (60, -70), (180, -78), (180, -90)]),  # Antarctica
        Polygon([(-100, 0), (100, 0), (0, 80)]),
        MultiPolygon([box(-178, 51, -170, 53), box(-100, 30, -80, 50), box(172, 52, 179, 53)]),
    ],
)
def test_v2_a_world_polygon_and_a_country_with_far_islands_stay_as_they_are(geometry: shapely.Geometry) -> None:
    found, changes = clean_one(geometry)

    assert found.equals(geometry)
    assert "antimeridian" not in changes


def test_v2_only_the_part_that_crosses_is_cut() -> None:
    shape = MultiPolygon([box(-100, 30, -80, 50), Polygon([(175, 50), (-175, 50), (-178, 55), (178, 56)])])

    found, _ = clean_one(shape)

    assert len(found.geoms) == 3
    assert box(-100, 30, -80, 50).normalize() in [part.normalize() for part in found.geoms]


@pytest.mark.parametrize(
    ("geometry", "wkt", "changes"),
    [
        ("POINT(190 5)", "POINT(-170 5)", {"longitude_shifted": 1}),
        ("POINT(180 5)", "POINT(180 5)", {}),
        ("MULTIPOINT(10 5,350 5)", "MULTIPOINT(10 5,-10 5)", {"longitude_shifted": 1}),
        (box(200, 0, 210, 5), "MULTIPOLYGON(((-160 0,-150 0,-150 5,-160 5,-160 0)))", {"longitude_shifted": 1}),
        ("LINESTRING(180 0,190 5)", "MULTILINESTRING((-180 0,-170 5))", {"longitude_shifted": 1}),
        ("LINESTRING(180 0,180 5)", "MULTILINESTRING((180 0,180 5))", {}),
        ("LINESTRING(170 0,190 5)", "MULTILINESTRING((170 0,180 2.5),(-180 2.5,-170 5))", {"antimeridian": 1}),
        ("LINESTRING(170 0,-170 5)", "MULTILINESTRING((170 0,180 2.5),(-180 2.5,-170 5))", {"antimeridian": 1}),
        ("LINESTRING(170 0,-180 5)", "MULTILINESTRING((170 0,180 5))", {"antimeridian": 1}),
        ("POLYGON((170 0,-180 0,170 5,170 0))", "MULTIPOLYGON(((170 0,180 0,170 5,170 0)))", {"antimeridian": 1}),
        ("LINESTRING(-180 0,180 0)", "MULTILINESTRING((-180 0,180 0))", {}),
        ("LINESTRING(355 0,5 0)", "MULTILINESTRING((-5 0,5 0))", {"antimeridian": 1}),
        (
            "LINESTRING(170 0,180 0,180 5,-170 5)",
            "MULTILINESTRING((170 0,180 0),(-180 0,-180 5,-170 5))",
            {"antimeridian": 1},
        ),
        (
            box(-190, 0, -170, 5),
            "MULTIPOLYGON(((170 0,180 0,180 5,170 5,170 0)),((-180 0,-170 0,-170 5,-180 5,-180 0)))",
            {"antimeridian": 1},
        ),
        (box(0, -90, 360, 90), "MULTIPOLYGON(((-180 -90,180 -90,180 90,-180 90,-180 -90)))", {"antimeridian": 1}),
    ],
)  # fmt: skip
def test_v2_longitudes_past_180_are_shifted_or_cut(geometry: object, wkt: str, changes: dict[str, int]) -> None:
    found, noted = clean_one(geometry)

    assert found.equals(shapely.from_wkt(wkt))
    assert {what: count for what, count in noted.items() if what != "rings_oriented"} == changes


@pytest.mark.parametrize(
    "shape",
    [
        box(20, 0, 345, 10),
        Polygon([(20, 0), (345, 0), (350, 5), (345, 10), (20, 10), (15, 5)]),
        shapely.difference(box(20, 0, 345, 10), box(30, 2, 340, 8)),
        MultiPolygon([box(1, 0, 9, 5), box(100, 0, 310, 10)]),
        Polygon([(10, 0), (200, 0), (100, 50)]),
    ],
)
def test_v2_a_shape_from_0_to_360_degrees_keeps_its_area(shape: shapely.Geometry) -> None:
    cleaned = clean(make_layer([shape]))
    (found,) = cleaned.geometries()
    assert GLOBE.covers(found)
    assert found.area == pytest.approx(shape.area)
    assert not cleaned.report.warnings


@settings(max_examples=40, deadline=None)
@given(st.floats(0, 300), st.floats(1, 325), st.floats(-80, 70), st.booleans())
def test_v2_boxes_from_0_to_360_degrees_keep_their_area(west: float, width: float, south: float, turned: bool) -> None:
    shape = box(west, south, min(west + width, 360), south + 10, ccw=turned)
    assert clean_one(shape)[0].area == pytest.approx(shape.area)


def test_v2_a_ring_from_0_to_360_degrees_around_a_pole_reaches_it() -> None:
    found, _ = clean_one(Polygon([(lon, 60) for lon in range(0, 360, 45)]))
    assert found.area == pytest.approx(360 * 30)


def test_v2_a_shape_across_0_degrees_is_a_warning_with_its_areas() -> None:
    """As remainders of 360 degrees give it: nothing shows whether it is 10 or 350 degrees wide."""
    cleaned = clean(make_layer([Polygon([(355, 0), (5, 0), (5, 5), (355, 5)]), "LINESTRING(1 2,3 4)"]))
    assert cleaned.geometries(Family.POLYGON)[0].area == pytest.approx(50)
    (warning,) = cleaned.report.warnings
    assert warning.startswith("1 shapes with longitudes from 0 to 360")
    assert cleaned.report.changed["antimeridian"].samples[0].what == "1 parts, of the area 50; as drawn 1750"


def test_v2_a_layer_from_0_to_360_degrees_is_shifted_row_by_row() -> None:
    lons = np.arange(5, 360, 10.0)
    cleaned = clean(make_layer(list(shapely.box(lons - 4, 0, lons + 4, 5))))

    assert cleaned.changes() == {"longitude_shifted": 18}
    assert [one.centroid.x for one in cleaned.geometries()] == pytest.approx(np.where(lons > 180, lons - 360, lons))


@pytest.mark.parametrize("crs", ["EPSG:3832", "EPSG:32660", "EPSG:2193", "EPSG:3460"])
def test_v2_a_projected_layer_is_cut_where_it_crosses(crs: str) -> None:
    to_crs = pyproj.Transformer.from_crs(4326, crs, always_xy=True)
    square = shapely.segmentize(box(176, -20, 184, -15), 0.5)
    source = shapely.transform(square, lambda points: np.stack(to_crs.transform(*points.T), axis=1))

    found, changes = clean_one(source, crs)

    assert found.area == pytest.approx(40, rel=1e-6)
    assert changes["antimeridian"] == 1
    assert len(found.geoms) == 2


@pytest.mark.parametrize("crs", ["EPSG:4167", "EPSG:4258", "EPSG:4807"])
@pytest.mark.parametrize("wrapped", [True, False])
def test_v2_a_layer_in_other_degrees_is_cut_where_it_crosses(crs: str, wrapped: bool) -> None:
    shape = Polygon([(174, -40), (184, -41), (183, -30)])
    unit = 400 / 360 if crs == "EPSG:4807" else 1  # grads from Paris
    source = shapely.transform(wrap(shape) if wrapped else shape, lambda points: points * unit)

    found, changes = clean_one(source, crs)

    assert found.area == pytest.approx(shape.area, rel=1e-4)
    assert changes["antimeridian"] == 1


@pytest.mark.parametrize(
    ("crs", "x", "y", "area"),
    [
        ("EPSG:3857", 20037508.342789244, 20037508.34, 360 * 170.1022575596),
        ("EPSG:3857", 20037508.3428, 20037508.3428, 360 * 170.1022575596),  # rounded, so beyond the edge
        ("EPSG:4087", 18924313.434856508, 10018754.171394622, 340 * 180),
    ],
)
@pytest.mark.parametrize("side", [None, 2_000_000])
def test_v2_a_projected_world_polygon_keeps_its_area(
    crs: str, x: float, y: float, area: float, side: float | None
) -> None:
    world = box(-x, -y, x, y)
    found, _ = clean_one(shapely.segmentize(world, side) if side else world, crs)

    assert found.area == pytest.approx(area, rel=1e-6)


@pytest.mark.parametrize(("crs", "pole"), [("EPSG:3031", -90), ("EPSG:3995", 90), ("EPSG:3413", 90)])
@pytest.mark.parametrize("clockwise", [True, False])
def test_v2_a_polygon_around_a_pole_reaches_it(crs: str, pole: int, clockwise: bool) -> None:
    cap = shapely.orient_polygons(Point(0, 0).buffer(2_000_000, quad_segs=64), exterior_cw=clockwise)

    found, _ = clean_one(cap, crs)

    west, south, east, north = found.bounds
    assert (west, east) == (-180, 180)
    assert pole in (south, north)
    assert found.area == pytest.approx(360 * abs(pole - (north if pole < 0 else south)), rel=2e-3)


def test_v2_a_ring_around_a_pole_has_its_hole() -> None:
    ring = Point(0, 0).buffer(2_000_000, quad_segs=64).difference(Point(0, 0).buffer(1_000_000, quad_segs=64))

    found, _ = clean_one(ring, "EPSG:3031")

    assert found.bounds[1] > -90
    assert found.area == pytest.approx(360 * (found.bounds[3] - found.bounds[1]), rel=1e-2)


angles = st.lists(st.floats(0, 2 * np.pi - 0.2), min_size=4, max_size=12, unique_by=lambda angle: round(angle, 1))


def star(lon: float, lat: float, size: float, turns: list[float]) -> Polygon:
    turns = sorted(turns)
    return Polygon([(lon + size * np.cos(turn), lat + size / 2 * np.sin(turn)) for turn in turns])


@settings(max_examples=40, deadline=None)
@given(st.floats(-200, 200), st.floats(-60, 60), st.floats(0.01, 30), angles)
def test_v2_every_polygon_keeps_its_area(lon: float, lat: float, size: float, turns: list[float]) -> None:
    shape = star(lon, lat, size, turns)
    if not shape.is_valid or shape.area < 1e-6:
        return
    found, _ = clean_one(wrap(shape))
    assert found.area == pytest.approx(shape.area, rel=1e-6)

    past, _ = clean_one(shape)
    assert past.area == pytest.approx(shape.area, rel=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(-1790, 1780), st.integers(-800, 800)), min_size=2, max_size=8, unique=True))
def test_v2_islands_keep_their_area_and_stay(corners: list[tuple[int, int]]) -> None:
    islands = shapely.union_all([box(x / 10, y / 10, x / 10 + 1, y / 10 + 1) for x, y in corners])
    found, changes = clean_one(islands)

    assert found.area == pytest.approx(islands.area)
    assert "antimeridian" not in changes


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(150, 210), st.floats(-60, 60)), min_size=2, max_size=10, unique=True))
def test_v2_lines_keep_their_length(points: list[tuple[float, float]]) -> None:
    line = shapely.LineString(points)
    cleaned = clean(make_layer([wrap(line), "LINESTRING(0 0,1 1)"]))

    found = cleaned.geometries(Family.LINE)[0]
    if len(cleaned.geometries()) == 2:
        assert GLOBE.covers(found)
        assert found.length == pytest.approx(line.length, rel=1e-6)
