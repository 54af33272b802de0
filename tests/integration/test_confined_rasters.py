"""Real rasters pass through the sandbox, and none needs a system call that is refused (TS2)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rasterio.transform import from_bounds
from structlog.testing import capture_logs

from anabranch.plugins.raster.files.drivers import gdal_environment
from anabranch.plugins.raster.models import CogOptions, Profile, Validated, ValidateOptions
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.sandbox import Limits, Sandbox
from tests.support.rasters import classes, hills, make_raster, picture

LIMITS = Limits(memory=3 * 2**30, cpu_seconds=60, file_bytes=64 * 2**20)
OLDER_KERNEL = 2
TILED: dict[str, Any] = {"tiled": True, "blockxsize": 256, "blockysize": 256}
RASTERS: dict[str, dict[str, Any]] = {
    **{compress: {"pixels": hills(), "compress": compress} for compress in ("none", "lzw", "deflate", "zstd", "lzma")},
    **{compress: {"pixels": hills(), "compress": compress} for compress in ("lerc", "lerc_zstd", "lerc_deflate")},
    "packbits": {"pixels": classes(), "compress": "packbits"},
    "jpeg": {"pixels": picture(), "compress": "jpeg", "photometric": "ycbcr", **TILED},
    "webp": {"pixels": picture(), "compress": "webp", "interleave": "pixel", **TILED},
    "ccittfax4": {"pixels": classes(values=(0, 1)), "compress": "ccittfax4", "nbits": 1},
    "bigtiff": {"pixels": hills(), "bigtiff": "yes", "predictor": 3, "compress": "deflate"},
    "jpeg 2000": {"pixels": picture(), "driver": "JP2OpenJPEG", "quality": 100, "reversible": "yes"},
    "masked": {"pixels": hills(), "nodata": -1, **TILED},
    "palette": {"pixels": classes(), "palette": {1: (255, 0, 0, 255), 7: (0, 255, 0, 255), 40: (0, 0, 255, 255)}},
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox("anabranch.plugins.raster.sandbox_functions", gdal_environment(256))
    yield made
    made.close()


@pytest.fixture(scope="module")
def older() -> Iterator[Sandbox]:
    made = Sandbox("anabranch.plugins.raster.sandbox_functions", gdal_environment(256), newest_landlock=OLDER_KERNEL)
    yield made
    made.close()


@pytest.mark.parametrize("name", RASTERS)
def test_ts2_real_rasters_need_no_call_that_is_refused(sandbox: Sandbox, tmp_path: Path, name: str) -> None:
    path = make_raster(tmp_path / ("scene.jp2" if name == "jpeg 2000" else "scene.tif"), **RASTERS[name])
    with capture_logs() as logged:
        publish(sandbox, path, tmp_path / "scratch")
    assert logged == []


@pytest.mark.parametrize("target", ["EPSG:4326", "EPSG:3035"])
def test_ts2_warps_by_many_threads_need_no_call_that_is_refused(older: Sandbox, tmp_path: Path, target: str) -> None:
    path = make_raster(tmp_path / "large.tif", hills(3_000, 2_000), nodata=-1, compress="deflate", **TILED)
    with capture_logs() as logged:
        publish(older, path, tmp_path / "scratch", target)
    assert logged == []


@pytest.mark.parametrize("box", [(9.0, 46.9, 9.4, 47.1), (-180.0, -90.0, 180.0, 90.0)], ids=["region", "world"])
@pytest.mark.parametrize("target", ["EPSG:3857", "EPSG:8857"])
def test_ts2_rasters_in_degrees_are_reprojected_with_the_drivers_that_there_are(
    sandbox: Sandbox, tmp_path: Path, box: tuple[float, float, float, float], target: str
) -> None:
    place = {"crs": "EPSG:4326", "transform": from_bounds(*box, 720, 360)}
    publish(sandbox, make_raster(tmp_path / "degrees.tif", hills(720, 360), **place), tmp_path / "scratch", target)


def publish(sandbox: Sandbox, source: Path, scratch: Path, target: str | None = None) -> None:
    """All that the handlers of a raster do with it: look, write a COG, compare, describe."""
    scratch.mkdir()
    cog = scratch / "cog.tif"
    asked = ValidateOptions(target_crs=target).model_dump(mode="json")
    settings = RasterSettings(raster_memory_mb=256).model_dump(mode="json")

    def run(name: str, reads: list[Path], **arguments: Any) -> Any:  # JSON, as the work says
        return sandbox.run(name, arguments, limits=LIMITS, writes=[scratch], reads=reads)

    looked = run("look", [source], path=str(source), options=asked, settings=settings)
    raster = Validated.model_validate(looked["raster"])
    options = CogOptions(
        kind=raster.kind, profile=Profile.ANALYSIS, repairs=raster.repairs, target_crs=target, memory_mb=256
    ).model_dump(mode="json")
    run("write", [source], source=str(source), target=str(cog), options=options)
    thumbnail = str(scratch / "thumbnail.png")
    found = run("inspect", [source, cog], source=str(source), path=str(cog), options=options, thumbnail=thumbnail)
    assert found["footprint"]
    assert (scratch / "thumbnail.png").stat().st_size > 0
