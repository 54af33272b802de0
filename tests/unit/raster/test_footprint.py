"""Footprints and previews of rasters."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.crs import CRS
from rasterio.enums import ColorInterp
from rasterio.transform import from_bounds, from_origin

from anabranch.errors import Permanent
from anabranch.geo.degrees import to_degrees
from anabranch.plugins.raster.files.drivers import ALLOWED, gdal_environment
from anabranch.plugins.raster.files.reader import quiet
from anabranch.plugins.raster.item.footprint import Footprint, footprint
from anabranch.plugins.raster.item.preview import preview
from anabranch.plugins.raster.models import Kind, Validated
from tests.support.rasters import GRID, classes, hills, make_raster, picture

PALETTE = {value: (value, 90, 255 - value, 255) for value in range(256)}


def rings(found: Footprint) -> list[Any]:
    polygons: list[Any] = found.coordinates if found.type == "MultiPolygon" else [found.coordinates]
    return [ring for polygon in polygons for ring in polygon]


def area(ring: list[tuple[float, float]]) -> float:
    points = np.asarray(ring)
    return float(np.sum(points[:-1, 0] * points[1:, 1] - points[1:, 0] * points[:-1, 1]) / 2)


def trace(path: Path, pixels: Any, crs: str, grid: Affine, **options: Any) -> Footprint:
    return footprint(make_raster(path, pixels, crs=crs, transform=grid, **options))


def test_c1_a_full_raster_is_its_four_corners(tmp_path: Path) -> None:
    found = trace(tmp_path / "a.tif", hills(), "EPSG:32633", GRID)
    assert (found.type, len(rings(found))) == ("Polygon", 1)
    assert len(rings(found)[0]) <= 9  # and few more, where a side is curved
    lons, lats = to_degrees(
        CRS.from_epsg(32633), [GRID * corner for corner in ((0, 0), (700, 0), (0, 600), (700, 600))]
    )
    assert {*zip(lons.round(7), lats.round(7), strict=True)} <= set(rings(found)[0])
    assert found.bbox == pytest.approx((15.0, 45.09943, 15.08905, 45.15348), abs=1e-4)
    assert area(rings(found)[0]) > 0  # counterclockwise


def test_c1_the_footprint_follows_the_valid_data_and_keeps_its_holes(tmp_path: Path) -> None:
    pixels = hills()
    rows, columns = np.mgrid[:600, :700]
    pixels[0][(columns - 350) ** 2 + (rows - 300) ** 2 > 250**2] = -9999
    pixels[0][260:340, 310:390] = -9999
    found = trace(tmp_path / "a.tif", pixels, "EPSG:4326", from_origin(0, 6, 0.01, 0.01), nodata=-9999)
    outer, hole = rings(found)
    assert area(outer) == pytest.approx(np.pi * 2.5**2, rel=0.02)
    assert area(hole) == pytest.approx(-0.64, rel=0.05)
    assert len(outer) < 250


@pytest.mark.parametrize(
    ("crs", "grid"),
    [("EPSG:4326", from_origin(170, 10, 0.03, 0.03)), ("EPSG:32760", from_origin(780_000, 8_200_000, 1000, 1000))],
)
def test_c1_what_crosses_180_degrees_is_split_there(tmp_path: Path, crs: str, grid: Affine) -> None:
    found = trace(tmp_path / "a.tif", hills(), crs, grid)
    assert found.type == "MultiPolygon"
    west, _, east, _ = found.bbox
    assert west > 0 > east
    for ring in rings(found):
        lons = [lon for lon, _ in ring]
        assert min(lons) >= -180
        assert max(lons) <= 180
        assert max(lons) - min(lons) < 25


@pytest.mark.parametrize(
    ("left", "right", "west", "east"),
    [(19.9e6, 20.6e6, 178.7647, -174.9471), (-20.6e6, -19.9e6, 174.9471, -178.7647)],
)
def test_c1_a_cylindrical_map_goes_on_past_180_degrees(
    tmp_path: Path, left: float, right: float, west: float, east: float
) -> None:
    grid = from_bounds(left, -3e5, right, 3e5, 700, 600)
    found = trace(tmp_path / "a.tif", hills(), "EPSG:3857", grid)
    assert found.type == "MultiPolygon"
    assert (found.bbox[0], found.bbox[2]) == pytest.approx((west, east), abs=0.02)
    assert all(holds(found, lon, 0.0) for lon in (west + 0.1, 179.9, -179.9, east - 0.1))
    assert not holds(found, 0.0, 0.0)


def test_c1_longitudes_of_0_to_360_become_those_of_the_world(tmp_path: Path) -> None:
    found = trace(tmp_path / "a.tif", hills(), "EPSG:4326", from_bounds(0, -80, 360, 80, 700, 600))
    assert found.bbox == pytest.approx((-180, -80, 180, 80))
    assert sum(area(ring) for ring in rings(found)) == pytest.approx(360 * 160)


@pytest.mark.parametrize(("crs", "pole"), [("EPSG:3413", 90), ("EPSG:3031", -90)])
def test_c1_a_pole_inside_is_covered_to_the_pole(tmp_path: Path, crs: str, pole: int) -> None:
    found = trace(tmp_path / "a.tif", hills(), crs, from_bounds(-3e6, -3e6, 3e6, 3e6, 700, 600))
    assert found.bbox[0] == -180
    assert found.bbox[2] == 180
    assert pole in (found.bbox[1], found.bbox[3])


def holds(found: Footprint, lon: float, lat: float) -> bool:
    """Whether a point is within one of the rings."""
    inside = False
    for ring in rings(found):
        for (x, y), (to_x, to_y) in pairwise(ring):
            if (y > lat) != (to_y > lat) and lon < x + (to_x - x) * (lat - y) / (to_y - y):
                inside = not inside
    return inside


def test_c1_an_island_far_from_the_rest_is_in_the_bbox_and_in_the_geometry(tmp_path: Path) -> None:
    pixels = np.zeros((1, 2000, 2000), "uint8")
    pixels[0, :1200, :1200] = 7
    pixels[0, 1997:, 1998:] = 7  # smaller than a pixel of a preview
    found = trace(tmp_path / "a.tif", pixels, "EPSG:4326", from_origin(10, 50, 0.001, 0.001), nodata=0)
    assert found.bbox == pytest.approx((10.0, 48.0, 12.0, 50.0), abs=1e-6)
    assert holds(found, 11.9995, 48.0005)
    assert not holds(found, 11.5, 48.5)


def test_c1_many_small_parts_are_all_in_the_geometry(tmp_path: Path) -> None:
    pixels = np.zeros((1, 400, 400), "uint8")
    pixels[0, :150, :150] = 1
    spots = [(row, column) for row in range(175, 400, 20) for column in range(175, 400, 20)]
    for spot in spots:
        pixels[(0, *spot)] = 1
    found = trace(tmp_path / "a.tif", pixels, "EPSG:4326", from_origin(0, 40, 0.1, 0.1), nodata=0)
    assert all(holds(found, (column + 0.5) / 10, 40 - (row + 0.5) / 10) for row, column in spots)
    assert found.bbox == pytest.approx((0.0, 40 - 39.6, 39.6, 40.0))
    assert sum(map(len, rings(found))) < 2000


@pytest.mark.parametrize(
    ("crs", "grid"),
    [
        ("EPSG:4326", from_origin(170, 10, 0.03, 0.03)),
        ("EPSG:3413", from_bounds(-3e6, -3e6, 3e6, 3e6, 700, 600)),
    ],
)
def test_c1_islands_count_across_180_degrees_and_around_poles(tmp_path: Path, crs: str, grid: Affine) -> None:
    pixels = np.zeros((1, 600, 700), "uint8")
    pixels[0, :300, :350], pixels[0, -1, -1] = 1, 1
    found = trace(tmp_path / "a.tif", pixels, crs, grid, nodata=0)
    west, south, east, north = found.bbox
    lon, lat = to_degrees(CRS.from_string(crs), [grid * (699.5, 599.5)])
    lon = (lon + 180) % 360 - 180
    assert holds(found, float(lon[0]), float(lat[0]))
    assert south <= lat[0] <= north
    assert west <= lon[0] <= east if west <= east else lon[0] <= east or lon[0] >= west


def test_c1_a_ragged_world_is_where_it_is(tmp_path: Path) -> None:
    pixels = np.ones((1, 300, 400), "uint8")
    pixels[0, ::2, :4] = 0
    found = trace(tmp_path / "a.tif", pixels, "EPSG:3857", from_bounds(-2e7, -1e7, 2e7, 1e7, 400, 300), nodata=0)
    assert all(holds(found, lon, 0.0) for lon in (-170.0, -1.0, 90.0, 175.0))
    assert found.bbox == pytest.approx((-179.663, -66.446, 179.663, 66.446), abs=1e-3)


def test_c1_what_only_a_later_band_has_is_data_too(tmp_path: Path) -> None:
    pixels = np.full((2, 50, 50), np.nan, "float32")
    pixels[0, :25], pixels[1, 25:] = 1, 1
    found = trace(tmp_path / "a.tif", pixels, "EPSG:4326", from_origin(0, 5, 0.1, 0.1), nodata=float("nan"))
    assert found.bbox == pytest.approx((0, 0, 5, 5))


def test_a_raster_without_a_valid_pixel_has_no_footprint(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="no valid pixel"):
        trace(tmp_path / "a.tif", np.zeros((1, 20, 20), "uint8"), "EPSG:32633", GRID, nodata=0)


@pytest.mark.parametrize(
    ("pixels", "kind", "options"),
    [
        (picture(), Kind.RGB, {}),
        (picture(dtype="uint16"), Kind.RGB, {}),
        (hills(), Kind.DEM, {"nodata": -9999}),
        (classes(), Kind.CATEGORICAL, {"palette": PALETTE}),
        (classes(), Kind.CATEGORICAL, {}),
        (hills(3, 1), Kind.DEM, {}),
    ],
)
def test_a_preview_is_a_small_picture_that_shows_something(
    tmp_path: Path, pixels: Any, kind: Kind, options: dict[str, Any]
) -> None:
    preview(make_raster(tmp_path / "a.tif", pixels, **options), tmp_path / "a.png", kind, 256)
    with quiet(), rasterio.open(tmp_path / "a.png") as png:
        assert max(png.shape) <= 256
        assert png.count == 3  # nothing of it is transparent
        assert np.unique(png.read(1)).size > 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.png", "a.tif"]


@pytest.mark.parametrize(
    ("said", "bands"),
    [
        ({"descriptions": ("blue", "green", "Red", "nir", "red edge")}, [3, 2, 1]),
        ({"descriptions": ("B02", "B03", "B04", "B08", "red edge")}, [1, 2, 3]),
        ({"descriptions": ("red", "red", "green", "blue", "nir")}, [1, 2, 3]),
        ({"colorinterp": [ColorInterp[name] for name in ("gray", "blue", "green", "red", "undefined")]}, [4, 3, 2]),
        ({}, [1, 2, 3]),
    ],
)
def test_a_preview_shows_the_bands_that_are_red_green_and_blue(
    tmp_path: Path, said: dict[str, Any], bands: list[int]
) -> None:
    pixels = np.stack([band * hills(dtype="uint16")[0] for band in range(1, 6)])
    path = make_raster(tmp_path / "a.tif", pixels, bands=said)
    shown = preview(path, tmp_path / "a.png", Kind.MULTISPECTRAL)
    assert shown.bands == bands
    assert [low // 200 for low, _ in shown.stretch] == bands


def test_names_of_bands_say_more_than_the_colours_that_three_bytes_are_given(tmp_path: Path) -> None:
    pixels = np.stack([np.full((60, 70), value, "uint8") for value in (10, 120, 240)])
    path = make_raster(tmp_path / "a.tif", pixels, bands={"descriptions": ("blue", "green", "red")})
    preview(path, tmp_path / "a.png", Kind.RGB)
    with quiet(), rasterio.open(tmp_path / "a.png") as png:
        assert png.read()[:3, 0, 0].tolist() == [240, 120, 10]


def test_a_preview_has_the_palettes_colours_and_clear_nodata(tmp_path: Path) -> None:
    pixels = classes()
    pixels[0, :300] = 0
    path = make_raster(tmp_path / "a.tif", pixels, palette=PALETTE, nodata=0)
    preview(path, tmp_path / "a.png", Kind.CATEGORICAL)
    with quiet(), rasterio.open(tmp_path / "a.png") as png:
        shown = png.read()
    assert set(np.unique(shown[0][shown[3] > 0])) == {1, 7, 40}
    assert not shown[3][:200].any()


IN_THE_OPEN = """
import json, sys
from pathlib import Path
import rasterio
from anabranch.plugins.raster.models import CogOptions, ValidateOptions
from anabranch.plugins.raster.files.reader import check_drivers
from anabranch.plugins.raster.cog.write import write_cog
from anabranch.plugins.raster.item.footprint import footprint
from anabranch.plugins.raster.item.preview import preview
from anabranch.plugins.raster.checks.validate import validate
from anabranch.plugins.raster.cog.verify import verify
check_drivers()
source, cog = Path(sys.argv[1]), Path(sys.argv[2])
found = validate(source, ValidateOptions(target_crs="EPSG:3857"))
options = CogOptions(kind=found.kind, repairs=found.repairs, target_crs="EPSG:3857")
write_cog(source, cog, options)
verify(source, cog, options)
footprint(cog)
preview(cog, cog.with_suffix(".png"), found.kind)
with rasterio.Env() as env:
    print(json.dumps([sorted(env.drivers()), found.model_dump(mode="json")]))
"""


def test_s4_all_of_the_work_is_done_with_the_allowed_drivers_alone(tmp_path: Path) -> None:
    """In a process with only the environment made for it, and with sidecar files that point elsewhere."""
    source = make_raster(tmp_path / "a.tif", picture())
    secret = make_raster(tmp_path / "secret.tif", picture() // 2)
    vrt = f'<PAMDataset><Metadata domain="OVERVIEWS"><MDI key="OVERVIEW_FILE">{secret}</MDI></Metadata></PAMDataset>'
    (tmp_path / "a.tif.aux.xml").write_text(vrt)
    (tmp_path / "a.tif.ovr").write_bytes(secret.read_bytes())
    (tmp_path / "a.tif.msk").write_bytes(secret.read_bytes())
    environment = {**gdal_environment(256), "PATH": os.environ["PATH"]}
    program = [sys.executable, "-c", IN_THE_OPEN, str(source), str(tmp_path / "cog.tif")]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    drivers, found = json.loads(done.stdout)
    assert set(drivers) <= ALLOWED | {"VRT"}  # which warping adds, to this process alone
    assert Validated.model_validate(found).mask == "none"
    assert done.stderr == ""


def test_s4_drivers_that_are_not_allowed_stop_the_work(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from anabranch.plugins.raster.files.reader import check_drivers; check_drivers()"]
    done = subprocess.run(program, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False)
    assert "drivers that are not allowed" in done.stderr
