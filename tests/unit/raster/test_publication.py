"""The facts of an item, from what the sandbox returns."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from anabranch.plugins.raster.checks.validate import validate
from anabranch.plugins.raster.handler_models import Cog, Verified, VerifyParams
from anabranch.plugins.raster.item.footprint import footprint
from anabranch.plugins.raster.item.projection import project
from anabranch.plugins.raster.item.publication import ASSETS, COG_TYPE, Span, describe_item, name_item
from anabranch.plugins.raster.models import Compared, Inspected, Profile
from anabranch.plugins.stac.facts import Footprint, Output, RasterItem
from anabranch.plugins.stac.item import Origin, build_item
from anabranch.plugins.stac.validation.validate import find_errors
from tests.support.rasters import GRID, hills, make_raster

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
OUTPUT: dict[str, str | int] = {
    "kind": "cog",
    "asset": "data",
    "name": "a.tif",
    "href": "silver://cog.tif",
    "media_type": COG_TYPE,
}
OUTPUT |= {"size": 1, "sha256": "0" * 64}
ODD = "+proj=laea +lat_0=12 +lon_0=34 +datum=WGS84"


def describe(
    tmp_path: Path,
    crs: str = "EPSG:32633",
    target: str = "EPSG:32633",
    profile: Profile = Profile.ANALYSIS,
    shown: tuple[int, ...] = (1,),
    stretch: tuple[tuple[float, float], ...] = (),
) -> RasterItem:
    """The facts of an item whose source and COG may have different CRSs."""
    raster = validate(make_raster(tmp_path / "a.tif", hills(), crs=crs))
    cog = make_raster(tmp_path / "cog.tif", hills(), crs=target)
    found = footprint(cog)
    inspected = Inspected(
        compared=Compared(size_bytes=1, bands=raster.bands, compared="every pixel", overviews=()),
        footprint=Footprint.model_validate(found.geometry()),
        bbox=found.bbox,
        projection=project(cog),
        shown=shown,
        stretch=stretch,
        software={},
    )
    cogs = (Cog(tier=profile, address="silver://cog.tif", size=1, sha256="0" * 64),)
    params = VerifyParams(source="bronze://a.tif", sha256="0" * 64, raster=raster, cogs=cogs, modified=MOMENT)
    output = Output.model_validate(OUTPUT)
    return describe_item(params, inspected, Span(MOMENT), [output])


@pytest.mark.parametrize("profile", [Profile.VISUALIZATION, Profile.ARCHIVE])
def test_c1_maps_show_an_asset_that_the_item_has(tmp_path: Path, profile: Profile) -> None:
    assert describe(tmp_path, profile=profile).renders["default"].assets == [ASSETS[profile]]
    assert describe(tmp_path).renders["default"].assets == ["data"]


def test_c1_maps_show_the_bands_that_the_preview_shows(tmp_path: Path) -> None:
    stretch = ((0.0, 3.0), (0.0, 2.0), (0.0, 1.0))
    render = describe(tmp_path, shown=(3, 2, 1), stretch=stretch).renders["default"]
    assert (render.bidx, render.rescale) == ([3, 2, 1], list(stretch))


def test_c1_the_grid_is_that_of_the_cog_by_its_code(tmp_path: Path) -> None:
    facts = describe(tmp_path, ODD)
    assert (facts.crs, facts.projjson) == ("EPSG:32633", None)
    assert (facts.shape, facts.transform) == ((600, 700), tuple(GRID)[:6])


def test_c1_a_crs_without_a_code_is_written_as_projjson_that_the_schemas_accept(tmp_path: Path) -> None:
    facts = describe(tmp_path, target=ODD)
    assert facts.projjson
    assert (facts.crs, facts.projjson["type"]) == (None, "ProjectedCRS")
    item: dict[str, Any] = build_item("heights", facts, Origin("j" * 64), "0.1.0")
    assert item["properties"]["proj:projjson"] == facts.projjson
    assert find_errors(item) == []


def test_a_verified_raster_hands_over_what_is_known_and_no_nulls(tmp_path: Path) -> None:
    """The item is the parameter of the catalog's handlers, and the outputs are a part of the job's result."""
    item = describe(tmp_path, target=ODD)
    verified = Verified(outputs=tuple(item.outputs), item=item, warnings=(), report="").model_dump(mode="json")
    assert verified["outputs"] == verified["item"]["outputs"] == [OUTPUT]
    assert "title" not in verified["item"]
    read_back = RasterItem.model_validate(verified["item"])
    built = [build_item("heights", facts, Origin("j" * 64), "0.1.0") for facts in (item, read_back)]
    assert built[0] == built[1]


def test_e15_rasters_whose_overviews_differ_are_different_items(tmp_path: Path) -> None:
    raster = validate(make_raster(tmp_path / "a.tif", hills(), crs=32633))
    cogs = (Cog(tier=Profile.ANALYSIS, address="silver://cog.tif", size=1, sha256="0" * 64),)
    params = VerifyParams(source="bronze://a.tif", sha256="0" * 64, raster=raster, cogs=cogs, modified=MOMENT)
    unsure = params.model_copy(update={"raster": raster.model_copy(update={"discrete": not raster.discrete})})
    assert name_item(params) != name_item(unsure)
