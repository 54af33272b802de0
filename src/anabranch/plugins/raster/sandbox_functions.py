"""Functions on untrusted files that run in the sandbox: JSON in, JSON out (decision 011)."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import numpy.ma  # noqa: F401  # numpy imports it at its first use, which would be in each call
import rasterio
import rasterio.transform
import rasterio.warp
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.errors import RasterioError

from anabranch.contract.mosaic import Grid
from anabranch.errors import Permanent
from anabranch.geo.sidecar_names import SidecarKind
from anabranch.plugins.raster.checks import validate
from anabranch.plugins.raster.cog import target_view, verify
from anabranch.plugins.raster.cog import write as cog
from anabranch.plugins.raster.cog.encoding import encoding_of
from anabranch.plugins.raster.files.codecs import gdal_message
from anabranch.plugins.raster.files.reader import check_drivers
from anabranch.plugins.raster.files.source import Source
from anabranch.plugins.raster.formats.extract import extract as extract_raster
from anabranch.plugins.raster.formats.extract import find_used_sidecars, list_times
from anabranch.plugins.raster.formats.models import Choice, Extracted, ListParams, TimeSteps, UsedSidecars
from anabranch.plugins.raster.item import footprint, preview, projection
from anabranch.plugins.raster.item.describe import describe as describe_raster
from anabranch.plugins.raster.models import (
    Checked,
    CogOptions,
    Compared,
    Described,
    Inspected,
    Profile,
    Validated,
    ValidateOptions,
    Written,
)
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.plugins.raster.tiles import join as whole
from anabranch.plugins.raster.tiles import scheme
from anabranch.plugins.raster.tiles import write_tile as tile
from anabranch.plugins.raster.tiles.models import Joined, TileLimits, WrittenTile
from anabranch.plugins.stac.facts import Footprint
from anabranch.sandbox.functions import sandbox_function

__all__ = [
    "check",
    "describe",
    "extract",
    "find_used",
    "inspect",
    "join",
    "list_steps",
    "look",
    "plan",
    "warm_up",
    "write",
    "write_tile",
]

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


def _explain(error: Exception, given: Mapping[str, object]) -> Permanent:
    return Permanent(
        f"GDAL can't process {_name(given.get('path') or given.get('source'))}: {gdal_message(error)}",
        code="raster.library",
        remedy="Rewrite the file with `gdal_translate -of COG` and send that; report a bug if that fails, too.",
    )


_in_sandbox = sandbox_function((RasterioError, CPLE_BaseError), _explain)


def _name(given: object) -> str:
    """The name of a file that is given as JSON: its path, or an object for one that is read by ranges."""
    return str(given["name"]) if isinstance(given, dict) else Path(str(given)).name


@_in_sandbox
def extract(
    source: Path,
    folder: Path,
    choice: Choice,
    settings: RasterSettings,
    *,
    progress: cog.Progress,
    **sidecars: Path,
) -> Extracted:
    """Make the GeoTIFF of a choice among the contents of a file."""
    beside = _by_kind(sidecars)
    return extract_raster(source, folder, choice, beside, settings, progress, confined=_is_confined())


@_in_sandbox
def find_used(source: Source, settings: RasterSettings, *, progress: cog.Progress, **sidecars: Path) -> UsedSidecars:
    """Find which sidecars add something to a raster."""
    return find_used_sidecars(source, _by_kind(sidecars), settings)


def _by_kind(sidecars: Mapping[str, Path]) -> dict[SidecarKind, Path]:
    kinds: tuple[SidecarKind, ...] = get_args(SidecarKind)
    return {kind: sidecars[kind] for kind in kinds if kind in sidecars}


@_in_sandbox
def list_steps(source: Path, params: ListParams, settings: RasterSettings, *, progress: cog.Progress) -> TimeSteps:
    """List the time steps of a variable."""
    return list_times(source, params.variable, settings, confined=_is_confined())


def _is_confined() -> bool:
    """Whether the kernel keeps files closed that were not given to this process."""
    try:
        with os.scandir("/"):
            return False
    except PermissionError:
        return True


@_in_sandbox
def look(path: Source, options: ValidateOptions, settings: RasterSettings, *, progress: cog.Progress) -> Checked:
    """Validate a raster; returns it, the number of pixels of its COG, and the profiles that its kind allows."""
    raster = validate.validate(path, options, settings)
    chosen = validate.choose(raster.kind, raster.repairs, options, settings, discrete=raster.discrete)
    target = target_view.find_target(path, chosen)
    return Checked(
        raster=raster,
        tiers=tuple(profile for profile in options.profiles if _allows(raster, profile)),
        pixels=target.width * target.height,
        target=target,
    )


@_in_sandbox
def write(source: Source, target: Path, options: CogOptions, *, progress: cog.Progress) -> Written:
    """Write a COG."""
    return cog.write_cog(source, target, options, progress)


@_in_sandbox
def check(source: Source, path: Path, options: CogOptions, *, progress: cog.Progress) -> Compared:
    """Compare a COG with its source."""
    return verify.verify(source, path, options)


@_in_sandbox
def inspect(source: Source, path: Path, options: CogOptions, thumbnail: Path, *, progress: cog.Progress) -> Inspected:
    """Compare a COG with its source, describe it, and write its thumbnail."""
    return _describe(verify.verify(source, path, options), path, options, thumbnail)


def _describe(compared: Compared, path: Path, options: CogOptions, thumbnail: Path) -> Inspected:
    found, shown = footprint.footprint(path), preview.preview(path, thumbnail, options.kind, discrete=options.discrete)
    return Inspected(
        compared=compared,
        footprint=Footprint.model_validate(found.geometry()),
        bbox=found.bbox,
        projection=projection.project(path),
        shown=tuple(shown.bands),
        stretch=tuple(shown.stretch),
        software={"gdal": rasterio.__gdal_version__, "rasterio": rasterio.__version__},
    )


@_in_sandbox
def describe(path: Source, settings: RasterSettings, *, progress: cog.Progress) -> Described:
    """Describe a raster that stays where it is."""
    return describe_raster(path, settings)


@_in_sandbox
def plan(source: Source, options: CogOptions, limits: TileLimits, *, progress: cog.Progress) -> Grid:
    """The grid of a raster that becomes tiles."""
    return scheme.plan_grid(source, options, limits)


@_in_sandbox
def write_tile(
    source: Source,
    cog: Path,
    overview: Path,
    options: CogOptions,
    thumbnail: Path | None = None,
    *,
    progress: cog.Progress,
) -> WrittenTile:
    """Write a tile, and compare it with the source; with a thumbnail, describe it as an item of its own."""
    written = tile.write_tile(source, cog, overview, options, progress)
    if thumbnail is None or written.compared is None:
        return written
    return written.model_copy(update={"inspected": _describe(written.compared, cog, options, thumbnail)})


@_in_sandbox
def join(
    folder: Path, joined: Joined, cog: Path, thumbnail: Path, options: CogOptions, *, progress: cog.Progress
) -> Inspected:
    """Write the overview and the thumbnail of joined tiles, and describe the whole."""
    return whole.join_tiles(folder, joined, cog, thumbnail, options, progress)


def _allows(raster: Validated, profile: Profile) -> bool:
    try:
        encoding_of(raster.kind, profile, raster.dtype)
    except Permanent:
        return False
    return True
