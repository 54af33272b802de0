"""A mosaic is drawn as one COG of the same raster would be: no seam, whatever the zoom (R2)."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from morecantile import tms
from rasterio.transform import from_origin
from rasterio.windows import Window

from anabranch.contract.mosaic import StoredFile
from anabranch.errors import AnabranchError, Gone, InputError
from anabranch.geo.boxes import GLOBE
from anabranch.serving.objects import Remote
from anabranch.serving.tiles.assets import Rasters
from anabranch.serving.tiles.geotiff import GeoTiff
from anabranch.serving.tiles.layers.budget import Budget
from anabranch.serving.tiles.layers.items import LayerItem
from anabranch.serving.tiles.layers.reader import LayerReader, LayerSource
from anabranch.serving.tiles.mosaic.reader import open_mosaic, open_reader
from anabranch.serving.tiles.mosaic.sources import MosaicSource
from anabranch.serving.tiles.mosaic.vrt import Part, compose
from tests.support.rasters import classes, hills, make_raster, picture
from tests.support.tiles import TiledRaster

WIDTH, HEIGHT = 2048, 2048  # whole blocks of the overview: its levels are those of one COG, to the pixel
GRID = from_origin(400_000, 5_200_000, 10, 10)
PALETTE = {value: (value, 90, 255 - value, 255) for value in range(256)}


def holes(pixels: Any, nodata: float) -> Any:
    pixels[:, 100:1100, 1000:1500] = nodata
    return pixels


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "heights": (lambda: holes(hills(WIDTH, HEIGHT), -9999), {"nodata": -9999}),
    "picture": (lambda: picture(WIDTH, HEIGHT), {"photometric": "RGB"}),
    "classes": (lambda: classes(WIDTH, HEIGHT), {"nodata": 0, "palette": PALETTE}),
    "mask": (lambda: picture(WIDTH, HEIGHT), {"mask": np.tri(HEIGHT, WIDTH, k=1200, dtype=bool)}),
}


class Pair:
    """A raster in tiles of 1,024 pixels, and the same in one COG."""

    def __init__(self, folder: Path, kind: str) -> None:
        (folder / "bronze" / "in").mkdir(parents=True)
        pixels, made = KINDS[kind]
        self.source = make_raster(folder / "bronze" / "in" / "scene.tif", pixels(), transform=GRID, **made)
        self.raster = TiledRaster(folder, "scene.tif", 1024, {})
        self.document = self.raster.document(self.raster.make())
        single = TiledRaster(folder, "scene.tif", 2048, {})
        (tile,) = single.document(single.make()).tiles
        self.single = single.path(tile.address)
        # GDAL averages all levels of a masked raster from the full one: those of the overview are rounded twice.
        self.slack = 2 if kind == "mask" else 0

    @property
    def mosaic(self) -> MosaicSource:
        return MosaicSource(self.document, lambda file: self.raster.path(file.address))


@pytest.fixture(scope="module", params=list(KINDS))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp(request.param), request.param)


def tiles_over(raster: GeoTiff, zoom: int) -> list[Any]:
    box = raster.get_geographic_bounds(rasterio.crs.CRS.from_epsg(4326))
    return list(tms.get("WebMercatorQuad").tiles(*box, [zoom]))


def farthest(drawn: Any, expected: Any) -> float:
    return float(np.abs(drawn.array.filled(0).astype(float) - expected.array.filled(0).astype(float)).max())


def test_r2_every_pixel_across_every_seam_is_that_of_the_source(pair: Pair) -> None:
    random = np.random.default_rng(4)
    corners = [(1024 * column - 40, 1024 * row - 30) for column in (0, 1, 2) for row in (0, 1, 2)]
    corners += zip(random.integers(0, WIDTH, 20).tolist(), random.integers(0, HEIGHT, 20).tolist(), strict=True)
    with (
        open_mosaic(pair.mosaic) as raster,
        raster._reading((0, 0, WIDTH, HEIGHT), 1.0),
        rasterio.open(pair.source) as source,
    ):
        for column, row in corners:
            column, row = min(max(0, column), WIDTH - 90), min(max(0, row), HEIGHT - 70)
            window = Window(column, row, 90, 70)
            assert np.array_equal(raster.dataset.read(window=window), source.read(window=window)), window
            assert np.array_equal(raster.dataset.dataset_mask(window=window), source.dataset_mask(window=window))


@pytest.mark.parametrize("zoom", [9, 12, 13])
@pytest.mark.parametrize("resampling", ["nearest", "cubic"])
def test_a_map_tile_is_that_of_one_cog(pair: Pair, zoom: int, resampling: str) -> None:
    options = {"resampling_method": resampling, "reproject_method": resampling}
    with open_reader(pair.mosaic, draws=True) as ours, GeoTiff(str(pair.single), draws=True) as theirs:
        compared = 0
        for tile in tiles_over(theirs, zoom)[:: 1 if zoom < 12 else 3]:
            drawn, expected = (each.tile(tile.x, tile.y, tile.z, **options) for each in (ours, theirs))
            assert np.array_equal(drawn.array.mask, expected.array.mask), tile
            assert farthest(drawn, expected) <= (pair.slack if zoom < 12 else 0), tile
            compared += 1
        assert compared


def test_what_is_said_of_a_mosaic_is_what_is_said_of_one_cog(pair: Pair) -> None:
    with open_reader(pair.mosaic) as ours, GeoTiff(str(pair.single)) as theirs:
        assert (ours.minzoom, ours.maxzoom) == (theirs.minzoom, theirs.maxzoom)
        said, expected = (each.info().model_dump(exclude={"driver", "band_metadata"}) for each in (ours, theirs))
        assert said == expected
        place = rasterio.warp.transform("EPSG:32633", "EPSG:4326", [400_000 + 10_235], [5_200_000 - 10_245])
        values = [each.point(place[0][0], place[1][0]).array for each in (ours, theirs)]
        assert np.array_equal(values[0].filled(0), values[1].filled(0))
        found = [each.statistics(max_size=512)["b1"] for each in (ours, theirs)]
        assert (found[0].count, found[0].mean) == (found[1].count, pytest.approx(found[1].mean, abs=pair.slack))
        assert farthest(*(each.read(max_size=1024) for each in (ours, theirs))) <= pair.slack


def test_a_request_opens_the_tiles_that_it_touches_and_no_more_than_the_limit(pair: Pair) -> None:
    opened: list[str] = []

    def locate(file: StoredFile) -> Path:
        opened.append(file.address)
        return pair.raster.path(file.address)

    source = MosaicSource(pair.document, locate)
    with open_reader(source) as raster:
        (tile, *_) = tiles_over(raster, 14)[40:]
        raster.tile(tile.x, tile.y, tile.z)
        assert len(opened) <= 1 + 4
        opened.clear()
        raster.read(max_size=1024)
        assert opened == []
        raster.max_files = 2
        with pytest.raises(InputError, match="tiles of the mosaic, and the limit is 2") as refused:
            raster.read(max_size=2000)
    assert refused.value.code == "raster.assets"


def test_a_mosaic_and_a_plain_raster_are_one_layer_with_one_budget(pair: Pair) -> None:
    sources: dict[str, Path | MosaicSource] = {"plain": pair.single, "tiled": pair.mosaic}
    items = [LayerItem("scenes", name, Rasters({})) for name in sources]
    layer = LayerSource(
        items, lambda item: sources[item.id], GLOBE, is_small=True, budget=Budget(math.inf), fits=lambda *_: True
    )
    tiled_first = replace(layer, items=items[::-1])
    with open_reader(pair.single, draws=True) as raster:
        tile, bands = tiles_over(raster, 13)[0], raster.drawn()  # at the corner, which nothing fills
        expected = raster.tile(*tile, indexes=bands)
        for source in (layer, tiled_first):
            drawn = LayerReader(source, draws=True).tile(*tile, indexes=bands)
            assert farthest(drawn, expected) <= pair.slack
    # The mosaic opens its overview and a tile.
    for budget, code in (
        (Budget(math.inf, files=2), "raster.assets"),
        (Budget(math.inf, values=9), "raster.size"),
        (Budget(0.0), "raster.slow"),
    ):
        with pytest.raises(AnabranchError) as refused:
            LayerReader(replace(tiled_first, budget=budget), draws=True).tile(*tile, indexes=bands)
        assert refused.value.code == code


def test_p5_an_item_whose_file_was_replaced_leaves_the_others_of_a_layer(pair: Pair) -> None:
    def locate(item: LayerItem) -> Path | MosaicSource:
        if item.id == "gone":
            raise Gone("file.gone", "the file was replaced")
        return pair.single

    items = [LayerItem("scenes", name, Rasters({})) for name in ("gone", "kept")]
    layer = LayerSource(items, locate, GLOBE, is_small=True, budget=Budget(math.inf), fits=lambda *_: True)
    with open_reader(pair.single, draws=True) as raster:
        tile, bands = tiles_over(raster, 13)[0], raster.drawn()
        drawn = LayerReader(layer, draws=True).tile(*tile, indexes=bands)
        assert farthest(drawn, raster.tile(*tile, indexes=bands)) == 0
    with pytest.raises(Gone):
        LayerReader(replace(layer, items=items[:1]), draws=True).tile(*tile, indexes=bands)


def test_a_mosaic_in_cloud_storage_is_read_in_ranges(pair: Pair) -> None:
    """GDAL knows no name of a file: both the tiles and what is composed of them go through our own client."""
    storage = pair.raster.context().tiers
    remote = MosaicSource(pair.document, lambda file: Remote(storage, file.address, file.size))
    with open_reader(remote, draws=True) as far, open_reader(pair.mosaic, draws=True) as near:
        for zoom in (9, 12):
            for tile in tiles_over(near, zoom)[:6]:
                drawn, expected = (each.tile(tile.x, tile.y, tile.z) for each in (far, near))
                assert np.array_equal(drawn.array.filled(0), expected.array.filled(0)), tile


def test_a_composed_raster_has_all_overviews(pair: Pair) -> None:
    overview = pair.document.overview
    with (
        rasterio.open(pair.raster.path(overview.address)) as whole,
        rasterio.open(pair.raster.path(pair.document.tiles[0].address)) as tile,
        compose(pair.document.grid, whole, [Part(tile, pair.document.tiles[0].window)]) as composed,
        rasterio.open(pair.single) as single,
    ):
        assert composed.overviews(1) == single.overviews(1) == [2, 4]
