"""Acquisition times from file names: what is a date, and what only looks like one."""

from datetime import UTC, datetime, timedelta

import pytest

from anabranch.plugins.raster.checks.times import find_times, find_wrong_day


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]  # a year, month and day at least


@pytest.mark.parametrize(
    ("name", "start", "after", "rule"),
    [
        ("20230101_20231231_rain.tif", at(2023, 1, 1), at(2024, 1, 1), "two days"),
        ("rain_2023-01-01_2023-03-31.tif", at(2023, 1, 1), at(2023, 4, 1), "two days"),
        ("rain_2023-01-01_to_2023-03-31.tif", at(2023, 1, 1), at(2023, 4, 1), "two days"),
        ("rain_202001-202012.tif", at(2020, 1, 1), at(2021, 1, 1), "two months"),
        ("cover_2000_2020.tif", at(2000, 1, 1), at(2021, 1, 1), "years"),
        ("cover_1990_2000_2010.tif", at(1990, 1, 1), at(2011, 1, 1), "years"),
        ("cover_1990_2000_edition_2010.tif", at(1990, 1, 1), at(2001, 1, 1), "years"),
        ("dgm1_2000_1990.tif", at(2000, 1, 1), at(2001, 1, 1), "year"),
        ("MOD13Q1.A2020001.h18v03.061.2020018123456.tif", at(2020, 1, 1), at(2020, 1, 2), "day of the year"),
        ("ndvi_2020141.tif", at(2020, 5, 20), at(2020, 5, 21), "day of the year"),
        ("ndvi_2020-141.tif", at(2020, 5, 20), at(2020, 5, 21), "day of the year"),
        ("gpp_A2020361_A2020366.tif", at(2020, 12, 26), at(2021, 1, 1), "two days of the year"),
        ("chirps-v2.0.2020.01.tif", at(2020, 1, 1), at(2020, 2, 1), "month"),
        ("rain_202005.tif", at(2020, 5, 1), at(2020, 6, 1), "month"),
        ("rain_2020-12.tif", at(2020, 12, 1), at(2021, 1, 1), "month"),
        ("LC08_L1TP_193024_20200101_20200113_01_T1_B4.tif", at(2020, 1, 1), at(2020, 1, 2), "day"),
        ("dem_WGS_1984_20200315.tif", at(2020, 3, 15), at(2020, 3, 16), "day"),
        ("dem_NAD_1983_2011_2019.tif", at(2019, 1, 1), at(2020, 1, 1), "year"),
        ("worldcover_2020_10m.tif", at(2020, 1, 1), at(2021, 1, 1), "year"),
        ("aerial_19380714.tif", at(1938, 7, 14), at(1938, 7, 15), "day"),
        ("aerial_NAD27_1938-07-14.tif", at(1938, 7, 14), at(1938, 7, 15), "day"),
        ("NAD_1927_19380714.tif", at(1938, 7, 14), at(1938, 7, 15), "day"),
        ("flight_19491230_19500102.tif", at(1949, 12, 30), at(1950, 1, 3), "two days"),
        ("aerial_1938_07_14_sheet_2.tif", at(1938, 7, 14), at(1938, 7, 15), "day"),
        ("scene_20230230_20230301.tif", at(2023, 3, 1), at(2023, 3, 2), "day"),
    ],
)
def test_tr6_a_name_gives_a_span(name: str, start: datetime, after: datetime, rule: str) -> None:
    found = find_times({}, name)
    assert found
    assert (found.start, found.end, found.rule) == (start, after - timedelta(seconds=1), f"{rule} in the file's name")


def test_tr6_two_moments_side_by_side_are_a_span() -> None:
    found = find_times({}, "S1A_IW_GRDH_1SDV_20200101T054123_20200101T054148_030612.tif")
    assert found
    assert (found.start, found.end) == (at(2020, 1, 1, 5, 41, 23), at(2020, 1, 1, 5, 41, 48))
    alone = find_times({}, "S2A_MSIL1C_20170105T013442_N0204_R031_T53NMJ_20170106T013443.tif")
    assert alone
    assert alone.moment == at(2017, 1, 5, 1, 34, 42)


@pytest.mark.parametrize(
    "name",
    [
        "dem_WGS_1984.tif", "NAD_1983_StatePlane.tif", "ETRS_1989_UTM_Zone_32N.tif", "dem_NAD_1983_2011.tif",
        "dem-gda-1994.tif", "SIRGAS 2000 soil.tif", "heights_EPSG_2056.tif", "EGM_2008.tif", "dem_epsg2056.tif",
        "tile_2010.tif", "sheet-1998.tif", "product_200512.tif", "soil_2020367.tif", "soil_202013.tif",
        "orders_1234567.tif", "a20200101234.tif", "WGS_1984_10_20.tif",
        "dem_NAD83_2011.tif",
        "dem_NAD83_CSRS_2010.tif",
        "SAD69_1969.tif",
        "dem_DHHN_2016.tif",
        "dem_NAD27.tif",
        "NAD_1927_10_20.tif",
        "dem_datum_1927.tif",
        "tile_19380714.tif",
        "product-1912-03-05.tif",
        "aerial_1938.tif",
        "aerial_193807.tif",
        "scan_19201080.tif",
    ],
)  # fmt: skip
def test_tr6_what_only_looks_like_a_date_is_none(name: str) -> None:
    assert find_times({}, name) is None


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("dem_20260229.tif", "20260229"),
        ("dem_20261345.tif", "20261345"),
        ("dem_20260230T101500.tif", "20260230"),
        ("dem_20260230101500.tif", "20260230"),
        ("2026.04.31-dem.tif", "2026.04.31"),
        ("dem_20240229.tif", None),
        ("dem_20240229256199.tif", None),
        ("tile_20261345.tif", None),
        ("epsg20261345.tif", None),
        ("scan_19201080.tif", None),
        ("orders_202602299.tif", None),
        ("dem.tif", None),
    ],
)
def test_tr6_a_day_that_the_calendar_does_not_have_is_found(name: str, wrong: str | None) -> None:
    assert find_wrong_day(name) == wrong


def test_tr6_the_report_names_the_tag_of_the_time() -> None:
    found = find_times({"ACQUISITION_DATETIME": "2026-03-21T10:15:00Z"}, "a_2020.tif")
    assert found
    assert (found.origin, found.rule) == ("tags", "the tag acquisition_datetime")
