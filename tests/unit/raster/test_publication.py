"""The facts of an item, from what the sandbox returns."""

from pathlib import Path
from typing import Any

import pytest

from anabranch.plugins.raster.footprint import footprint
from anabranch.plugins.raster.models import ValidateOptions
from anabranch.plugins.raster.projection import project
from anabranch.plugins.raster.publication import Span, describe_item
from anabranch.plugins.raster.validate import validate
from anabranch.plugins.stac.item import Origin, build_item
from anabranch.plugins.stac.validation import find_errors
from tests.support.items import raster_item
from tests.support.rasters import GRID, hills, make_raster

ODD = "+proj=laea +lat_0=12 +lon_0=34 +datum=WGS84"


def describe(
    tmp_path: Path,
    crs: str = "EPSG:32633",
    target: str = "EPSG:32633",
    shown: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The facts of an item whose source and COG may have different CRSs."""
    raster = validate(make_raster(tmp_path / "a.tif", hills(), crs=crs), ValidateOptions())
    cog = make_raster(tmp_path / "cog.tif", hills(), crs=target)
    grid, found = project(cog).model_dump(), footprint(cog)
    described = {"projection": grid, "footprint": found.geometry(), "bbox": found.bbox, "software": {}}
    described |= shown or {"shown": [1], "stretch": []}
    span = Span(datetime="2026-01-01T00:00:00Z")
    return describe_item("a", None, raster, raster.bands, described, span, **options)


@pytest.mark.parametrize("asset", ["visual", "archive"])
def test_c1_maps_show_an_asset_that_the_item_has(tmp_path: Path, asset: str) -> None:
    assert describe(tmp_path, asset=asset)["renders"]["default"]["assets"] == [asset]
    assert describe(tmp_path)["renders"]["default"]["assets"] == ["data"]


def test_c1_maps_show_the_bands_that_the_preview_shows(tmp_path: Path) -> None:
    stretch = [[0.0, 3.0], [0.0, 2.0], [0.0, 1.0]]
    facts = describe(tmp_path, shown={"shown": [3, 2, 1], "stretch": stretch})["renders"]["default"]
    assert (facts["bidx"], facts["rescale"]) == ([3, 2, 1], stretch)


def test_c1_the_grid_is_that_of_the_cog_by_its_code(tmp_path: Path) -> None:
    facts = describe(tmp_path, ODD)
    assert (facts["crs"], facts["projjson"]) == ("EPSG:32633", None)
    assert (facts["shape"], facts["transform"]) == ((600, 700), tuple(GRID)[:6])


def test_c1_a_crs_without_a_code_is_written_as_projjson_that_the_schemas_accept(tmp_path: Path) -> None:
    facts = describe(tmp_path, target=ODD)
    assert (facts["crs"], facts["projjson"]["type"]) == (None, "ProjectedCRS")
    item: dict[str, Any] = build_item("heights", raster_item(**facts), Origin("j" * 64), "0.1.0")
    assert item["properties"]["proj:projjson"] == facts["projjson"]
    assert find_errors(item) == []
