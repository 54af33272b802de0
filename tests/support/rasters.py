"""Small rasters, made by code: good ones, and each kind of bad one that has happened."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from numpy.typing import NDArray
from rasterio.transform import from_origin

from anabranch.plugins.raster.files.reader import quiet

__all__ = ["GRID", "PLACED", "band_masked_tiff", "classes", "foreign_tiff", "hills", "make_raster", "picture"]

GRID = from_origin(500_000, 5_000_000, 10, 10)
_KEYS = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633)
# The grid above in EPSG:32633, as the tags of a GeoTIFF say it to a library that knows no places.
PLACED = (
    (33550, "d", 3, (10.0, 10.0, 0.0), True),
    (33922, "d", 6, (0.0, 0.0, 0.0, 500_000.0, 5_000_000.0, 0.0), True),
    (34735, "H", len(_KEYS), _KEYS, True),
)
Pixels = NDArray[Any]  # of whatever type the raster has


def hills(width: int = 700, height: int = 600, dtype: str = "float32") -> Pixels:
    """One smooth band, from about 200 to 800."""
    x, y = np.arange(width), np.arange(height)[:, None]
    return (500 + 300 * np.sin(x / 90) * np.cos(y / 70))[None].astype(dtype)


def picture(width: int = 700, height: int = 600, bands: int = 3, dtype: str = "uint8") -> Pixels:
    """Bands of slow waves with a little noise, as photographs have."""
    return _wave(width, height, bands).astype(dtype)


@cache
def _wave(width: int, height: int, bands: int) -> Pixels:
    noise = np.random.default_rng(7).normal(0, 2, (bands, height, width))
    x, y = np.arange(width), np.arange(height)[:, None]
    waves = np.stack([128 + 90 * np.sin(x / (60 + 9 * band)) * np.cos(y / 80) for band in range(bands)])
    return np.clip(waves + noise, 1, 255)


def classes(width: int = 700, height: int = 600, values: tuple[int, ...] = (1, 7, 40)) -> Pixels:
    """Patches of a few classes, ragged enough that means of neighbours would make new values."""
    chosen = np.random.default_rng(3).integers(0, len(values), (height // 5 + 1, width // 5 + 1))
    patches = np.kron(chosen, np.ones((5, 5), int))[:height, :width]
    found: Pixels = np.asarray(values, "uint8")[patches][None]
    return found


def foreign_tiff(path: Path, pixels: Pixels, nodata: str) -> Path:
    """A GeoTIFF of one band that GDAL would not write: by another library, with any text as its nodata value."""
    import tifffile

    tags = [*PLACED, (42113, "s", 0, nodata, True)]
    tifffile.imwrite(path, pixels[0], extratags=tags, metadata=None, tile=(256, 256))
    return path


def band_masked_tiff(path: Path, pixels: Pixels, masks: Pixels) -> Path:
    """A GeoTIFF of which every band has a mask of its own, as GDAL reads but does not write it."""
    import tifffile

    with tifffile.TiffWriter(path) as file:
        file.write(pixels, photometric="rgb", planarconfig="separate", extratags=PLACED, metadata=None)
        file.write(masks, photometric="rgb", planarconfig="separate", subfiletype=2, metadata=None)
    with tifffile.TiffFile(path, mode="r+") as file:
        tags = file.pages[1].aspage().tags
        for name in ("NewSubfileType", "PhotometricInterpretation"):
            tags[name].overwrite(4)
    return path


def make_raster(
    path: Path,
    pixels: Pixels,
    *,
    crs: Any = "EPSG:32633",  # whatever rasterio takes
    transform: Affine | None = GRID,
    tags: dict[str, str] | None = None,
    bands: dict[str, Any] | None = None,  # attributes of the dataset, like descriptions
    palette: dict[int, tuple[int, int, int, int]] | None = None,
    mask: Pixels | None = None,
    **creation: Any,  # options of the driver
) -> Path:
    """Write a GeoTIFF, with all that one may carry."""
    count, height, width = pixels.shape
    options = {"driver": "GTiff", "width": width, "height": height, "count": count, "dtype": pixels.dtype.name}
    placed = {"crs": crs, "transform": transform} if transform else {"crs": crs}
    settled = rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True)
    with settled, quiet(), rasterio.open(path, "w", **(options | placed | creation)) as out:
        if palette:
            out.write_colormap(1, palette)
        for name, value in (bands or {}).items():
            setattr(out, name, value)
        out.update_tags(**(tags or {}))
        out.write(pixels)
        if mask is not None:
            out.write_mask(mask)
    return path
