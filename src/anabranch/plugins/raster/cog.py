"""One raster becomes one Cloud-Optimized GeoTIFF, in bounded memory (R3, R6)."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict
from rasterio._err import CPLE_BaseError  # what rasterio raises bare where GDAL fails; it has no public name
from rasterio.enums import Resampling
from rasterio.errors import RasterioError
from rasterio.shutil import copy

from anabranch.errors import Permanent, Resource
from anabranch.plugins.raster.codecs import say
from anabranch.plugins.raster.models import CogOptions
from anabranch.plugins.raster.modes import write_modes
from anabranch.plugins.raster.reader import bounded, open_raster
from anabranch.plugins.raster.rewrite import rewrite
from anabranch.plugins.raster.structure import SIDE
from anabranch.plugins.raster.view import View, open_view

__all__ = ["Progress", "Written", "creation_options", "write_cog"]

MB = 1024**2
TILE_BYTES = 16 * MB
LOOK_SECONDS = 0.25
FREE_BYTES = 8 * MB
# What part of the work each step is, roughly: what comes before the driver, its overviews, its copy.
OVERVIEWS = 0.25
_PREDICTORS = {1: "NO", 2: "STANDARD", 3: "FLOATING_POINT"}

Progress = Callable[[int, int, str], None]


class Written(BaseModel):
    """A COG on disk."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    size_bytes: int
    width: int
    height: int
    compress: str
    lossy: bool
    resampled: bool
    rewritten: bool


def write_cog(source: Path, target: Path, options: CogOptions, progress: Progress | None = None) -> Written:
    """Write the COG of a raster whole or not at all; `progress` hears of hundredths, in the caller's thread."""
    told = progress or _silent
    part, work = target.with_name(f"{target.stem}.part.tif"), target.with_name(f"{target.stem}.work.tif")
    try:
        with bounded(options.memory_mb, options.threads), open_view(source, options) as view:
            direct = view.as_it_is and not _needs_modes(view)
            if not direct:
                rewrite(view, work, lambda done: told(int(40 * done), 100, "rewriting"))
            if _needs_modes(view):
                write_modes(work, _side(view))
            written = _copy(view, source if direct else work, part, told, rewritten=not direct)
        part.replace(target)
        return written
    except (RasterioError, CPLE_BaseError, OSError) as error:
        raise _failed(source, target, error) from error
    finally:
        for leftover in (*work.parent.glob(f"{work.name}*"), part, *part.parent.glob(f"{part.name}*.tmp")):
            leftover.unlink(missing_ok=True)


def creation_options(view: View) -> dict[str, str]:
    """What the COG driver is told, all of it said and nothing left to defaults that change values."""
    profile = view.profile
    bits = view.src.tags(1, ns="IMAGE_STRUCTURE").get("NBITS")
    options = {
        "COMPRESS": profile.compress,
        "PREDICTOR": _PREDICTORS[1 if bits else profile.predictor],
        "BLOCKSIZE": str(_side(view)),
        "OVERVIEWS": _overviews(view),
        "OVERVIEW_RESAMPLING": profile.overviews.name,
        "BIGTIFF": "IF_SAFER",
        "NUM_THREADS": str(view.options.threads or "ALL_CPUS"),
    }
    if profile.level is not None:
        options["LEVEL"] = str(profile.level)
    if profile.quality is not None:
        options["QUALITY"] = str(profile.quality)
    return options


def _overviews(view: View) -> str:
    if max(view.width, view.height) <= _side(view):
        return "NONE"  # the driver copies the source's own where it needs to make none, in spite of IGNORE_EXISTING
    return "FORCE_USE_EXISTING" if _needs_modes(view) else "IGNORE_EXISTING"


def _needs_modes(view: View) -> bool:
    """Whether overviews are made here: of classes, where there are any."""
    return view.profile.overviews is Resampling.mode and max(view.width, view.height) > _side(view)


def _side(view: View) -> int:
    """512, or less where so many bands lie in one tile that it would take much memory."""
    pixel = view.count * np.dtype(view.src.dtypes[0]).itemsize
    return next((side for side in (SIDE, SIDE // 2) if side * side * pixel <= TILE_BYTES), SIDE // 4)


def _copy(view: View, source: Path, part: Path, told: Progress, *, rewritten: bool) -> Written:
    begun = 0.4 if rewritten else 0.0
    raw = view.width * view.height * view.count * np.dtype(view.src.dtypes[0]).itemsize
    with ThreadPoolExecutor(1) as pool:
        copying = pool.submit(_run, source, part, creation_options(view), view.options)
        for done in _watch(copying, part, raw, source.stat().st_size):
            told(int(100 * (begun + (1 - begun) * done)), 100, "writing the COG")
        copying.result()
    return Written(
        size_bytes=part.stat().st_size,
        width=view.width,
        height=view.height,
        compress=view.profile.compress,
        lossy=view.profile.lossy,
        resampled=view.warped,
        rewritten=rewritten,
    )


def _run(source: Path, part: Path, creation: dict[str, str], options: CogOptions) -> None:
    # Plain overviews on disk for a moment cost less than to compress them twice.
    # Beside a file of ours lie its overviews; beside a source, nothing is looked for.
    beside = {"GDAL_DISABLE_READDIR_ON_OPEN": "TRUE"} if creation["OVERVIEWS"] == "FORCE_USE_EXISTING" else {}
    with bounded(options.memory_mb, options.threads, COG_TMP_COMPRESSION="NONE", **beside), open_raster(source) as src:
        copy(src, part, driver="COG", **creation)


def _watch(copying: Future[None], part: Path, raw: int, size: int) -> Iterator[float]:
    """How far the driver is, by the files that grow: it calls nobody back."""
    best = 0.0
    while not copying.done():
        wait([copying], timeout=LOOK_SECONDS)
        overviews = _size(part.with_name(f"{part.name}.ovr.tmp")) / max(1, raw / 3)
        copied = _size(part) / max(1, min(size, raw))
        best = max(best, min(0.99, OVERVIEWS * min(1.0, overviews) + (1 - OVERVIEWS) * min(1.0, copied)))
        yield best
    yield 1.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _failed(source: Path, target: Path, error: Exception) -> Permanent | Resource:
    if shutil.disk_usage(target.parent).free < FREE_BYTES:
        return Resource(
            f"the disk is full where the COG of {source.name} is written",
            code="raster.disk",
            remedy="Make room where workers keep their scratch, then run the job again.",
        )
    return Permanent(
        f"the COG of {source.name} can't be written: {say(error)}",
        code="raster.not_written",
        remedy="Open the file elsewhere to see that it is whole; upload it again.",
    )


def _silent(done: int, total: int, message: str) -> None:
    pass
