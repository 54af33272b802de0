"""Statistics of tiles are those of the whole raster that they are parts of."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import shapely
from rasterio.transform import from_origin
from rasterio.windows import Window as Part
from rasterio.windows import transform as place_part

from anabranch.contract.mosaic import Grid, Window
from anabranch.errors import Permanent
from anabranch.plugins.zonal.models import BandStatistics, MosaicTiles, Statistic
from anabranch.plugins.zonal.statistics import Measures, find_tiles, measure

GRID = from_origin(10, 50, 0.5, 0.5)
WINDOWS = tuple(
    Window(column=column, row=row, width=min(4, 7 - column), height=min(4, 6 - row))
    for row in (0, 4)
    for column in (0, 4)
)
TILES = MosaicTiles(grid=Grid(width=7, height=6, transform=GRID[:6], side=4, overviews=1), windows=WINDOWS)
PIXELS = np.arange(2 * 6 * 7, dtype="int16").reshape(2, 6, 7)
PIXELS[:, :4, 4:] = -1  # the second tile
POLYGONS: Any = np.array(
    [shapely.box(10.2, 47.1, 13.3, 49.9), shapely.Point(12, 48).buffer(0.7), shapely.box(12.1, 48.1, 13, 49),
     shapely.box(0, 0, 1, 1), shapely.box(9, 46, 20, 60)], object,
)  # fmt: skip


def write(path: Path, pixels: Any, grid: Any, valid: Any, **more: Any) -> Path:
    count, height, width = pixels.shape
    profile = {"driver": "GTiff", "count": count, "dtype": pixels.dtype, "height": height, "width": width}
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(path, "w", **profile, crs="EPSG:4326", transform=grid, **more) as raster,
    ):
        raster.write(pixels)
        raster.scales, raster.offsets = (0.5,) * count, (10,) * count
        if valid is not None:
            raster.write_mask(valid)
    return path


def make_mosaic(folder: Path, valid: Any, **more: Any) -> tuple[Path, Path]:
    """One raster of all pixels, and the overview beside a folder of tiles, of which the second is empty."""
    whole = write(folder / "whole.tif", PIXELS, GRID, valid, **more)
    overview = write(folder / "overview.tif", PIXELS[:, ::2, ::2], GRID * GRID.scale(2), None, **more)
    (folder / "tiles").mkdir()
    for number, window in enumerate(WINDOWS):
        part = (slice(window.row, window.row + window.height), slice(window.column, window.column + window.width))
        grid = place_part(Part(window.column, window.row, window.width, window.height), GRID)
        if number != 1:
            shown = None if valid is None else valid[part]
            write(folder / "tiles" / TILES.name(window), PIXELS[:, *part], grid, shown, **more)
    return whole, overview


def run(path: Path, mosaic: MosaicTiles | None = None, tiles: Path | None = None) -> Measures:
    wanted = BandStatistics(band=2, statistics=tuple(Statistic))
    return measure(path, POLYGONS, wanted, 256, lambda *_: None, mosaic, tiles)


@pytest.mark.parametrize("masked", [True, False])
def test_r2_tiles_are_measured_as_one_raster(tmp_path: Path, masked: bool) -> None:
    """Masks or nodata, scales and offsets are respected; a part without a tile has no data."""
    valid = (PIXELS[0] >= 0) & (PIXELS[0] % 5 > 0) if masked else None
    whole, overview = make_mosaic(tmp_path, valid, **({} if masked else {"nodata": -1}))
    stored = TILES.model_copy(update={"windows": (WINDOWS[0], *WINDOWS[2:])})
    found, expected = run(overview, stored, tmp_path / "tiles"), run(whole)
    assert found.columns.equals(expected.columns)
    assert found.outside.tolist() == expected.outside.tolist() == [False, False, False, True, False]
    assert found.without_data.tolist() == expected.without_data.tolist() == [False, False, True, False, False]


def test_only_tiles_that_polygons_touch_are_read(tmp_path: Path) -> None:
    _, overview = make_mosaic(tmp_path, None)
    for polygon, wanted in ((POLYGONS[1], (0, 1, 2, 3)), (POLYGONS[2], (1,)), (POLYGONS[3], ())):
        found = find_tiles(overview, TILES, tmp_path / "tiles", np.array([polygon], object))
        assert found.windows == tuple(WINDOWS[number] for number in wanted)


def test_a_tile_that_is_not_as_its_mosaic_says_is_refused(tmp_path: Path) -> None:
    whole, overview = make_mosaic(tmp_path, None)
    whole.replace(tmp_path / "tiles" / TILES.name(WINDOWS[1]))
    with pytest.raises(Permanent, match="the tile at column 4 and row 0 is not as its mosaic says"):
        run(overview, TILES, tmp_path / "tiles")
