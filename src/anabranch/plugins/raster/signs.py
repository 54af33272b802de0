"""What a file is by its first bytes, whatever it is called."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["SUFFIXES", "Content", "how_to_convert", "name_content"]

_LOOK = 1024


@dataclass(frozen=True)
class Content:
    """What a file seems to be: a title for people, fitting suffixes, the driver that reads it, or what to do."""

    title: str
    suffixes: frozenset[str] = frozenset()
    driver: str = ""
    remedy: str = ""


_TIFF = frozenset({".tif", ".tiff", ".gtiff", ".gtif", ".cog", ".btf", ".tf8"})
_JP2 = frozenset({".jp2", ".j2k", ".jpf", ".jpx"})
SUFFIXES = _TIFF | _JP2
_CONVERT = "Convert it: `gdal_translate -of COG {name} out.tif`."
_PLACELESS = (
    "A picture does not say where on Earth it is. Convert it with its world file beside it: "
    "`gdal_translate -of COG -a_srs EPSG:32633 {name} out.tif`, with the code of its own coordinate system."
)
_UNPACK = "Unpack it, and send the raster itself."
_VARIABLES = (
    "It may hold many rasters: `gdalinfo {name}` names them; convert one: `gdal_translate -of COG SUBDATASET out.tif`."
)
_NAMES_OTHERS = "Send the raster that it names, or write it out: `gdal_translate -of COG {name} out.tif`."
_BY_SUFFIX = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp"), _PLACELESS),
    **dict.fromkeys((".zip", ".gz", ".tgz", ".tar", ".7z", ".rar"), _UNPACK),
    **dict.fromkeys(
        (".nc", ".nc4", ".cdf", ".h5", ".hdf", ".hdf5", ".he5", ".grib", ".grb", ".grib2", ".grb2"), _VARIABLES
    ),
    **dict.fromkeys((".gpkg", ".mbtiles"), _VARIABLES),
    **dict.fromkeys((".vrt", ".xml", ".json"), _NAMES_OTHERS),
    **dict.fromkeys(
        (".shp", ".geojson", ".kml", ".csv", ".fgb", ".parquet"), "It is no raster but a layer of features."
    ),
    **dict.fromkeys((".ecw", ".sid"), f"{_CONVERT} It needs a GDAL that has this format."),
}


def how_to_convert(suffix: str, name: str) -> str:
    """What to do with a file that is not read, by how its name ends."""
    return _BY_SUFFIX.get(suffix, _CONVERT).format(name=name)


_BY_SIGN: tuple[tuple[bytes, Content], ...] = (
    (b"II*\x00", Content("a TIFF", _TIFF, "GTiff")),
    (b"MM\x00*", Content("a TIFF", _TIFF, "GTiff")),
    (b"II+\x00", Content("a BigTIFF", _TIFF, "GTiff")),
    (b"MM\x00+", Content("a BigTIFF", _TIFF, "GTiff")),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", Content("a JPEG 2000 file", _JP2, "JP2OpenJPEG")),
    (b"\xff\x4f\xff\x51", Content("a JPEG 2000 codestream", _JP2, "JP2OpenJPEG")),
    (b"\x89PNG", Content("a PNG picture", remedy=_PLACELESS)),
    (b"\xff\xd8\xff", Content("a JPEG picture", remedy=_PLACELESS)),
    (b"GIF8", Content("a GIF picture", remedy=_PLACELESS)),
    (b"BM", Content("a BMP picture", remedy=_PLACELESS)),
    (b"PK\x03\x04", Content("a ZIP archive", remedy=_UNPACK)),
    (b"\x1f\x8b", Content("a gzip archive", remedy=_UNPACK)),
    (b"7z\xbc\xaf", Content("a 7z archive", remedy=_UNPACK)),
    (b"\x89HDF", Content("an HDF5 or netCDF 4 file", remedy=_VARIABLES)),
    (b"CDF\x01", Content("a netCDF file", remedy=_VARIABLES)),
    (b"CDF\x02", Content("a netCDF file", remedy=_VARIABLES)),
    (b"\x0e\x03\x13\x01", Content("an HDF4 file", remedy=_VARIABLES)),
    (b"GRIB", Content("a GRIB file", remedy=_VARIABLES)),
    (b"EHFA_HEADER_TAG", Content("an Erdas Imagine file", remedy=_CONVERT)),
    (b"SQLite format 3", Content("a SQLite database, like a GeoPackage", remedy=_VARIABLES)),
    (b"%PDF", Content("a PDF", remedy=_CONVERT)),
    (b"NITF", Content("a NITF file", remedy=_CONVERT)),
)


def name_content(path: Path) -> Content:
    """What the file is by its first bytes."""
    with path.open("rb") as file:
        head = file.read(_LOOK)
    for sign, content in _BY_SIGN:
        if head.startswith(sign):
            return content
    return _name_text(head)


def _name_text(head: bytes) -> Content:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"<VRTDataset"):
        return Content("a VRT, which only names other files", remedy=_NAMES_OTHERS)
    if text[:1] in (b"<", b"{", b"["):
        return Content("a text of XML or JSON", remedy=_NAMES_OTHERS)
    return Content("of no raster format that is known here", remedy=_CONVERT)
