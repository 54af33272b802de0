"""Opens untrusted rasters; no other module does."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rasterio
from rasterio.errors import NodataShadowWarning, NotGeoreferencedWarning, RasterioIOError
from rasterio.io import DatasetReader

from anabranch.errors import Permanent
from anabranch.plugins.raster.files.codecs import gdal_message, missing_codec
from anabranch.plugins.raster.files.drivers import ALLOWED, CACHE_DIVISOR
from anabranch.plugins.raster.files.magic_bytes import identify_format
from anabranch.plugins.raster.files.one_file import OneFile
from anabranch.plugins.raster.files.source import Source

__all__ = ["bounded", "check_drivers", "open_raster", "quiet"]


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


@contextmanager
def bounded(memory_mb: int, threads: int = 0, **more: str) -> Iterator[None]:
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
    """Open a file with the driver of its format, and with no other."""
    file = _require_local(source) if isinstance(source, Path) else source
    if file.stat().st_size == 0:
        raise Permanent(f"{file.name} has zero bytes", code="raster.empty", remedy="Upload the file again.")
    found = identify_format(file)
    if not found.driver:
        raise Permanent(
            f"{file.name} is {found.title}, which is not a supported raster format",
            code="raster.format",
            remedy=found.remedy.format(name=file.name),
        )
    try:
        with quiet():  # one driver: GDAL tries no other
            if isinstance(file, Path):
                return rasterio.open(file, driver=found.driver)
            return rasterio.open(file.name, driver=found.driver, opener=OneFile(file))
    except RasterioIOError as error:
        raise missing_codec(file, file.name) or Permanent(
            f"{file.name} starts like {found.title}, but can't be opened, so it is damaged: {gdal_message(error)}",
            code="raster.damaged",
            remedy="Upload the file again; open it in another program to check that it is complete.",
        ) from error


def _require_local(path: Path) -> Path:
    local = path.resolve()
    if not local.is_file() or str(local).startswith("/vsi"):
        raise Permanent(
            f"{path.name} is not a file on this machine", code="raster.missing", remedy="Stage it again, then retry."
        )
    return local
