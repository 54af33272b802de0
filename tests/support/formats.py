"""Small files in formats other than GeoTIFF, made by code."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import rasterio
from rasterio.shutil import copy
from rasterio.transform import from_origin

from anabranch.plugins.raster.files.reader import quiet
from tests.support.rasters import Pixels, make_raster

__all__ = [
    "SHAPE",
    "WGS84_WKT",
    "Dimensions",
    "Kind",
    "Variables",
    "climate",
    "convert",
    "make_grib",
    "make_netcdf",
    "make_zip",
    "world_file",
]

SHAPE = (40, 60)
WGS84_WKT = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]]'
)
# Attributes are of whatever types netCDF has.
Variables = Mapping[str, tuple[Sequence[str], Pixels, Mapping[str, Any]]]
Dimensions = Mapping[str, tuple[Sequence[float], Mapping[str, Any]]]
Kind = Literal["NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"]


def climate(steps: int = 4, dtype: str = "int16") -> Pixels:
    """Steps of a field that moves, all with different values."""
    rows, columns = SHAPE
    x, y = np.meshgrid(np.arange(columns), np.arange(rows))
    field = np.stack([1000 + 10 * step + 5 * y + 3 * x for step in range(steps)])
    return field.astype(dtype)


def make_netcdf(
    path: Path,
    variables: Variables,
    *,
    dimensions: Dimensions | None = None,
    kind: Kind = "NETCDF4",
    attributes: Mapping[str, Any] | None = None,
) -> Path:
    """A netCDF file on a grid of degrees from 40 to 50 north and 10 to 20 east, with these variables and dimensions."""
    import netCDF4

    degrees: Dimensions = {
        "lat": (list(np.linspace(40, 50, SHAPE[0])), {"units": "degrees_north", "standard_name": "latitude"}),
        "lon": (list(np.linspace(10, 20, SHAPE[1])), {"units": "degrees_east", "standard_name": "longitude"}),
    }
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.setncatts(dict(attributes or {}))
        for name, (values, said) in {**degrees, **(dimensions or {})}.items():
            file.createDimension(name, len(values))
            axis = file.createVariable(name, "f8", (name,))
            axis.setncatts(dict(said))
            axis[:] = values
        for name, (axes, pixels, said) in variables.items():
            fill = said.get("_FillValue")
            made = file.createVariable(name, pixels.dtype, tuple(axes), fill_value=fill, zlib=kind == "NETCDF4")
            made.setncatts({key: value for key, value in said.items() if key != "_FillValue"})
            made.set_auto_maskandscale(False)
            made[:] = pixels
    return path


def make_grib(path: Path, messages: Sequence[tuple[int, int, int, Pixels]]) -> Path:
    """A GRIB 2 file: of each message the number of its element, the forecast hour, the height in metres, the field."""
    rows, columns = SHAPE
    plain = path.with_suffix(".plain.tif")
    shape = {"width": columns, "height": rows, "count": len(messages), "dtype": "float32"}
    grid = from_origin(10, 50, 0.25, 0.25)
    ids = "CENTER=7 SUBCENTER=0 MASTER_TABLE=2 SIGNF_REF_TIME=1 REF_TIME=2020-01-15T00:00:00Z PROD_STATUS=0 TYPE=1"
    with rasterio.open(plain, "w", driver="GTiff", **shape, crs="EPSG:4326", transform=grid) as out:
        for band, (element, hour, height, field) in enumerate(messages, 1):
            numbers = f"0 {element} 2 0 96 0 0 0 1 0 0 0 {hour} 103 0 0 0 0 {height} 255 255 255 255 255 255"
            said = {"GRIB_DISCIPLINE": "0", "GRIB_PDS_PDTN": "0", "GRIB_PDS_TEMPLATE_NUMBERS": numbers}
            out.write(field.astype("float32"), band)
            out.update_tags(band, GRIB_IDS=ids, **said)
    copy(plain, path, driver="GRIB", DATA_ENCODING="IEEE_FLOATING_POINT")
    plain.unlink()
    return path


def convert(path: Path, driver: str, pixels: Pixels, *, placed: bool = True, **creation: Any) -> Path:
    """A raster in another format, written by GDAL from a GeoTIFF."""
    plain = make_raster(path.with_suffix(".plain.tif"), pixels, **({} if placed else {"crs": None, "transform": None}))
    with quiet(), rasterio.Env(GDAL_PAM_ENABLED=False):
        copy(plain, path, driver=driver, **creation)
    plain.unlink()
    return path


def world_file(path: Path, side: float = 10, left: float = 500_000, top: float = 5_000_000) -> Path:
    """A world file of a grid with its first corner there."""
    path.write_text(f"{side}\n0\n0\n{-side}\n{left + side / 2}\n{top - side / 2}\n")
    return path


def make_zip(path: Path, files: Mapping[str, bytes | Path]) -> Path:
    """A ZIP archive of files by their names in it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content if isinstance(content, bytes) else content.read_bytes())
    return path
