"""Points that need no repair are cleaned without objects, and as all others are."""

import numpy as np
import pytest
import shapely

from anabranch.plugins.vector.cleaning import cleaner
from anabranch.plugins.vector.cleaning.plain_points import PlainPoints
from tests.support.vector_batches import clean, make_layer

ORDINARY = ["POINT(9.5 54.25)", "POINT(-180 -90)", "POINT(180 90)", "POINT(0 0)"]
MULTI = "MULTIPOINT(1 2)"


@pytest.mark.parametrize(
    ("crs", "rows"),
    [
        ("EPSG:4326", ORDINARY),
        ("EPSG:4326", [*ORDINARY, "POINT(190 10)", "POINT(1 91)", "POINT EMPTY", None, "POINT Z(1 2 3)", MULTI]),
        ("EPSG:4326", [*ORDINARY, shapely.to_wkb(shapely.Point(3, 4), byte_order=0), b"\x01\x01\x00\x00\x00", b""]),
        ("EPSG:4326", [*ORDINARY, *(shapely.to_wkb(shapely.points(x, 4)) for x in (np.nan, np.inf))]),
        ("EPSG:25832", ["POINT(500000 5800000)", "POINT(450000 5700000)", "POINT(1e12 5e12)", "POINT(5e5 58e5)"]),
        ("EPSG:4267", ["POINT(-98.5 39.8)", "POINT(-179.9999999 60)", "POINT(179.9999999 52)"]),
    ],
)  # fmt: skip
def test_v1_plain_points_are_cleaned_as_all_others(
    monkeypatch: pytest.MonkeyPatch, crs: str, rows: list[object]
) -> None:
    plain = clean(make_layer(rows, crs=crs), max_rows=2)
    monkeypatch.setattr(cleaner, "read_points", lambda _: None)
    other = clean(make_layer(rows, crs=crs), max_rows=2)
    assert any(isinstance(batch.geometry, PlainPoints) for batch in plain.batches)
    assert plain.report == other.report
    assert [shape.wkb for shape in plain.geometries()] == [shape.wkb for shape in other.geometries()]
    assert [batch.rows.tolist() for batch in plain.batches] == [batch.rows.tolist() for batch in other.batches]
    assert plain.column("name") == other.column("name")


def test_points_with_heights_to_keep_are_not_plain() -> None:
    cleaned = clean(make_layer(["POINT Z(1 2 3)", "POINT(1 2)"]), max_rows=1, keep_z=True)
    assert not any(isinstance(batch.geometry, PlainPoints) for batch in cleaned.batches)
