"""The work on files of strangers, as the sandbox calls it: JSON in, JSON out (decision 011)."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import rasterio
import rasterio.transform
import rasterio.warp
from rasterio._err import CPLE_BaseError  # what rasterio raises bare where GDAL fails; it has no public name
from rasterio.errors import RasterioError

from anabranch.errors import Permanent
from anabranch.plugins.raster import cog, footprint, preview, projection, validate, verify, view
from anabranch.plugins.raster.codecs import say
from anabranch.plugins.raster.models import CogOptions, Kind, Tier, Validated, ValidateOptions
from anabranch.plugins.raster.profiles import profile_of
from anabranch.plugins.raster.reader import check_drivers

__all__ = ["check", "look", "warm_up", "write"]

Said = dict[str, Any]  # JSON of the models' own shape
Work = Callable[..., Said]

check_drivers()


def warm_up() -> None:
    """Let GDAL and PROJ read their own tables, by a raster of ours, before the call comes; they leave no thread."""
    shape = {"driver": "GTiff", "width": 16, "height": 16, "count": 1, "dtype": "uint8", "nodata": 0}
    grid = rasterio.transform.from_origin(500_000, 5_000_000, 10, 10)
    with rasterio.Env(GDAL_NUM_THREADS="1"), rasterio.MemoryFile() as file:
        file.open(**shape, crs="EPSG:32633", transform=grid).close()
        with file.open(driver="GTiff") as raster:
            raster.dataset_mask()
            rasterio.warp.transform_bounds(raster.crs, "EPSG:4326", *raster.bounds)


def _speak(work: Work) -> Work:
    """Let no error of GDAL's leave as it is: what it says is passed on, with the file and what to do."""

    @wraps(work)
    def call(*arguments: Any, **named: Any) -> Said:
        try:
            return work(*arguments, **named)
        except (RasterioError, CPLE_BaseError) as error:
            path = named.get("path") or named.get("source") or next(iter(arguments), "the raster")
            raise Permanent(
                f"GDAL can't work on {Path(path).name}: {say(error)}",
                code="raster.library",
                remedy="Write the file anew with `gdal_translate -of COG` and send that; report it if that fails, too.",
            ) from error

    return call


@_speak
def look(path: str, options: Said, tiers: list[str], *, progress: cog.Progress) -> Said:
    """A raster that can be published, the pixels of its COG, and those of the tiers that its kind allows."""
    asked = ValidateOptions.model_validate(options)
    raster = validate.validate(Path(path), asked)
    return {
        "raster": raster.model_dump(mode="json"),
        "tiers": [tier for tier in tiers if _allows(raster, Tier(tier))],
        "pixels": view.count_pixels(
            Path(path), validate.choose(raster.kind, raster.mends, asked, discrete=raster.discrete)
        ),
    }


@_speak
def write(source: str, target: str, options: Said, *, progress: cog.Progress) -> Said:
    """Write a COG."""
    return cog.write_cog(Path(source), Path(target), CogOptions.model_validate(options), progress).model_dump(
        mode="json"
    )


@_speak
def check(source: str, path: str, options: Said, thumbnail: str | None = None, *, progress: cog.Progress) -> Said:
    """Compare a COG with its source; with a thumbnail, describe it, too."""
    asked = CogOptions.model_validate(options)
    found = verify.verify(Path(source), Path(path), asked).model_dump(mode="json")
    return {"checked": found, "described": _describe(Path(path), asked, Path(thumbnail)) if thumbnail else None}


def _describe(path: Path, options: CogOptions, thumbnail: Path) -> Said:
    """Where a COG has data, its grid, and how a map may show it; a small picture of it is written."""
    found, grid = footprint.footprint(path), projection.project(path)
    shown = preview.preview(path, thumbnail, options.kind, discrete=options.discrete)
    return {
        "footprint": found.geometry(),
        "bbox": list(found.bbox),
        "projection": grid.model_dump(mode="json"),
        "shown": shown.bands,
        "stretch": [list(limits) for limits in shown.stretch],
        "software": {"gdal": rasterio.__gdal_version__, "rasterio": rasterio.__version__},
    }


def _allows(raster: Validated, tier: Tier) -> bool:
    try:
        profile_of(Kind(raster.kind), tier, raster.dtype)
    except Permanent:
        return False
    return True
