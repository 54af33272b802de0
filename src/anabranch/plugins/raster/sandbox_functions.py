"""Functions on untrusted files that run in the sandbox: JSON in, JSON out (decision 011)."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import rasterio
import rasterio.transform
import rasterio.warp
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.errors import RasterioError

from anabranch.errors import Permanent
from anabranch.plugins.raster import cog, footprint, preview, projection, target_view, validate, verify
from anabranch.plugins.raster.codecs import gdal_message
from anabranch.plugins.raster.encoding import encoding_of
from anabranch.plugins.raster.models import CogOptions, Kind, Profile, Validated, ValidateOptions
from anabranch.plugins.raster.reader import check_drivers

__all__ = ["check", "look", "warm_up", "write"]

JsonObject = dict[str, Any]  # in the shape of the models
Work = Callable[..., JsonObject]

check_drivers()


def warm_up() -> None:
    """Make GDAL and PROJ read their tables before the first call, with a raster in memory; no thread remains."""
    shape = {"driver": "GTiff", "width": 16, "height": 16, "count": 1, "dtype": "uint8", "nodata": 0}
    grid = rasterio.transform.from_origin(500_000, 5_000_000, 10, 10)
    with rasterio.Env(GDAL_NUM_THREADS="1"), rasterio.MemoryFile() as file:
        file.open(**shape, crs="EPSG:32633", transform=grid).close()
        with file.open(driver="GTiff") as raster:
            raster.dataset_mask()
            rasterio.warp.transform_bounds(raster.crs, "EPSG:4326", *raster.bounds)


def _translate_errors(work: Work) -> Work:
    """Raise every GDAL error as Permanent, with GDAL's message, the file and a remedy."""

    @wraps(work)
    def call(*arguments: Any, **named: Any) -> JsonObject:
        try:
            return work(*arguments, **named)
        except (RasterioError, CPLE_BaseError) as error:
            path = named.get("path") or named.get("source") or next(iter(arguments), "the raster")
            raise Permanent(
                f"GDAL can't process {Path(path).name}: {gdal_message(error)}",
                code="raster.library",
                remedy="Rewrite the file with `gdal_translate -of COG` and send that; report a bug if that fails, too.",
            ) from error

    return call


@_translate_errors
def look(path: str, options: JsonObject, profiles: list[str], *, progress: cog.Progress) -> JsonObject:
    """Validate a raster; returns it, the number of pixels of its COG, and the profiles that its kind allows."""
    asked = ValidateOptions.model_validate(options)
    raster = validate.validate(Path(path), asked)
    return {
        "raster": raster.model_dump(mode="json"),
        "tiers": [profile for profile in profiles if _allows(raster, Profile(profile))],
        "pixels": target_view.count_pixels(
            Path(path), validate.choose(raster.kind, raster.mends, asked, discrete=raster.discrete)
        ),
    }


@_translate_errors
def write(source: str, target: str, options: JsonObject, *, progress: cog.Progress) -> JsonObject:
    """Write a COG."""
    return cog.write_cog(Path(source), Path(target), CogOptions.model_validate(options), progress).model_dump(
        mode="json"
    )


@_translate_errors
def check(
    source: str, path: str, options: JsonObject, thumbnail: str | None = None, *, progress: cog.Progress
) -> JsonObject:
    """Compare a COG with its source; with `thumbnail`, also describe the COG."""
    asked = CogOptions.model_validate(options)
    found = verify.verify(Path(source), Path(path), asked).model_dump(mode="json")
    return {"checked": found, "described": _describe(Path(path), asked, Path(thumbnail)) if thumbnail else None}


def _describe(path: Path, options: CogOptions, thumbnail: Path) -> JsonObject:
    """The footprint, grid and render hints of a COG; its thumbnail is written."""
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


def _allows(raster: Validated, profile: Profile) -> bool:
    try:
        encoding_of(Kind(raster.kind), profile, raster.dtype)
    except Permanent:
        return False
    return True
