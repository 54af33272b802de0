"""Geometries of any kind become those of tables; whatever is dropped or changed is noted (V1)."""

import struct

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import Family
from anabranch.plugins.vector.settings import VectorSettings
from tests.support.vector_batches import Cleaned, clean, make_layer

CURVE = struct.pack("<BII6d", 1, 8, 3, 0, 0, 1, 1, 2, 0)
OPEN_RING = struct.pack("<BIII6d", 1, 3, 1, 3, 0, 0, 1, 0, 1, 1)
NAN_POINT = struct.pack("<BI2d", 1, 1, np.nan, 1.0)
SQUARE = "POLYGON((0 0,1 0,1 1,0 1,0 0))"
BOW_TIE = "POLYGON((0 0,1 1,1 0,0 1,0 0))"


def nest(levels: int, kind: int = 7) -> bytes:
    return struct.pack("<BII", 1, kind, 1) * levels + struct.pack("<BI2d", 1, 1, 1.0, 2.0)


def samples(cleaned: Cleaned, what: str) -> list[tuple[int, str]]:
    found = {**cleaned.report.dropped, **cleaned.report.changed}[what]
    return [(sample.row, sample.what) for sample in found.samples]


def test_v1_null_empty_and_unreadable_geometries_are_dropped() -> None:
    rows = [None, "POINT EMPTY", "POINT(1 2)", "POLYGON EMPTY", b"junk", CURVE, "GEOMETRYCOLLECTION EMPTY", NAN_POINT]
    cleaned = clean(make_layer(rows))

    assert cleaned.counts() == {"null_geometry": 1, "unreadable_geometry": 2, "empty_geometry": 3, "not_finite": 1}
    assert samples(cleaned, "unreadable_geometry") == [(5, "4 bytes: 6a 75 6e 6b"), (6, "CircularString")]
    assert cleaned.column("name") == ["row 3"]


@pytest.mark.parametrize("kind", [4, 5, 6, 7, 9, 10, 11, 12])
def test_collections_in_collections_without_end_are_not_parsed(kind: int) -> None:
    hostile = [
        nest(20_000, kind),
        struct.pack("<BII", 1, 7, 2) + shapely.to_wkb(shapely.Point(1, 2)) + nest(20_000, kind),
    ]
    cleaned = clean(make_layer([*hostile, "POINT(1 2)", nest(50), shapely.MultiPoint(np.random.rand(2_000, 2))]))

    assert cleaned.counts() == {"unreadable_geometry": 2}


def test_v1_mixed_geometries_go_to_a_table_each() -> None:
    rows = [
        "POINT(1 2)",
        "LINESTRING(0 0,1 1)",
        SQUARE,
        "MULTIPOINT(1 1,2 2)",
        f"GEOMETRYCOLLECTION(POINT(1 1),{SQUARE})",
    ]
    cleaned = clean(make_layer(rows))

    assert [(batch.family, batch.rows.tolist()) for batch in cleaned.batches] == [
        (Family.POINT, [1, 4]), (Family.LINE, [2]), (Family.POLYGON, [3, 5]),
    ]  # fmt: skip
    assert [batch.attributes["name"].to_pylist() for batch in cleaned.batches] == [
        ["row 1", "row 4"], ["row 2"], ["row 3", "row 5"],
    ]  # fmt: skip
    assert samples(cleaned, "collection_parts_lost") == [(5, "kept: MultiPolygon")]
    assert [one.geom_type for one in cleaned.geometries()] == [
        "Point", "MultiPoint", "MultiLineString", "MultiPolygon", "MultiPolygon",
    ]  # fmt: skip


def test_collections_of_one_dimension_lose_nothing() -> None:
    nested = "GEOMETRYCOLLECTION(POINT(1 1),GEOMETRYCOLLECTION(MULTIPOINT(2 2,3 3),POINT EMPTY))"
    cleaned = clean(make_layer([nested, "GEOMETRYCOLLECTION(POINT(1 1))"]))

    assert cleaned.changes() == {"collection_flattened": 2}
    assert cleaned.geometries()[0].equals(shapely.from_wkt("MULTIPOINT(1 1,2 2,3 3)"))


@pytest.mark.parametrize(
    ("wkt", "area", "reason"),
    [
        (BOW_TIE, 0.5, "Self-intersection[0.5 0.5]; area 0 -> 0.5"),
        ("POLYGON((0 0,1 0,1 1,2 2,1 1,0 1,0 0))", 1, "Self-intersection[2 2]; area 1 -> 1"),
        (f"MULTIPOLYGON({SQUARE[7:]},{SQUARE[7:]})", 1, "Self-intersection[1 1]; area 2 -> 1"),
        ("POLYGON((0 0,4 0,4 4,0 4,0 0),(1 1,2 1,2 2,1 2,1 1),(1 1,2 1,2 2,1 2,1 1))", 15, "; area 14 -> 15"),
    ],
)
def test_v1_invalid_polygons_are_repaired_and_their_areas_reported(wkt: str, area: float, reason: str) -> None:
    cleaned = clean(make_layer([wkt, SQUARE]))

    assert cleaned.geometries()[0].area == pytest.approx(area)
    assert cleaned.changes()["repaired"] == 1
    ((row, what),) = samples(cleaned, "repaired")
    assert row == 1
    assert what.endswith(reason)


def test_v1_what_has_no_area_or_length_is_dropped_with_the_reason() -> None:
    rows = ["POLYGON((0 0,1 1,2 2,0 0))", "LINESTRING(1 1,1 1)", f"POLYGON({SQUARE[8:-1]},{SQUARE[8:-1]})", SQUARE]
    cleaned = clean(make_layer(rows))

    assert cleaned.counts() == {"nothing_left_of_invalid": 3}
    assert samples(cleaned, "nothing_left_of_invalid")[1] == (2, "Too few points in geometry component[1 1]")
    assert cleaned.changes() == {}


def test_v1_a_repaired_row_has_its_reason_where_others_of_its_batch_are_dropped() -> None:
    flat, spur = "POLYGON((1 1,2 2,3 3,1 1))", "POLYGON((0 0,2 0,2 2,1 2,1 3,1 2,0 2,0 0))"
    (sample,) = clean(make_layer([flat] * 6 + [spur])).report.changed["repaired"].samples
    assert (sample.row, sample.what) == (7, "Self-intersection[1 3]; area 4 -> 4")


def test_rings_are_closed_and_oriented() -> None:
    clockwise = "POLYGON((0 0,0 9,9 9,9 0,0 0),(1 1,2 1,2 2,1 2,1 1))"
    cleaned = clean(make_layer([OPEN_RING, clockwise]))

    assert cleaned.changes() == {"rings_closed": 1, "rings_oriented": 1}
    (turned,) = cleaned.geometries()[1].geoms
    assert turned.exterior.is_ccw
    assert not turned.interiors[0].is_ccw


def test_heights_and_measures_are_dropped() -> None:
    rows = ["POINT Z(1 2 3)", "POINT M(1 2 3)", "LINESTRING ZM(0 0 1 1,1 1 2 2)", "POINT(1 2)"]
    cleaned = clean(make_layer(rows))

    assert cleaned.changes() == {"z_dropped": 2, "m_dropped": 2}
    assert not shapely.has_z(cleaned.geometries()).any()
    assert not shapely.has_m(cleaned.geometries()).any()


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:25832"])
def test_heights_are_kept_if_asked_for(crs: str) -> None:
    rows = ["POINT Z(5 7 3)", "POINT ZM(5 7 4 9)", "POINT(5 7)", "POINT Z(5 7 nan)", "LINESTRING Z(5 7 1,6 8 2)"]
    if crs == "EPSG:25832":
        rows = [row.replace("5 7", "500000 5800000").replace("6 8", "500001 5800001") for row in rows]
    cleaned = clean(make_layer(rows, crs=crs), keep_z=True)

    heights = shapely.get_coordinates(cleaned.geometries(), include_z=True)[:, 2]
    assert heights.tolist() == [3, 4, 0, 0, 1, 2]
    assert cleaned.changes() == {"m_dropped": 1, "z_added": 1, "z_not_finite": 1}
    assert all(one.has_z for one in cleaned.geometries())


def test_a_layer_whose_first_rows_have_no_heights_has_none() -> None:
    cleaned = clean(make_layer(["POINT(1 2)", "POINT Z(1 2 3)"]), max_rows=1, keep_z=True)
    assert cleaned.changes() == {"z_dropped": 1}
    assert not shapely.has_z(cleaned.geometries()).any()


def test_heights_of_what_is_cut_are_kept() -> None:
    (line,) = clean(make_layer(["LINESTRING Z(170 0 0,190 0 10)"]), keep_z=True).geometries()
    assert shapely.get_coordinates(line, include_z=True)[:, 2].tolist() == [0, 5, 5, 10]


def test_a_feature_with_too_many_vertices_is_refused() -> None:
    line = shapely.LineString(np.random.rand(11, 2))
    with pytest.raises(Permanent, match="row 2 has 11 vertices, and 10 are allowed") as caught:
        clean(make_layer(["POINT(1 2)", line]), settings=VectorSettings(vector_max_vertices=10))
    assert caught.value.code == "vector.vertices"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "the layer layer has no features$"),
        ([None, None, "POINT EMPTY"], "no features left: 2 null_geometry, 1 empty_geometry were dropped"),
    ],
)
def test_a_layer_without_features_is_refused(rows: list[object], message: str) -> None:
    with pytest.raises(Permanent, match=message) as caught:
        clean(make_layer(rows))
    assert caught.value.code == "vector.no_features"


GEOMETRIES = st.sampled_from([
    None, b"junk", CURVE, NAN_POINT, OPEN_RING, SQUARE, BOW_TIE, "POINT(1 2)", "POINT EMPTY", "POINT(190 1)",
    "POINT(1 100)", "LINESTRING(1 1,1 1)", "LINESTRING(170 0,-170 0)", "POLYGON((170 0,190 0,190 5,170 5,170 0))",
    "MULTIPOLYGON EMPTY", "POINT ZM(1 2 3 4)", "GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))",
])  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(GEOMETRIES, max_size=20), st.integers(1, 7), st.booleans())
def test_v1_rows_read_are_rows_written_and_rows_dropped(rows: list[object], size: int, keep_z: bool) -> None:
    cleaned = clean(make_layer(["POINT(1 1)", *rows, *["POINT(2 2)"] * len(rows)]), max_rows=size, keep_z=keep_z)

    kept = sorted(number for batch in cleaned.batches for number in batch.rows.tolist())
    assert len(set(kept)) == len(kept)
    names = {
        number: name
        for batch in cleaned.batches
        for number, name in zip(batch.rows.tolist(), batch.attributes["name"].to_pylist(), strict=True)
    }
    assert names == {number: f"row {number}" for number in kept}


def test_heights_around_a_pole_are_kept_in_all_vertices() -> None:
    cap = shapely.force_3d(shapely.Point(0, 0).buffer(1_000_000), 7)
    (found,) = clean(make_layer([cap], crs="EPSG:3031"), keep_z=True).geometries()
    assert np.isfinite(shapely.get_coordinates(found, include_z=True)).all()


def test_a_latitude_a_hair_past_the_pole_is_moved_onto_it() -> None:
    (found,) = clean(make_layer(["POINT(5 90.0000000001)"])).geometries()
    assert (found.x, found.y) == (5, 90)
