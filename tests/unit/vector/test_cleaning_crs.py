"""The CRS of a layer is resolved first, and its operation is reported (R1)."""

import json
from pathlib import Path

import numpy as np
import pyproj
import pytest
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.convert import convert
from anabranch.plugins.vector.models import ReadOptions
from anabranch.plugins.vector.settings import VectorSettings
from tests.support.vector_batches import clean, make_layer
from tests.support.vectors import feature
from tests.unit.vector.conftest import Open

UTM32_OF_ESRI = (
    'PROJCS["ETRS_1989_UTM_Zone_32N",GEOGCS["GCS_ETRS_1989",DATUM["D_ETRS_1989",SPHEROID["GRS_1980",6378137.0,'
    '298.257222101]],PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],'
    'PARAMETER["False_Easting",500000.0],PARAMETER["False_Northing",0.0],PARAMETER["Central_Meridian",9.0],'
    'PARAMETER["Scale_Factor",0.9996],PARAMETER["Latitude_Of_Origin",0.0],UNIT["Meter",1.0]]'
)
UNDEFINED = (
    'ENGCRS["Undefined Cartesian SRS",EDATUM["Unknown engineering datum"],CS[Cartesian,2],'
    'AXIS["easting",east,ORDER[1],LENGTHUNIT["metre",1]],AXIS["northing",north,ORDER[2],LENGTHUNIT["metre",1]]]'
)
LOCAL = 'LOCAL_CS["Site grid",UNIT["metre",1]]'
UTM_POINT = "POINT(500000 5800000)"


@pytest.mark.parametrize("crs", ["EPSG:25832", UTM32_OF_ESRI, pyproj.CRS(25832).to_wkt("WKT1_GDAL"), "EPSG:5555"])
def test_r1_a_layer_is_reprojected_from_the_crs_of_its_file(crs: str) -> None:
    cleaned = clean(make_layer([UTM_POINT], crs=crs))

    (point,) = cleaned.geometries()
    assert (point.x, point.y) == pytest.approx((9.0, 52.3503), abs=1e-4)
    assert cleaned.report.crs.source == "EPSG:25832"
    assert cleaned.report.crs.found == "file"
    assert "UTM zone 32N" in (cleaned.report.crs.operation or "")
    assert cleaned.report.crs.accuracy_metres == 1.0


@pytest.mark.parametrize(
    "crs", ["EPSG:4326", "OGC:CRS84", pyproj.CRS(4326).to_wkt("WKT1_ESRI"), pyproj.CRS(4979).to_wkt()]
)
def test_r1_degrees_of_wgs_84_are_not_reprojected(crs: str) -> None:
    report = clean(make_layer(["POINT(9.123456789012345 52)"], crs=crs)).report

    assert (report.crs.source, report.crs.operation, report.warnings) == ("EPSG:4326", None, ())


def test_r1_web_mercator_of_gdal_is_read() -> None:
    wkt = pyproj.CRS(3857).to_wkt("WKT1_GDAL")
    assert "nadgrids=@null" in wkt
    assert clean(make_layer(["POINT(0 0)"], crs=wkt)).report.crs.source == "EPSG:3857"


def test_r1_the_callers_crs_is_used_where_the_file_has_none() -> None:
    report = clean(make_layer([UTM_POINT], crs=None), crs="EPSG:25832").report
    assert (report.crs.source, report.crs.found, report.warnings) == ("EPSG:25832", "caller", ())


@pytest.mark.parametrize(
    ("crs", "found"), [(None, "file"), ("EPSG:4326", "format"), (UNDEFINED, "file"), (LOCAL, "file")]
)
def test_r1_the_callers_crs_overrides_what_is_no_claim_of_the_file(crs: str | None, found: str) -> None:
    cleaned = clean(make_layer([UTM_POINT], crs=crs, crs_found=found), crs="EPSG:25832")
    assert cleaned.report.crs.found == "caller"
    assert cleaned.geometries()[0].x == pytest.approx(9)


def test_r1_the_callers_crs_may_repeat_that_of_the_file() -> None:
    assert clean(make_layer([UTM_POINT], crs=UTM32_OF_ESRI), crs="EPSG:25832").report.crs.found == "file"


def test_r1_columns_of_degrees_need_no_crs() -> None:
    report = clean(make_layer(["POINT(9 52)"], crs=None, crs_found="columns")).report
    assert (report.crs.source, report.crs.found) == ("EPSG:4326", "columns")


def test_r1_values_that_can_only_be_degrees_need_no_crs_but_are_warned_of() -> None:
    report = clean(make_layer(["POINT(9 52)", "POINT(9.5 52)"], crs=None), max_rows=1).report

    assert (report.crs.source, report.crs.found) == ("EPSG:4326", "values")
    assert report.warnings == ("The layer has no CRS; its values are degrees, and EPSG:4326 is used.",)


@pytest.mark.parametrize(
    "geometries",
    [
        ["POINT(-180 -90)", "POINT(180 90)", "LINESTRING(1 2, 3 4.5)"],
        ["POINT(1 2)", "POINT(1.5 2)", "POINT EMPTY"],
        [shapely.Point(np.inf, 1000), "POINT(1 2.5)", None],
    ],
)
@pytest.mark.parametrize("max_rows", [1, 50_000])
def test_r1_degrees_without_a_crs_may_be_at_the_edge_and_beside_rows_without_coordinates(
    geometries: list[object], max_rows: int
) -> None:
    report = clean(make_layer(geometries, crs=None), max_rows=max_rows).report
    assert report.crs.found == "values"


@pytest.mark.parametrize(("x", "accepted"), [("9", False), ("9.5", True), ("180.5", False)])
def test_r1_a_file_without_a_crs_is_taken_for_degrees_only_by_its_values(
    tmp_path: Path, x: str, accepted: bool
) -> None:
    path = tmp_path / "wells.csv"
    path.write_text(f'name,wkt\na,"POINT({x} 52)"\nb,"POINT(10 53)"\n')
    if accepted:
        (report,) = convert(path, tmp_path, ReadOptions(), VectorSettings(), None, lambda *_: None).reports
        assert report.warnings == ("The layer has no CRS; its values are degrees, and EPSG:4326 is used.",)
    else:
        with pytest.raises(Permanent) as caught:
            convert(path, tmp_path, ReadOptions(), VectorSettings(), None, lambda *_: None)
        assert caught.value.code == "vector.crs_missing"


@pytest.mark.parametrize(
    ("geometries", "why"),
    [
        (["POINT(9 52)", "POINT(10 53)"], "all of its coordinates are integers"),
        (["POINT Z(9 52 0.5)"], "all of its coordinates are integers"),
        ([UTM_POINT], "its coordinates go from 500000 5800000 to"),
        (["POINT(9.5 52.5)", "POINT(200.5 10)"], "its coordinates go from 200.5"),
        (["POINT(9.5 90.0000001)"], "to 9.5 90.0000001"),
    ],
)
def test_r1_a_layer_without_crs_is_refused(geometries: list[str], why: str) -> None:
    with pytest.raises(Permanent, match=why) as caught:
        clean(make_layer(geometries, crs=None), max_rows=1)
    assert caught.value.code == "vector.crs_missing"
    assert "`crs`" in caught.value.remedy


@pytest.mark.parametrize(
    ("crs", "given", "code"),
    [
        ("EPSG:25832", "EPSG:25833", "vector.crs_conflict"),
        (None, "+proj=longlat", "vector.crs_text"),
        (None, "https://example.com/crs", "vector.crs_text"),
        (None, "EPSG:4326\n", "vector.crs_text"),
        (None, "EPSG:999999", "vector.crs_unknown"),
        (None, "EPSG:5773", "vector.crs_kind"),
        (None, "EPSG:4978", "vector.crs_kind"),
        (None, "IAU_2015:49900", "vector.crs_kind"),
        ("EPSG:5773", None, "vector.crs_kind"),
        (LOCAL, None, "vector.crs_local"),
        (UNDEFINED, None, "vector.crs_missing"),
        ("urn:ogc:def:crs:EPSG::4326", None, "vector.crs_text"),
        ("/etc/passwd", None, "vector.crs_text"),
        ('GEOGCS["x"', None, "vector.crs_text"),
        ('GEOGCS["x",' + " " * 40_000, None, "vector.crs_text"),
        (pyproj.CRS(3857).to_wkt("WKT1_GDAL").replace("@null", "/tmp/x"), None, "vector.crs_text"),
    ],
)
def test_r1_a_crs_that_cant_be_used_is_refused(crs: str | None, given: str | None, code: str) -> None:
    with pytest.raises(Permanent) as caught:
        clean(make_layer(["POINT(9 52)"], crs=crs), crs=given)
    assert caught.value.code == code
    assert caught.value.remedy


def test_r1_a_missing_datum_grid_is_named() -> None:
    report = clean(make_layer(["POINT(3500000 5800000)"], crs="EPSG:31467")).report

    assert report.crs.missing_grids == ("de_adv_BETA2007.tif",)
    assert report.crs.accuracy_metres == 3.0
    assert "de_adv_BETA2007.tif, which is not installed" in report.warnings[0]


def test_r1_a_meridian_of_paris_in_grads_is_understood() -> None:
    (point,) = clean(make_layer(["POINT(0 54)"], crs="EPSG:4807")).geometries()
    assert point.x == pytest.approx(2.337, abs=1e-2)


@pytest.mark.parametrize(
    ("geometries", "crs"),
    [
        (["POINT(52.5 105.2)", "POINT(-33.8 151.2)", "POINT(40.1 -116.3)"], "EPSG:4326"),
        (["POINT(5800000 500000)", "POINT(5700000 510000)"], "EPSG:25832"),
        (["POINT(52.5 13.4)", "POINT(48.1 11.6)"], "EPSG:4258"),
    ],
)
def test_coordinates_in_the_wrong_order_are_refused(geometries: list[str], crs: str) -> None:
    with pytest.raises(Permanent, match="x and y are swapped") as caught:
        clean(make_layer(geometries, crs=crs))
    assert caught.value.code == "vector.axes"


def test_a_layer_in_another_crs_than_it_says_is_refused() -> None:
    with pytest.raises(Permanent, match="2 of 3 rows are not on Earth in WGS 84") as caught:
        clean(make_layer([UTM_POINT, UTM_POINT, "POINT(9 52)"]))
    assert caught.value.code == "vector.coordinates"


def test_v1_single_rows_out_of_range_are_dropped_and_described() -> None:
    rows = [
        "POINT(9 52)",
        "POINT(10 95)",
        "POINT(10 53)",
        "POINT(1e308 1)",
        "POINT(11 54)",
        "POINT(inf 1)",
        "POINT(1 1)",
    ]
    cleaned = clean(make_layer(rows))

    assert cleaned.counts() == {"not_finite": 1, "out_of_range": 2}
    samples = cleaned.report.dropped["out_of_range"].samples
    assert [(sample.row, sample.what) for sample in samples] == [(2, "x 10, y 95"), (4, "x 1e+308, y 1")]
    assert cleaned.report.warnings == ("1 of the rows out of range would fit if x and y were swapped.",)


@pytest.mark.parametrize("crs", ["EPSG:3857", "EPSG:25832", "EPSG:3035"])
def test_v1_numbers_that_are_not_on_earth_are_dropped(crs: str) -> None:
    to_crs = pyproj.Transformer.from_crs(4326, crs, always_xy=True).transform
    good = [shapely.Point(to_crs(9, lat)) for lat in (48, 50, 52, 54)]
    cleaned = clean(make_layer([*good, "POINT(1e9 1e9)", "POINT(1e30 2)", "POINT(5 1e308)"], crs=crs))

    assert cleaned.counts() == {"out_of_range": 3}
    assert [point.y for point in cleaned.geometries()] == pytest.approx([48, 50, 52, 54])


def test_r1_parameters_of_a_datum_in_the_file_are_used() -> None:
    wkt = (
        pyproj.CRS(31467)
        .to_wkt("WKT1_GDAL")
        .replace(
            'AUTHORITY["EPSG","6314"]', 'TOWGS84[598.1,73.7,418.2,0.202,0.045,-2.455,6.7],AUTHORITY["EPSG","6314"]'
        )
    )
    assert "TOWGS84" in wkt
    report = clean(make_layer(["POINT(3500000 5800000)"], crs=wkt)).report
    assert report.crs.source in ("EPSG:31467", "DHDN / 3-degree Gauss-Kruger zone 3")
    assert report.crs.missing_grids == ()


NAMED = json.dumps(
    {
        "type": "FeatureCollection",
        "crs": {"type": "name", "properties": {"name": "EPSG:25832"}},
        "features": [feature(geometry={"type": "Point", "coordinates": [500000.5, 5800000]})],
    }
)


@pytest.mark.parametrize(
    ("name", "text"), [("a.geojson", NAMED), ("a.csv", 'n,wkt\n1,"SRID=25832;POINT(500000.5 5800000)"\n')]
)
def test_r1_a_crs_that_the_file_names_is_not_overridden(layers: Open, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(Permanent) as caught:
        clean(layers(tmp_path / name)[0], crs="EPSG:25833")
    assert (caught.value.code, caught.value.message) == (
        "vector.crs_conflict",
        "the layer is in EPSG:25832, but `crs` is EPSG:25833",
    )
    for crs in (None, "EPSG:25832"):
        report = clean(layers(tmp_path / name)[0], crs=crs).report
        assert (report.crs.source, report.crs.found) == ("EPSG:25832", "file")
