"""Tests of the handler, without a worker or a database."""

from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from anabranch import Permanent
from anabranch.testing import FakeContext
from ndvi import NODATA, NdviParams, create_ndvi

SCENE = "bronze://scenes/field.tif"


@pytest.fixture
def ctx(tmp_path: Path) -> FakeContext:
    """The context of a task, with a scene of 2 x 2 pixels in its bronze tier."""
    context = FakeContext(tmp_path)
    bands = np.array([[[1000, 0], [500, 0]], [[3000, 800], [500, 0]]], "u2")
    path = tmp_path / "field.tif"
    profile = {"driver": "GTiff", "count": 2, "height": 2, "width": 2, "dtype": "uint16", "crs": "EPSG:32633"}
    with rasterio.open(path, "w", transform=from_origin(5e5, 5.4e6, 10, 10), **profile) as file:
        file.write(bands)
    context.tiers.put(SCENE, path.read_bytes())
    return context


def test_the_index_is_stored_and_its_mean_returned(ctx: FakeContext) -> None:
    result = create_ndvi(NdviParams(source=SCENE), ctx)

    assert result.mean == pytest.approx((0.5 + 1 + 0) / 3)
    with rasterio.open(ctx.storage.fetch(result.ndvi)) as index:
        assert index.read(1).tolist() == [[0.5, 1], [0, NODATA]]
        assert index.crs == "EPSG:32633"
    assert ctx.reports == [{"done": 1, "total": 1, "message": "mean 0.500"}]


def test_a_scene_without_the_bands_fails_for_good(ctx: FakeContext) -> None:
    with pytest.raises(Permanent, match="the scene has 2 bands; bands 1 and 8 are needed"):
        create_ndvi(NdviParams(source=SCENE, nir=8), ctx)
