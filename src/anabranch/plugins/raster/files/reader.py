"""Opens untrusted rasters; no other module does."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rasterio
from rasterio.errors import NodataShadowWarning, NotGeoreferencedWarning, RasterioIOError
from rasterio.io import DatasetReader

from anabranch.errors import Permanent
from anabranch.geo.gdal_environment import CACHE_DIVISOR
from anabranch.plugins.raster.files.codecs import gdal_message, missing_codec
from anabranch.plugins.raster.files.drivers import ALLOWED
from anabranch.plugins.raster.files.magic_bytes import FileFormat, identify_format
from anabranch.plugins.raster.files.one_file import OneFile
from anabranch.plugins.raster.files.source import Source
from anabranch.plugins.raster.files.tiff import read_images
from anabranch.sandbox.ranged import RangedFile

__all__ = ["bounded", "check_drivers", "choose_threads", "identify_file", "open_as", "open_raster", "quiet"]

ALL_THREADS = 0
# To start threads and to pass blocks to them takes longer than to decode or compress a few.
SINGLE_THREAD_PIXELS, SINGLE_THREAD_BYTES = 1024**2, 16 * 1024**2


def check_drivers() -> None:
    """Raise where GDAL has loaded a driver that is not allowed: a new one, or one loaded too early."""
    with rasterio.Env() as env:
        loaded = sorted(set(env.drivers()) - ALLOWED)
    if loaded:
        raise Permanent(
            f"GDAL {rasterio.__gdal_version__} has loaded drivers that are not allowed: {', '.join(loaded[:8])}",
            code="raster.drivers",
            remedy="This is a bug in Anabranch: report it with the version of GDAL.",
        )


def choose_threads(source: Source) -> int:
    """How many threads GDAL is to use for a raster: one for a small TIFF, and all processors for all others."""
    images = read_images(source)
    small = bool(images) and images[0].width * images[0].height <= SINGLE_THREAD_PIXELS
    return 1 if small and source.stat().st_size <= SINGLE_THREAD_BYTES else ALL_THREADS


@contextmanager
def bounded(memory_mb: int, threads: int = ALL_THREADS, **more: str) -> Iterator[None]:
    """Limit GDAL to a share of the task's memory, and to the file itself without sidecars (R6)."""
    options = {
        "GDAL_CACHEMAX": memory_mb // CACHE_DIVISOR * 1024**2,  # in bytes, here
        "GDAL_NUM_THREADS": threads or "ALL_CPUS",
        "GDAL_TIFF_INTERNAL_MASK": True,
        "GDAL_PAM_ENABLED": False,
        "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
        "GDAL_GEOREF_SOURCES": "INTERNAL",
    }
    with rasterio.Env(**(options | more)):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Silence rasterio's warnings of what we handle: no georeference, and alpha beside a nodata value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        warnings.simplefilter("ignore", NodataShadowWarning)
        yield


def open_raster(source: Source) -> DatasetReader:
    """Open a GeoTIFF or JPEG 2000 file with the driver of its format, and with no other."""
    file, found = identify_file(source)
    if not found.readable:
        raise Permanent(
            f"{file.name} is {found.title}, which is not a supported raster format",
            code="raster.format",
            remedy=(found.remedy or "Convert it: `gdal_translate -of COG {name} out.tif`.").format(name=file.name),
        )
    return open_as(file, found, found.drivers[0], file)


def identify_file(source: Source) -> tuple[Source, FileFormat]:
    """A file, resolved if it is local, and its format; refuses one that is missing or empty."""
    file = _require_local(source) if isinstance(source, Path) else source
    if file.stat().st_size == 0:
        raise Permanent(f"{file.name} has zero bytes", code="raster.empty", remedy="Upload the file again.")
    return file, identify_format(file)


def open_as(file: Source, found: FileFormat, driver: str, dataset: Source | str) -> DatasetReader:
    """Open a dataset of a file with one driver: GDAL tries no other.

    The dataset is the file itself, or a name that GDAL reported for this very file.
    """
    try:
        with quiet():
            if isinstance(dataset, RangedFile):
                return rasterio.open(dataset.name, driver=driver, opener=OneFile(dataset))
            return rasterio.open(dataset, driver=driver)
    except RasterioIOError as error:
        raise (
            _missing_driver(file, found, driver)
            or missing_codec(file, file.name)
            or Permanent(
                f"{file.name} starts like {found.title}, but can't be opened, so it is damaged: {gdal_message(error)}",
                code="raster.damaged",
                remedy="Upload the file again; open it in another program to check that it is complete.",
            )
        ) from error


def _missing_driver(file: Source, found: FileFormat, driver: str) -> Permanent | None:
    with rasterio.Env() as env:
        if driver in env.drivers():
            return None
    return Permanent(
        f"{file.name} is {found.title}, and this build of GDAL ({rasterio.__gdal_version__}) has no driver {driver}",
        code="raster.driver_missing",
        remedy=f"Convert it on a machine that has the driver: `gdal_translate -of COG {file.name} out.tif`.",
    )


def _require_local(path: Path) -> Path:
    local = path.resolve()
    if not local.is_file() or str(local).startswith("/vsi"):
        raise Permanent(
            f"{path.name} is not a file on this machine", code="raster.missing", remedy="Stage it again, then retry."
        )
    return local
