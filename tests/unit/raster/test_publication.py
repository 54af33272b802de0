"""What an item says of a raster, from the facts that the sandbox tells."""

from pathlib import Path
from typing import Any

import pytest

from anabranch.plugins.raster.footprint import footprint
from anabranch.plugins.raster.models import ValidateOptions
from anabranch.plugins.raster.projection import project
from anabranch.plugins.raster.publication import Span, describe_item
from anabranch.plugins.raster.validate import validate
from anabranch.testing.rasters import hills, make_raster


def tell(tmp_path: Path, crs: str = "EPSG:32633", target: str = "EPSG:32633", **options: Any) -> dict[str, Any]:
    """The facts of an item whose source and COG may differ in their coordinate system."""
    raster = validate(make_raster(tmp_path / "a.tif", hills(), crs=crs), ValidateOptions())
    cog = make_raster(tmp_path / "cog.tif", hills(), crs=target)
    grid, found = project(cog).model_dump(), footprint(cog)
    described = {"projection": grid, "footprint": found.geometry(), "bbox": found.bbox, "stretch": [], "software": {}}
    span = Span(datetime="2026-01-01T00:00:00Z")
    return describe_item("a", None, raster, raster.bands, described, span, **options)


@pytest.mark.parametrize("asset", ["visual", "archive"])
def test_c1_maps_show_an_asset_that_the_item_has(tmp_path: Path, asset: str) -> None:
    assert tell(tmp_path, asset=asset)["renders"]["default"]["assets"] == [asset]
    assert tell(tmp_path)["renders"]["default"]["assets"] == ["data"]
