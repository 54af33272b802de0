"""One raster becomes one Cloud-Optimized GeoTIFF, in bounded memory (R3, R6)."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.enums import Resampling
from rasterio.errors import RasterioError
from rasterio.shutil import copy

from anabranch.errors import Permanent, Resource
from anabranch.plugins.raster.cog.class_overviews import write_class_overviews
from anabranch.plugins.raster.cog.cog_structure import TILE_PIXELS
from anabranch.plugins.raster.cog.retile import retile
from anabranch.plugins.raster.cog.target_view import View, open_view
from anabranch.plugins.raster.files.codecs import gdal_message
from anabranch.plugins.raster.files.reader import bounded, choose_threads, open_raster
from anabranch.plugins.raster.files.source import Source
from anabranch.plugins.raster.models import CogOptions, Written

__all__ = ["Progress", "creation_options", "write_cog"]

MB = 1024**2
MAX_TILE_BYTES = 16 * MB
POLL_SECONDS = 0.25
MIN_FREE_BYTES = 8 * MB
# Roughly what share of the driver's work the overviews are; the rest is the copy.
OVERVIEWS_SHARE = 0.25
_PREDICTORS = {1: "NO", 2: "STANDARD", 3: "FLOATING_POINT"}

Progress = Callable[[int, int, str], None]


def write_cog(source: Source, target: Path, options: CogOptions, progress: Progress | None = None) -> Written:
    """Write the COG of a raster, complete or not at all; one thread at a time calls `progress`, with percents."""
    report = progress or _silent
    options = options.model_copy(update={"threads": options.threads or choose_threads(source)})
    part, work = target.with_name(f"{target.stem}.part.tif"), target.with_name(f"{target.stem}.work.tif")
    try:
        with bounded(options.memory_mb, options.threads), open_view(source, options) as view:
            direct = view.as_it_is and not _needs_class_overviews(view)
            if not direct:
                retile(view, work, lambda done: report(int(40 * done), 100, "rewriting"))
            if _needs_class_overviews(view):
                write_class_overviews(work, _tile_pixels(view))
            written = _copy(view, source if direct else work, part, report, rewritten=not direct)
        part.replace(target)
        return written
    except (RasterioError, CPLE_BaseError, OSError) as error:
        raise _failed(source, target, error) from error
    finally:
        for leftover in (*work.parent.glob(f"{work.name}*"), part, *part.parent.glob(f"{part.name}*.tmp")):
            leftover.unlink(missing_ok=True)


def creation_options(view: View) -> dict[str, str]:
    """The creation options of the COG driver; all are set, since some defaults change values."""
    encoding = view.encoding
    bits = view.src.tags(1, ns="IMAGE_STRUCTURE").get("NBITS")
    options = {
        "COMPRESS": encoding.compress,
        "PREDICTOR": _PREDICTORS[1 if bits else encoding.predictor],
        "BLOCKSIZE": str(_tile_pixels(view)),
        "OVERVIEWS": _overviews(view),
        "OVERVIEW_RESAMPLING": encoding.overviews.name,
        "BIGTIFF": "IF_SAFER",
        "NUM_THREADS": str(view.options.threads or "ALL_CPUS"),
    }
    if encoding.level is not None:
        options["LEVEL"] = str(encoding.level)
    if encoding.quality is not None:
        options["QUALITY"] = str(encoding.quality)
    return options


def _overviews(view: View) -> str:
    if max(view.width, view.height) <= _tile_pixels(view):
        return "NONE"  # without it the driver copies the source's overviews, in spite of IGNORE_EXISTING
    return "FORCE_USE_EXISTING" if _needs_class_overviews(view) else "IGNORE_EXISTING"


def _needs_class_overviews(view: View) -> bool:
    """Whether overviews are made here and not by the driver: those of classes, where the COG has overviews."""
    return view.encoding.overviews is Resampling.mode and max(view.width, view.height) > _tile_pixels(view)


def _tile_pixels(view: View) -> int:
    """The tile size: 512, or less where many bands would make a tile too large."""
    pixel = view.count * np.dtype(view.src.dtypes[0]).itemsize
    return next(
        (side for side in (TILE_PIXELS, TILE_PIXELS // 2) if side * side * pixel <= MAX_TILE_BYTES), TILE_PIXELS // 4
    )


def _copy(view: View, source: Source, part: Path, report: Progress, *, rewritten: bool) -> Written:
    begun = 0.4 if rewritten else 0.0
    raw = view.width * view.height * view.count * np.dtype(view.src.dtypes[0]).itemsize

    def show(done: float) -> None:
        report(int(100 * (begun + (1 - begun) * done)), 100, "writing the COG")

    with _watched(part, raw, source.stat().st_size, show):
        _run(source, part, creation_options(view), view.options)
    return Written(
        size_bytes=part.stat().st_size,
        width=view.width,
        height=view.height,
        compress=view.encoding.compress,
        lossy=view.encoding.lossy,
        resampled=view.warped,
        rewritten=rewritten,
    )


def _run(source: Source, part: Path, creation: dict[str, str], options: CogOptions) -> None:
    # Temporary overviews are not compressed: to compress them twice costs more than the disk space.
    # Overviews that we made lie beside our own file; beside a source, GDAL looks for no files.
    beside = {"GDAL_DISABLE_READDIR_ON_OPEN": "TRUE"} if creation["OVERVIEWS"] == "FORCE_USE_EXISTING" else {}
    with bounded(options.memory_mb, options.threads, COG_TMP_COMPRESSION="NONE", **beside), open_raster(source) as src:
        copy(src, part, driver="COG", **creation)


@contextmanager
def _watched(part: Path, raw: int, size: int, report: Callable[[float], None]) -> Iterator[None]:
    """Report the driver's progress by the size of its files: it has no callback.

    The copy stays in the thread that has opened the source: PROJ would read its database again in another.
    """
    copied = threading.Event()
    watcher = threading.Thread(target=_watch, args=(copied, part, raw, size, report))
    watcher.start()
    try:
        yield
    finally:
        copied.set()
        watcher.join()
    report(1.0)


def _watch(copied: threading.Event, part: Path, raw: int, size: int, report: Callable[[float], None]) -> None:
    best = 0.0
    while not copied.wait(POLL_SECONDS):
        overviews = _size(part.with_name(f"{part.name}.ovr.tmp")) / max(1, raw / 3)
        written = _size(part) / max(1, min(size, raw))
        best = max(best, min(0.99, OVERVIEWS_SHARE * min(1.0, overviews) + (1 - OVERVIEWS_SHARE) * min(1.0, written)))
        report(best)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _failed(source: Source, target: Path, error: Exception) -> Permanent | Resource:
    if shutil.disk_usage(target.parent).free < MIN_FREE_BYTES:
        return Resource(
            f"the disk is full; the COG of {source.name} can't be written",
            code="raster.disk",
            remedy="Free disk space in the workers' scratch folder, then run the job again.",
        )
    return Permanent(
        f"the COG of {source.name} can't be written: {gdal_message(error)}",
        code="raster.not_written",
        remedy="Open the file in another program to check that it is complete; upload it again.",
    )


def _silent(done: int, total: int, message: str) -> None:
    pass
