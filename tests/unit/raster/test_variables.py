"""netCDF, HDF5 and GRIB: what is inside, what is chosen, and the GeoTIFF that is made of it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from anabranch.errors import Permanent
from anabranch.plugins.raster.files.reader import quiet
from anabranch.plugins.raster.formats.cf_time import parse_axis
from anabranch.plugins.raster.formats.extract import extract
from anabranch.plugins.raster.formats.models import Choice, Extracted
from anabranch.plugins.raster.settings import RasterSettings
from tests.support.formats import SHAPE, Dimensions, Kind, Variables, climate, make_grib, make_netcdf
from tests.support.rasters import Pixels, hills, make_raster

DAYS: Dimensions = {"time": ([0, 1, 2.5, 3], {"units": "days since 2020-01-15", "calendar": "standard"})}
KELVIN = {"units": "K", "scale_factor": 0.01, "add_offset": 273.15, "long_name": "air temperature", "_FillValue": -9999}
Take = Callable[..., tuple[Extracted, Path]]


@pytest.fixture
def take(tmp_path: Path) -> Take:
    """Extract from a file; what was made, and the GeoTIFF."""

    def call(path: Path, **choice: Any) -> tuple[Extracted, Path]:
        folder = tmp_path / "made"
        folder.mkdir(exist_ok=True)
        sidecars = choice.pop("beside", {})
        settings = choice.pop("settings", RasterSettings())
        asked = Choice(**choice)
        made = extract(path, folder, asked, sidecars, settings, lambda *_: None)
        return made, folder / made.file if made.file else path

    return call


@pytest.fixture
def reason(take: Take) -> Callable[..., Permanent]:
    """The error that refuses a file or a choice."""

    def call(path: Path, **choice: Any) -> Permanent:
        with pytest.raises(Permanent) as caught:
            take(path, **choice)
        assert caught.value.remedy
        return caught.value

    return call


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Two variables, one of them on levels, with four times."""
    levels: Dimensions = {"level": ([1000, 500], {"units": "hPa"})}
    wind = np.stack([climate(4, "float32"), climate(4, "float32") + 7], axis=1)
    variables: Variables = {
        "t2m": (("time", "lat", "lon"), climate(), KELVIN),
        "u": (("time", "level", "lat", "lon"), wind, {"units": "m s-1"}),
    }
    return make_netcdf(tmp_path / "many.nc", variables, dimensions={**DAYS, **levels})


def test_r3_a_variable_keeps_values_nodata_scale_unit_and_time(take: Take, many: Path) -> None:
    made, path = take(many, variable="t2m", time="2020-01-17T12:00:00Z")
    with rasterio.open(path) as src:
        assert np.array_equal(src.read(1), climate()[2][::-1])  # north up
        assert (src.nodata, src.scales, src.offsets, src.units) == (-9999, (0.01,), (273.15,), ("K",))
        assert (src.descriptions, src.dtypes) == (("t2m",), ("int16",))
        assert src.crs.to_epsg() == 4326
        assert src.bounds.top == pytest.approx(50 + 10 / 39 / 2)
    assert made.times is not None
    assert made.times.moment == datetime(2020, 1, 17, 12, tzinfo=UTC)
    assert [notice.code for notice in made.notices] == ["raster.crs_assumed"]


def test_all_times_are_bands_named_by_their_times(take: Take, many: Path) -> None:
    made, path = take(many, variable="t2m", time="all")
    with rasterio.open(path) as src:
        assert src.descriptions == tuple(
            f"2020-01-{day}Z" for day in ("15T00:00:00", "16T00:00:00", "17T12:00:00", "18T00:00:00")
        )
        assert np.array_equal(src.read(), climate()[:, ::-1])
    assert made.temporal
    assert made.times is not None
    assert (made.times.start, made.times.end) == (datetime(2020, 1, 15, tzinfo=UTC), datetime(2020, 1, 18, tzinfo=UTC))


def test_a_level_is_part_of_the_name(take: Take, many: Path) -> None:
    _, path = take(many, variable="u[level=500]", time="2020-01-16T00:00:00Z")
    with rasterio.open(path) as src:
        assert np.array_equal(src.read(1), climate(4, "float32")[1][::-1] + 7)


def test_without_a_choice_the_error_lists_the_variables(reason: Callable[..., Permanent], many: Path) -> None:
    error = reason(many)
    assert error.code == "raster.variable"
    assert error.message == (
        "many.nc holds 3 variables, and none was chosen: it has t2m (60 x 40, int16, K, air temperature, 4 times,"
        " 2020-01-15T00:00:00Z to 2020-01-18T00:00:00Z), u[level=1000] (60 x 40, float32, m s-1, 4 times,"
        " 2020-01-15T00:00:00Z to 2020-01-18T00:00:00Z), u[level=500] (60 x 40, float32, m s-1, 4 times,"
        " 2020-01-15T00:00:00Z to 2020-01-18T00:00:00Z)"
    )
    assert error.remedy == "Set `variable` to one of them, like `t2m`."


@pytest.mark.parametrize(
    ("choice", "code", "words"),
    [
        ({"variable": "rain"}, "raster.variable", "many.nc has no variable 'rain': it has t2m ("),
        ({"variable": "u", "time": "all"}, "raster.variable", "has no variable 'u': it has u[level=1000] ("),
        ({"variable": 't2m":/etc/passwd'}, "raster.variable", "has no variable"),
        ({"variable": "t2m"}, "raster.time", "t2m of many.nc has 4 times, and none was chosen: it has 2020-01-15T"),
        ({"variable": "t2m", "time": "2021-01-01T00:00:00Z"}, "raster.time", "has no time '2021-01-01T00:00:00Z'"),
    ],
)
def test_a_choice_that_is_not_there_is_refused_with_the_list(
    reason: Callable[..., Permanent], many: Path, choice: dict[str, str], code: str, words: str
) -> None:
    error = reason(many, **choice)
    assert (error.code, words in error.message) == (code, True), error.message


def test_very_many_times_are_listed_in_part(reason: Callable[..., Permanent], tmp_path: Path) -> None:
    hours: Dimensions = {"time": (range(200), {"units": "hours since 1900-01-01"})}
    path = make_netcdf(tmp_path / "a.nc", {"t": (("time", "lat", "lon"), climate(200), {})}, dimensions=hours)
    error = reason(path)
    assert "and 180 more, the last is 1900-01-09T07:00:00Z" in error.message
    assert len(error.message) < 1_000


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF4_CLASSIC"])
def test_the_only_variable_and_time_need_no_choice(take: Take, tmp_path: Path, kind: Kind) -> None:
    dimensions: Dimensions = {"time": ([12], {"units": "hours since 2020-01-15"})}
    variables: Variables = {"t": (("time", "lat", "lon"), climate(1), {"_FillValue": -9999})}
    made, path = take(make_netcdf(tmp_path / "one.nc", variables, dimensions=dimensions, kind=kind))
    assert made.times is not None
    assert made.times.moment == datetime(2020, 1, 15, 12, tzinfo=UTC)
    with rasterio.open(path) as src:
        assert np.array_equal(src.read(1), climate(1)[0][::-1])


def test_r1_the_crs_is_that_of_the_grid_mapping(take: Take, tmp_path: Path) -> None:
    import netCDF4

    path = tmp_path / "utm.nc"
    make_netcdf(path, {"h": (("lat", "lon"), climate(1)[0], {"grid_mapping": "crs"})})
    with netCDF4.Dataset(path, "a") as file:
        file["lat"].setncatts({"units": "m", "standard_name": "projection_y_coordinate"})
        file["lon"].setncatts({"units": "m", "standard_name": "projection_x_coordinate"})
        file["lat"][:], file["lon"][:] = 5e6 + 10 * np.arange(SHAPE[0]), 5e5 + 10 * np.arange(SHAPE[1])
        mapping = {"longitude_of_central_meridian": 15.0, "latitude_of_projection_origin": 0.0}
        mapping |= {"scale_factor_at_central_meridian": 0.9996, "false_easting": 5e5, "false_northing": 0.0}
        mapping |= {"semi_major_axis": 6378137.0, "inverse_flattening": 298.257223563}
        file.createVariable("crs", "i4").setncatts({"grid_mapping_name": "transverse_mercator", **mapping})
    made, made_path = take(path)
    with rasterio.open(made_path) as src:
        assert src.crs.is_projected
        assert src.crs.to_epsg(confidence_threshold=20) == 32633
    assert not made.notices


def test_r1_without_latitudes_nothing_is_assumed(take: Take, tmp_path: Path) -> None:
    import h5py

    path = tmp_path / "plain.h5"
    with h5py.File(path, "w") as file:
        file["group/heights"] = climate(1)[0]
    made, made_path = take(path)
    with quiet(), rasterio.open(made_path) as src:
        assert (src.crs, src.transform.is_identity) == (None, True)
        assert np.array_equal(src.read(1), climate(1)[0])
    assert made.origin is not None
    assert made.origin.variable.endswith("heights")


def test_curvilinear_grids_are_refused(reason: Callable[..., Permanent], tmp_path: Path) -> None:
    import netCDF4

    path = tmp_path / "swath.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("y", 30)
        file.createDimension("x", 20)
        for name, unit in (("lat", "degrees_north"), ("lon", "degrees_east")):
            axis = file.createVariable(name, "f8", ("y", "x"))
            axis.units, axis[:] = unit, np.random.default_rng(1).random((30, 20))
        made = file.createVariable("h", "f4", ("y", "x"))
        made.coordinates, made[:] = "lat lon", 2
    error = reason(path)
    assert (error.code, "gdalwarp -geoloc" in error.remedy) == ("raster.no_georeference", True)


def make_rows(path: Path, latitudes: Pixels) -> Path:
    """A netCDF file with rows at these latitudes."""
    import netCDF4

    with netCDF4.Dataset(path, "w") as file:
        for name, unit, values in (("lat", "degrees_north", latitudes), ("lon", "degrees_east", np.arange(0, 360, 3))):
            file.createDimension(name, len(values))
            axis = file.createVariable(name, "f8", (name,))
            axis.units, axis[:] = unit, values
        file.createVariable("t", "f4", ("lat", "lon"))[:] = 1
    return path


def test_r2_rows_of_a_gaussian_grid_are_a_warning(take: Take, tmp_path: Path) -> None:
    latitudes = np.degrees(np.arcsin(np.polynomial.legendre.leggauss(64)[0]))
    made, _ = take(make_rows(tmp_path / "a.nc", latitudes))
    assert [notice.code for notice in made.notices] == ["raster.crs_assumed", "raster.uneven_rows"]
    assert "up to 0.0" in made.notices[1].message


def test_r2_rows_that_would_move_by_half_a_pixel_are_refused(reason: Callable[..., Permanent], tmp_path: Path) -> None:
    latitudes = 40 + np.linspace(0, 1, 80) ** 1.2
    assert reason(make_rows(tmp_path / "a.nc", latitudes)).code == "raster.no_georeference"


def test_variables_of_text_are_not_listed(reason: Callable[..., Permanent], take: Take, many: Path) -> None:
    import netCDF4

    with netCDF4.Dataset(many, "a") as file:
        file.createVariable("names", "S1", ("lat", "lon"))
    assert "names" not in reason(many).message


def test_units_that_are_not_in_utf_8_are_a_warning(take: Take, tmp_path: Path) -> None:
    variables: Variables = {"t": (("lat", "lon"), climate(1)[0], {"units": "XXXX", "long_name": "XXXX"})}
    path = make_netcdf(tmp_path / "a.nc", variables, kind="NETCDF3_CLASSIC")
    path.write_bytes(path.read_bytes().replace(b"XXXX", "°C µ".encode("latin-1")))
    made, _ = take(path)
    assert [notice.code for notice in made.notices] == ["raster.crs_assumed", "raster.units"]


def test_a_file_without_a_grid_is_refused(reason: Callable[..., Permanent], tmp_path: Path) -> None:
    error = reason(make_netcdf(tmp_path / "a.nc", {}))
    assert "without a variable of two dimensions or more" in error.message


def test_grib_messages_are_variables_with_times(take: Take, tmp_path: Path, reason: Callable[..., Permanent]) -> None:
    first, later, moist = climate(3, "float32")
    path = make_grib(tmp_path / "a.grib2", [(0, 0, 2, first), (0, 6, 2, later), (1, 0, 2, moist), (1, 0, 10, moist)])
    assert "VTMP[2-HTGL] (60 x 40, float64, K," in reason(path).message
    made, made_path = take(path, variable="TMP", time="2020-01-15T06:00:00Z")
    with rasterio.open(made_path) as src:
        assert np.allclose(src.read(1), later + 273.15)  # GDAL wrote kelvins, and they are not made degrees Celsius
        assert src.units == ("K",)
    assert made.origin is not None
    assert (made.origin.driver, made.origin.variable, made.origin.time) == ("GRIB", "TMP", "2020-01-15T06:00:00Z")


def test_equal_grib_messages_are_numbered(reason: Callable[..., Permanent], tmp_path: Path) -> None:
    field = climate(1, "float32")[0]
    path = make_grib(tmp_path / "a.grb2", [(0, 0, 2, field), (0, 0, 2, field)])
    assert "2020-01-15T00:00:00Z#1, 2020-01-15T00:00:00Z#2" in reason(path, time="2020-01-15T00:00:00Z").message


def test_a_geotiff_has_no_variables(reason: Callable[..., Permanent], tmp_path: Path) -> None:
    error = reason(make_raster(tmp_path / "a.tif", hills()), variable="t2m")
    assert (error.code, error.remedy) == ("raster.variable", "Omit `variable`.")


@pytest.mark.parametrize(
    ("head", "code"),
    [(b"\x89HDF\r\n\x1a\n" + b"\x00" * 600, "raster.damaged"), (b"CDF\x05" + b"\x00" * 9, "raster.format")],
)
def test_damaged_and_unsupported_files_are_refused(
    reason: Callable[..., Permanent], tmp_path: Path, head: bytes, code: str
) -> None:
    (tmp_path / "a.nc").write_bytes(head)
    assert reason(tmp_path / "a.nc").code == code


def test_r6_more_bands_than_the_limit_are_refused(reason: Callable[..., Permanent], many: Path) -> None:
    error = reason(many, variable="t2m", time="all", settings=RasterSettings(raster_max_bands=3))
    assert (error.code, "4 bands" in error.message) == ("raster.too_large", True)


@pytest.mark.parametrize(
    ("units", "calendar", "value", "moment"),
    [
        ("days since 1-1-1 00:00:00", "standard", 711859, "1950-01-01T00:00:00"),
        ("days since 0001-01-01", "proleptic_gregorian", 737438, "2020-01-15T00:00:00"),
        ("hours since 1900-01-01 00:00:0.0", "gregorian", 1051896, "2020-01-01T00:00:00"),
        ("days since 2000-01-01", "noleap", 59, "2000-03-01T00:00:00"),
        ("seconds since 1970-01-01T00:00:00Z", "", 0.5, "1970-01-01T00:00:00.500000"),
        ("minutes since 2020-01-01 00:00 +01:00", "", 60, "2020-01-01T00:00:00"),
    ],
)
def test_times_of_the_cf_conventions(units: str, calendar: str, value: float, moment: str) -> None:
    axis = parse_axis(units, calendar)
    assert axis is not None
    assert axis.moment(value) == datetime.fromisoformat(moment).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("units", "calendar"),
    [("months since 2000-01-01", ""), ("days since 2000-01-01", "360_day"), ("days since 2000-13-01", ""), ("K", "")],
)
def test_times_without_an_exact_moment_are_none(units: str, calendar: str) -> None:
    assert parse_axis(units, calendar) is None
