"""The format of a file by its first bytes, regardless of its name."""

from dataclasses import dataclass

from anabranch.plugins.raster.files.drivers import READABLE
from anabranch.plugins.raster.files.source import Openable

__all__ = [
    "CONTAINER_SUFFIXES",
    "HEAD_BYTES",
    "SUFFIXES",
    "FileFormat",
    "how_to_convert",
    "identify_bytes",
    "identify_format",
]

HEAD_BYTES = 1024


@dataclass(frozen=True)
class FileFormat:
    """A file format: a title for messages, its extensions, and the drivers that read it, or a remedy."""

    title: str
    suffixes: frozenset[str] = frozenset()
    drivers: tuple[str, ...] = ()  # the first that can read the file
    remedy: str = ""
    archive: bool = False

    @property
    def readable(self) -> bool:
        """Whether every step reads it as it is; other formats are first converted to a GeoTIFF."""
        return bool(self.drivers) and self.drivers[0] in READABLE


_TIFF = frozenset({".tif", ".tiff", ".gtiff", ".gtif", ".cog", ".btf", ".tf8"})
_JP2 = frozenset({".jp2", ".j2k", ".jpf", ".jpx"})
_NETCDF = frozenset({".nc", ".nc4", ".cdf"})
_HDF5 = frozenset({".h5", ".hdf", ".hdf5", ".he5"})
_GRIB = frozenset({".grib", ".grb", ".grib2", ".grb2"})
_PNG, _JPEG = frozenset({".png"}), frozenset({".jpg", ".jpeg"})
_HFA, _ASCII, _DTED = frozenset({".img"}), frozenset({".asc"}), frozenset({".dt0", ".dt1", ".dt2"})
_ZIP = frozenset({".zip"})
# Files that may hold several rasters, of which one is chosen: their size says nothing of it.
CONTAINER_SUFFIXES = _NETCDF | _HDF5 | _GRIB | _ZIP
SUFFIXES = _TIFF | _JP2 | _PNG | _JPEG | _HFA | _ASCII | _DTED | CONTAINER_SUFFIXES
_CONVERT = "Convert it: `gdal_translate -of COG {name} out.tif`."
_NO_GEOREFERENCE = (
    "A picture has no georeference. Convert it with its world file beside it: "
    "`gdal_translate -of COG -a_srs EPSG:32633 {name} out.tif`, with the code of its own CRS."
)
_UNPACK = "Unpack it, and send the raster, or a ZIP archive of it and its sidecars."
_VARIABLES = (
    "It may contain several rasters: list them with `gdalinfo {name}`, and convert one: "
    "`gdal_translate -of COG SUBDATASET out.tif`."
)
_NEWER_NETCDF = "Convert it: `nccopy -k nc4 {name} out.nc`."
_NAMES_OTHERS = "Send the raster that it refers to, or convert it: `gdal_translate -of COG {name} out.tif`."
_BY_SUFFIX = {
    **dict.fromkeys((".gif", ".bmp", ".webp"), _NO_GEOREFERENCE),
    **dict.fromkeys((".gz", ".tgz", ".tar", ".7z", ".rar"), _UNPACK),
    **dict.fromkeys((".gpkg", ".mbtiles", ".hdf4"), _VARIABLES),
    **dict.fromkeys((".vrt", ".xml", ".json"), _NAMES_OTHERS),
    **dict.fromkeys((".shp", ".geojson", ".kml", ".csv", ".fgb", ".parquet"), "It is a vector layer, not a raster."),
    **dict.fromkeys((".ecw", ".sid"), f"{_CONVERT} This needs a GDAL build with this format."),
}


def how_to_convert(suffix: str, name: str) -> str:
    """How to convert a file in an unsupported format, by its extension."""
    return _BY_SUFFIX.get(suffix, _CONVERT).format(name=name)


_BY_MAGIC_BYTES: tuple[tuple[bytes, FileFormat], ...] = (
    (b"II*\x00", FileFormat("a TIFF", _TIFF, ("GTiff",))),
    (b"MM\x00*", FileFormat("a TIFF", _TIFF, ("GTiff",))),
    (b"II+\x00", FileFormat("a BigTIFF", _TIFF, ("GTiff",))),
    (b"MM\x00+", FileFormat("a BigTIFF", _TIFF, ("GTiff",))),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", FileFormat("a JPEG 2000 file", _JP2, ("JP2OpenJPEG",))),
    (b"\xff\x4f\xff\x51", FileFormat("a JPEG 2000 codestream", _JP2, ("JP2OpenJPEG",))),
    (b"\x89PNG", FileFormat("a PNG picture", _PNG, ("PNG",))),
    (b"\xff\xd8\xff", FileFormat("a JPEG picture", _JPEG, ("JPEG",))),
    (b"\x89HDF", FileFormat("an HDF5 or netCDF 4 file", _HDF5 | _NETCDF, ("netCDF", "HDF5"))),
    (b"CDF\x01", FileFormat("a netCDF file", _NETCDF, ("netCDF",))),
    (b"CDF\x02", FileFormat("a netCDF file", _NETCDF, ("netCDF",))),
    (b"CDF\x05", FileFormat("a netCDF file of the variant CDF-5", remedy=_NEWER_NETCDF)),
    (b"GRIB", FileFormat("a GRIB file", _GRIB, ("GRIB",))),
    (b"EHFA_HEADER_TAG", FileFormat("an Erdas Imagine file", _HFA, ("HFA",))),
    (b"UHL1", FileFormat("a DTED file", _DTED, ("DTED",))),
    (b"PK\x03\x04", FileFormat("a ZIP archive", _ZIP, remedy=_UNPACK, archive=True)),
    (b"PK\x05\x06", FileFormat("an empty ZIP archive", _ZIP, remedy="Send an archive with a raster.")),
    (b"GIF8", FileFormat("a GIF picture", remedy=_NO_GEOREFERENCE)),
    (b"BM", FileFormat("a BMP picture", remedy=_NO_GEOREFERENCE)),
    (b"\x1f\x8b", FileFormat("a gzip archive", remedy=_UNPACK)),
    (b"7z\xbc\xaf", FileFormat("a 7z archive", remedy=_UNPACK)),
    (b"Rar!", FileFormat("a RAR archive", remedy=_UNPACK)),
    (b"\x0e\x03\x13\x01", FileFormat("an HDF4 file", remedy=_VARIABLES)),
    (b"SQLite format 3", FileFormat("a SQLite database, like a GeoPackage", remedy=_VARIABLES)),
    (b"%PDF", FileFormat("a PDF", remedy=_CONVERT)),
    (b"NITF", FileFormat("a NITF file", remedy=_CONVERT)),
)


def identify_format(source: Openable) -> FileFormat:
    """Identify a file's format by its first bytes."""
    with source.open("rb") as file:
        return identify_bytes(file.read(HEAD_BYTES))


def identify_bytes(head: bytes) -> FileFormat:
    """Identify a format by the first bytes of a file."""
    for magic, content in _BY_MAGIC_BYTES:
        if head.startswith(magic):
            return content
    return _name_text(head)


def _name_text(head: bytes) -> FileFormat:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"<VRTDataset"):
        return FileFormat("a VRT, which only refers to other files", remedy=_NAMES_OTHERS)
    if text[:5].lower() == b"ncols":
        return FileFormat("an ASCII grid", _ASCII, ("AAIGrid",))
    if text[:1] in (b"<", b"{", b"["):
        return FileFormat("an XML or JSON text", remedy=_NAMES_OTHERS)
    return FileFormat("in an unknown format", remedy=_CONVERT)
