"""The handlers of rasters, called as a worker calls them, without a worker or a database."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import rasterio
from pydantic import ValidationError

from anabranch.canonical import Json
from anabranch.errors import InputError, Permanent
from anabranch.plugins.raster.checks.crs import parse_crs
from anabranch.plugins.raster.collections.handler_models import CheckParams
from anabranch.plugins.raster.handler_models import CogParams, CogsParams, ValidateParams, VerifyParams
from anabranch.plugins.raster.handlers import create_cog, create_cogs, preflight, validate, verify
from anabranch.plugins.raster.item.publication import find_span
from anabranch.plugins.raster.models import Profile, ValidateOptions
from anabranch.plugins.raster.request import RasterRequest
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.plugins.stac.names import check_collection_id
from anabranch.testing import FakeContext
from tests.support.rasters import hills, make_raster

SETTINGS = (RasterSettings(raster_single_pixels=600 * 700),)
SOURCE = "bronze://in/heights.tif"


@pytest.fixture
def ctx(tmp_path: Path) -> FakeContext:
    (tmp_path / "bronze" / "in").mkdir(parents=True)
    return FakeContext(tmp_path, settings=SETTINGS)


@pytest.fixture
def heights(ctx: FakeContext, tmp_path: Path) -> Path:
    return make_raster(tmp_path / "bronze" / "in" / "heights.tif", hills())


@pytest.mark.parametrize("model", [RasterRequest, ValidateParams, CheckParams])
def test_e16_a_profile_is_taken_by_its_earlier_name_too(model: type[ValidateOptions]) -> None:
    given: dict[str, Json] = {"files": []} if model is CheckParams else {"source": SOURCE}
    given |= {} if model is ValidateParams else {"collection": "maps"}
    named: list[dict[str, Json]] = [{"tier": "archive"}, {"profile": "archive"}, {"profile": None, "tier": "archive"}]
    assert {model.model_validate(given | names).profile for names in named} == {"archive"}
    assert model.model_validate(given | {"profile": None, "tier": None}).profile == "analysis"
    with pytest.raises(ValidationError, match=r"profile is analysis, and tier, its earlier name, is archive\."):
        model.model_validate(given | {"profile": "analysis", "tier": "archive"})


def test_e16_stored_parameters_of_handlers_keep_their_names() -> None:
    """A job that was started by a release before has tasks with these parameters."""
    names = {
        model.__name__: set(model.model_fields)
        for model in (RasterRequest, ValidateParams, CogParams, CogsParams, VerifyParams)
    }
    options = {"source", "input_crs", "target_crs", "raster_type", "tier", "tiling"}
    added = {"variable", "time", "sidecars", "profile"}  # optional
    assert names == {
        "RasterRequest": options | {"collection", "datetime", "item_id", "tile_items", "versions"} | added,
        "ValidateParams": options | {"sha256", "tag", "pin"} | added,
        "CogParams": {"source", "sha256", "pin", "raster", "tier", "target_crs"},
        "CogsParams": {"source", "sha256", "pin", "raster", "tiers", "target_crs"},
        "VerifyParams": {"source", "sha256", "pin", "raster", "cogs", "target_crs"}
        | {"item_id", "title", "datetime", "modified", "versions", "notices"},
    }


def test_w5_a_cog_that_an_earlier_attempt_stored_is_reused_while_it_is_whole(ctx: FakeContext, heights: Path) -> None:
    digest = ctx.storage.stage(SOURCE).sha256
    checked = validate(ValidateParams(source=SOURCE, sha256=digest), ctx)
    params = CogParams(source=SOURCE, sha256=digest, raster=checked.raster, tier=checked.tiers[0])
    cog = create_cog(params, ctx)
    again = ctx.next_attempt()
    assert create_cog(params, again) == cog
    assert ctx.reports
    assert again.reports == []
    ctx.tiers.put(cog.address, b"cut")
    assert create_cog(params, ctx.next_attempt()).address != cog.address


def test_w5_of_several_cogs_only_those_that_are_missing_are_written_again(ctx: FakeContext, heights: Path) -> None:
    checked = validate(ValidateParams(source=SOURCE, tag=ctx.storage.stat(SOURCE).tag, tier="all"), ctx)
    file = {"source": SOURCE, "sha256": checked.sha256, "raster": checked.raster}
    params = CogsParams.model_validate({**file, "tiers": checked.tiers})
    first, second = create_cogs(params, ctx).cogs
    ctx.tiers.put(second.address, b"cut")
    kept, again = create_cogs(params, ctx.next_attempt()).cogs
    assert kept == first
    assert (again.tier, again.sha256) == (second.tier, second.sha256)
    assert again.address != second.address


def test_a_raster_or_sidecar_that_is_not_as_it_was_listed_is_refused(ctx: FakeContext, heights: Path) -> None:
    world = heights.with_suffix(".tfw")
    world.write_text("10\n0\n0\n-10\n0\n0\n")
    versions = preflight(RasterRequest(source=SOURCE, collection="a"), ctx).versions
    assert [address.rpartition(".")[2] for address in versions] == ["tif", "tfw"]
    again = preflight(RasterRequest(source=SOURCE, collection="a", versions=versions), ctx)
    assert again.versions == versions
    for address in versions:
        listed = versions | {address: "of another"}
        with pytest.raises(Permanent) as error:
            preflight(RasterRequest(source=SOURCE, collection="a", versions=listed), ctx)
        assert error.value.code == "source.changed"


def test_a_raster_that_was_replaced_after_the_preflight_is_refused(ctx: FakeContext, heights: Path) -> None:
    with pytest.raises(Permanent) as refused:
        validate(ValidateParams(source=SOURCE, tag="of another"), ctx)
    assert refused.value.code == "source.changed"


def test_r4_a_verified_raster_has_its_cogs_a_thumbnail_a_report_and_an_item(
    ctx: FakeContext, heights: Path, tmp_path: Path
) -> None:
    digest = ctx.storage.stage(SOURCE).sha256
    checked = validate(ValidateParams(source=SOURCE, sha256=digest, tier="all"), ctx)
    assert checked.tiers == (Profile.ANALYSIS, Profile.ARCHIVE)
    source = {"source": SOURCE, "sha256": digest, "raster": checked.raster}
    cogs = [
        create_cog(
            CogParams.model_validate({**source, "tier": tier}), FakeContext(tmp_path, settings=SETTINGS, index=tier)
        )
        for tier in checked.tiers
    ]
    found = verify(VerifyParams.model_validate({**source, "cogs": cogs, "modified": datetime.now(UTC)}), ctx)
    assert [output.asset for output in found.outputs] == ["data", "archive", "thumbnail", "report"]
    assert [render.assets for render in found.item.renders.values()] == [["data"]]
    assert [warning.code for warning in found.warnings] == ["raster.no_time"]
    with rasterio.open(ctx.storage.fetch(cogs[0].address)) as cog:
        assert (cog.height, cog.width) == found.item.shape == (600, 700)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dem_20260229", ": 20260229 in the name is not a day;"),
        ("dem_2026-02-29", ": 2026-02-29 in the name is not a day;"),
        ("dem_2026_02_30", ": 2026_02_30 in the name is not a day;"),
        ("dem_2026-02-29T101500", ": 2026-02-29 in the name is not a day;"),
        ("dem_20261345", ": 20261345 in the name"),
        ("dem", ";"),
    ],
)
def test_tr6_the_report_names_a_day_that_the_calendar_does_not_have(
    ctx: FakeContext, tmp_path: Path, name: str, reason: str
) -> None:
    make_raster(tmp_path / "bronze" / "in" / f"{name}.tif", hills())
    source = f"bronze://in/{name}.tif"
    checked = validate(ValidateParams(source=source, sha256=ctx.storage.stage(source).sha256), ctx)
    _, (notice,) = find_span(None, checked.raster, datetime(2026, 1, 1, tzinfo=UTC))
    assert notice.code == "raster.no_time"
    assert notice.message.startswith(f"The acquisition time is unknown{reason}")


@pytest.mark.parametrize("name", ["a", "a.b-c_d", "A" * 63])
def test_the_preflight_takes_the_ids_that_the_catalog_takes(ctx: FakeContext, heights: Path, name: str) -> None:
    assert preflight(RasterRequest(source=SOURCE, collection=name), ctx).collection == check_collection_id(name)


@pytest.mark.parametrize("name", ["", "a..b", "a.", ".a", "A" * 64, "a b", "\u00e9", "a\n"])
def test_a_request_takes_no_id_that_the_catalog_refuses(name: str) -> None:
    with pytest.raises(ValidationError, match="can't be the id of a collection"):
        RasterRequest(source=SOURCE, collection=name)
    with pytest.raises(InputError):
        check_collection_id(name)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("20260321T101500Z", "not a date and time with a time zone"),
        ("2026-W12-6T10:00:00Z", "not a date and time with a time zone"),
        ("2026-03-21", "not a date and time with a time zone"),
        ("2026-02-28T10:00:00", "not a date and time with a time zone"),
        ("2026-02-30T00:00:00Z", "the day 2026-02-30 does not exist"),
        ("2026-02-28T25:00:00Z", "the time 25:00:00Z does not exist"),
        ("0001-01-01T00:00:00+14:00", "between the years 1 and 9999"),
    ],
)
def test_a_request_takes_no_moment_that_the_catalog_refuses(text: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        RasterRequest(source=SOURCE, collection="a", datetime=text)


@pytest.mark.parametrize("field", ["input_crs", "target_crs"])
@pytest.mark.parametrize(
    ("code", "reason"),
    [("EPSG:99999999", "there is no CRS"), ("EPSG:4978", "a geocentric CRS"), ("EPSG:5703", "a vertical CRS")],
)
def test_a_request_takes_no_crs_that_no_raster_has(field: str, code: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        RasterRequest.model_validate({"source": SOURCE, "collection": "a", field: code})
    with pytest.raises(Permanent):
        parse_crs(code, field)


@pytest.mark.parametrize("code", ["EPSG:25832", "EPSG:04326", "EPSG:102100", "OGC:CRS84", "ESRI:54009", "EPSG:3785"])
def test_a_request_takes_every_crs_that_gdal_takes(code: str) -> None:
    assert RasterRequest(source=SOURCE, collection="a", target_crs=code).target_crs == code
    assert parse_crs(code, "target_crs")


def test_the_moment_of_a_request_is_that_in_utc() -> None:
    request = RasterRequest(source=SOURCE, collection="a", datetime="2026-03-21T10:15:00+02:00")
    assert request.datetime == "2026-03-21T08:15:00+00:00"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a.gpkg", "gdal_translate -of COG SUBDATASET out.tif"),
        ("a.bil", "gdal_translate -of COG a.bil out.tif"),
        ("a.gif", "-a_srs EPSG:32633 a.gif"),
        ("a.rar", "Unpack it"),
    ],
)
def test_tr_an_unsupported_file_is_refused_with_how_to_convert_it(name: str, said: str) -> None:
    with pytest.raises(ValidationError, match=f"the extension .{name[2:]}, which.*{said}"):
        RasterRequest(source=f"bronze://{name}", collection="a")


def test_a_process_that_calls_handlers_itself_ends_without_a_warning() -> None:
    program = "from anabranch.plugins.raster.sandbox_calls import SANDBOX; SANDBOX.find(256).find_protections()"
    done = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "", "the sandbox's server is ended with the process"
