"""Files that are no plain GeoTIFF through all handlers: the source is that file, and the COG has its values."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.crs import CRS

from anabranch.errors import Permanent
from anabranch.plugins.raster.handler_models import Cog, CogParams, ValidateParams, Verified, VerifyParams
from anabranch.plugins.raster.handlers import create_cog, preflight, validate, verify
from anabranch.plugins.raster.models import Checked, Kind
from anabranch.plugins.raster.request import RasterRequest
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.testing import FakeContext
from tests.support.formats import Variables, climate, convert, make_grib, make_netcdf, make_zip, world_file
from tests.support.rasters import hills, make_raster, picture

UTM_WKT = CRS.from_epsg(32633).to_wkt()
DAYS = {"time": ([0, 1, 2, 3], {"units": "days since 2020-01-15"})}


@pytest.fixture
def bronze(tmp_path: Path) -> Path:
    folder = tmp_path / "bronze" / "in"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def ctx(tmp_path: Path, bronze: Path) -> FakeContext:
    return FakeContext(tmp_path, settings=(RasterSettings(raster_memory_mb=256),))


def check(ctx: FakeContext, name: str, **options: Any) -> tuple[dict[str, Any], Checked]:
    """Plan and validate a source; its parameters for the next steps, and the result."""
    source = f"bronze://in/{name}"
    plan = preflight(RasterRequest(source=source, collection="a", **options), ctx)
    asked = {key: value for key, value in options.items() if key != "sidecars"} | {"sidecars": plan.sidecars}
    digest = ctx.storage.stage(source).sha256
    checked = validate(ValidateParams(source=source, sha256=digest, **asked), ctx)
    return {"source": source, "sha256": digest, "raster": checked.raster}, checked


def publish(first: FakeContext, name: str, **options: Any) -> tuple[Cog, Verified]:
    """All steps up to the item, by attempts of their own."""
    ctx = FakeContext(first._folder, settings=(RasterSettings(raster_memory_mb=256),), index=str(options))
    source, checked = check(ctx, name, **options)
    target = {"target_crs": options.get("target_crs")}
    cog = create_cog(CogParams.model_validate({**source, **target, "tier": checked.tiers[0]}), ctx)
    modified = datetime(2026, 1, 1, tzinfo=UTC)
    return cog, verify(
        VerifyParams.model_validate({**source, **target, "cogs": [cog], "modified": modified}), ctx.next_attempt()
    )


@pytest.fixture
def temperatures(bronze: Path) -> Path:
    said = {"units": "K", "_FillValue": -9999, "scale_factor": 0.1}
    variables: Variables = {
        "t2m": (("time", "lat", "lon"), climate(), said),
        "rain": (("time", "lat", "lon"), climate() + 1, {"units": "mm"}),
    }
    return make_netcdf(bronze / "era.nc", variables, dimensions=DAYS)


def test_r4_a_time_of_a_variable_becomes_an_item(ctx: FakeContext, temperatures: Path) -> None:
    cog, found = publish(ctx, "era.nc", variable="t2m", time="2020-01-16T00:00:00Z")
    with rasterio.open(ctx.storage.fetch(cog.address)) as src:
        assert np.array_equal(src.read(1), climate()[1][::-1])
        assert (src.nodata, src.scales, src.units) == (-9999, (0.1,), ("K",))
    (band,) = found.item.bands
    assert (band.name, band.unit, found.item.datetime) == ("t2m", "K", datetime(2020, 1, 16, tzinfo=UTC))
    assert found.item.source is not None
    assert found.item.source.name == "era.nc"
    assert found.item.source.sha256 == ctx.storage.stage("bronze://in/era.nc").sha256
    assert [notice.code for notice in found.warnings] == ["raster.crs_assumed"]


def test_each_variable_and_time_is_an_item_of_its_own(ctx: FakeContext, temperatures: Path) -> None:
    choices = (("t2m", "2020-01-16T00:00:00Z"), ("rain", "2020-01-16T00:00:00Z"), ("t2m", "all"))
    items = [publish(ctx, "era.nc", variable=variable, time=time)[1].item for variable, time in choices]
    assert len({item.id for item in items}) == 3
    assert [len(item.bands) for item in items] == [1, 1, 4]
    assert items[2].kind == Kind.TEMPORAL
    assert (items[2].start_datetime, items[2].end_datetime) == (
        datetime(2020, 1, 15, tzinfo=UTC),
        datetime(2020, 1, 18, tzinfo=UTC),
    )


def test_the_report_names_what_was_taken(ctx: FakeContext, temperatures: Path) -> None:
    _, checked = check(ctx, "era.nc", variable="t2m", time="all")
    made = checked.raster.origin
    assert made is not None
    assert (made.format, made.driver, made.variable, made.time) == ("an HDF5 or netCDF 4 file", "netCDF", "t2m", "all")
    assert checked.raster.size_bytes == temperatures.stat().st_size


def test_without_a_choice_the_job_fails_with_the_list(ctx: FakeContext, temperatures: Path) -> None:
    with pytest.raises(
        Permanent, match=r"era.nc holds 2 variables, and none was chosen: it has t2m \(60 x 40"
    ) as error:
        check(ctx, "era.nc")
    assert error.value.code == "raster.variable"


def test_a_given_crs_is_not_assumed(ctx: FakeContext, temperatures: Path) -> None:
    _, checked = check(ctx, "era.nc", variable="t2m", time="all", input_crs="EPSG:4258")
    assert checked.raster.crs == "EPSG:4258"
    assert [notice.code for notice in checked.raster.warnings] == ["raster.crs_given"]


@pytest.mark.parametrize(
    ("driver", "name", "dtype"),
    [
        ("HFA", "a.img", "float32"),
        ("AAIGrid", "a.asc", "float32"),
        ("netCDF", "a.nc", "float32"),
        ("GRIB", "a.grb2", "float64"),
        ("JPEG", "a.jpg", "uint8"),
    ],
)
def test_every_driver_works_in_the_sandbox(ctx: FakeContext, bronze: Path, driver: str, name: str, dtype: str) -> None:
    """Its tables can be read, and its system calls are allowed."""
    if driver == "GRIB":
        make_grib(bronze / name, [(0, 0, 2, climate(1, "float32")[0])])
    else:
        convert(bronze / name, driver, hills(64, 48, "uint8" if driver == "JPEG" else "float32"))
        world_file(bronze / "a.wld")
        (bronze / "a.jpg.aux.xml").write_text(f"<PAMDataset><SRS>{UTM_WKT}</SRS></PAMDataset>")
        (bronze / "a.prj").write_text(UTM_WKT)
    _, checked = check(ctx, name)
    assert (checked.raster.driver, checked.raster.dtype) == (driver, dtype)
    assert checked.raster.crs


def test_tr3_sidecars_beside_a_picture_are_used(ctx: FakeContext, bronze: Path) -> None:
    convert(bronze / "Photo.PNG", "PNG", picture(64, 48), placed=False)
    world_file(bronze / "Photo.pgw")
    cog, found = publish(ctx, "Photo.PNG", input_crs="EPSG:32633")
    with rasterio.open(ctx.storage.fetch(cog.address)) as src:
        assert np.array_equal(src.read(), picture(64, 48))
        assert src.crs.to_epsg() == 32633
    assert found.item.kind == Kind.RGB


def test_sidecars_are_given_by_their_addresses(ctx: FakeContext, bronze: Path) -> None:
    make_raster(bronze / "a.tif", hills(64, 48), crs=None, transform=None)
    (bronze / "else").mkdir()
    world_file(bronze / "else" / "a.tfw")
    given = ("bronze://in/else/a.tfw",)
    _, found = publish(ctx, "a.tif", input_crs="EPSG:32633", sidecars=given)
    assert found.item.transform[:3] == (10, 0, 500_000)
    world_file(bronze / "else" / "a.tfw", 20)
    assert publish(ctx, "a.tif", input_crs="EPSG:32633", sidecars=given)[1].item.id != found.item.id


def test_a_picture_without_a_world_file_is_refused(ctx: FakeContext, bronze: Path) -> None:
    convert(bronze / "a.png", "PNG", picture(64, 48), placed=False)
    with pytest.raises(Permanent) as error:
        check(ctx, "a.png", input_crs="EPSG:32633")
    assert error.value.code == "raster.no_georeference"
    assert "world file" in error.value.remedy


def test_r3_a_mask_file_beside_a_raster_is_used(ctx: FakeContext, bronze: Path) -> None:
    make_raster(bronze / "a.tif", picture(64, 48))
    valid = np.indices((48, 64)).sum(axis=0) % 5 > 0
    make_raster(bronze / "m.tif", valid[None].astype("uint8") * 255, transform=None, crs=None).rename(
        bronze / "a.tif.msk"
    )
    cog, _ = publish(ctx, "a.tif")
    with rasterio.open(ctx.storage.fetch(cog.address)) as src:
        assert np.array_equal(src.dataset_mask() > 0, valid)


def test_a_zip_is_published(ctx: FakeContext, bronze: Path, tmp_path: Path) -> None:
    plain = make_raster(tmp_path / "dem_20260321.tif", hills(64, 48))
    make_zip(bronze / "delivery.zip", {"dem_20260321.tif": plain})
    cog, found = publish(ctx, "delivery.zip")
    assert found.item.id.startswith("delivery-")
    assert found.item.start_datetime == datetime(2026, 3, 21, tzinfo=UTC)  # by the name of the file in it
    with rasterio.open(ctx.storage.fetch(cog.address)) as src:
        assert np.array_equal(src.read(), hills(64, 48))


def test_sidecars_given_for_a_zip_are_used_where_it_has_none_and_recorded_only_then(
    ctx: FakeContext, bronze: Path, tmp_path: Path
) -> None:
    plain = make_raster(tmp_path / "dem.tif", hills(64, 48), crs=None, transform=None)
    own = world_file(tmp_path / "dem.tfw", 20)
    make_zip(bronze / "d.zip", {"dem.tif": plain, "dem.tfw": own})
    (bronze / "else").mkdir()
    world_file(bronze / "else" / "d.wld")
    (bronze / "else" / "d.prj").write_text(UTM_WKT)
    given = ("bronze://in/else/d.wld", "bronze://in/else/d.prj")
    _, checked = check(ctx, "d.zip", sidecars=given)
    assert (checked.raster.crs, checked.raster.transform[0]) == ("EPSG:32633", 20)
    assert checked.raster.origin is not None
    assert [sidecar.kind for sidecar in checked.raster.origin.sidecars] == ["prj"]
    (notice,) = checked.raster.warnings
    assert (notice.code, notice.message[:32]) == ("raster.sidecar_unused", "d.wld beside the raster is not u")


def test_a_sidecar_that_adds_nothing_is_not_recorded(ctx: FakeContext, bronze: Path) -> None:
    convert(bronze / "a.img", "HFA", hills(64, 48))
    (bronze / "a.prj").write_text(UTM_WKT)
    _, checked = check(ctx, "a.img")
    assert checked.raster.origin is not None
    assert checked.raster.origin.sidecars == ()


def test_a_request_names_sidecars_of_its_source_only() -> None:
    with pytest.raises(ValueError, match=r"b.tfw is no sidecar of a.tif. Give files like a.tfw, a.tifw"):
        RasterRequest(source="bronze://in/a.tif", collection="a", sidecars=("bronze://in/b.tfw",))
