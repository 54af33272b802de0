"""Rasters of strangers are opened here, and nowhere else."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rasterio
from rasterio.errors import NotGeoreferencedWarning, RasterioIOError
from rasterio.io import DatasetReader

from anabranch.errors import Permanent
from anabranch.plugins.raster.codecs import missing_codec, say
from anabranch.plugins.raster.drivers import ALLOWED, CACHE_SHARE
from anabranch.plugins.raster.signs import name_content

__all__ = ["bounded", "check_drivers", "open_raster", "quiet"]


def check_drivers() -> None:
    """Refuse to work where GDAL has loaded a driver that is not allowed: new, or loaded too early."""
    with rasterio.Env() as env:
        loaded = sorted(set(env.drivers()) - ALLOWED)
    if loaded:
        raise Permanent(
            f"GDAL {rasterio.__gdal_version__} has loaded drivers that are not allowed: {', '.join(loaded[:8])}",
            code="raster.drivers",
            remedy="It is a mistake of ours: report it, with the version of GDAL.",
        )


@contextmanager
def bounded(memory_mb: int, threads: int = 0, **more: str) -> Iterator[None]:
    """Hold GDAL to a part of the memory that a task may use, and to what the file itself says (R6)."""
    settled = {
        "GDAL_CACHEMAX": memory_mb // CACHE_SHARE * 1024**2,  # in bytes, here
        "GDAL_NUM_THREADS": threads or "ALL_CPUS",
        "GDAL_TIFF_INTERNAL_MASK": True,
        "GDAL_PAM_ENABLED": False,
        "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
        "GDAL_GEOREF_SOURCES": "INTERNAL",
    }
    with rasterio.Env(**(settled | more)):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Keep rasterio from warning of a missing place on Earth: we say that ourselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


def open_raster(path: Path) -> DatasetReader:
    """Open a local file as one of the formats that may be read, and as nothing else."""
    local = path.resolve()
    if not local.is_file() or str(local).startswith("/vsi"):
        raise Permanent(
            f"{path.name} is not a file on this machine", code="raster.missing", remedy="Stage it again, then retry."
        )
    if local.stat().st_size == 0:
        raise Permanent(f"{path.name} has zero bytes", code="raster.empty", remedy="Upload the file again.")
    found = name_content(local)
    if not found.driver:
        raise Permanent(
            f"{path.name} is {found.title}, which is not read as a raster",
            code="raster.format",
            remedy=found.remedy.format(name=path.name),
        )
    try:
        with quiet():
            return rasterio.open(local, driver=found.driver)  # by one driver: no other is even asked
    except RasterioIOError as error:
        raise missing_codec(local, path.name) or Permanent(
            f"{path.name} begins as {found.title}, but can't be opened, so it is damaged or cut off: {say(error)}",
            code="raster.damaged",
            remedy="Upload the file again; open it elsewhere to see that it is whole.",
        ) from error
