"""What a file is by its first bytes, whatever it is called."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["SUFFIXES", "Content", "name_content"]

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
_PLACELESS = "Convert it to GeoTIFF: a picture does not say where on Earth it is."
_UNPACK = "Unpack it, and send the raster itself."
_NAMES_OTHERS = "Send the raster that it names, or write it out with `gdal_translate -of COG`."

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
    (b"\x89HDF", Content("an HDF5 or netCDF 4 file")),
    (b"CDF\x01", Content("a netCDF file")),
    (b"CDF\x02", Content("a netCDF file")),
    (b"\x0e\x03\x13\x01", Content("an HDF4 file")),
    (b"GRIB", Content("a GRIB file")),
    (b"EHFA_HEADER_TAG", Content("an Erdas Imagine file")),
    (b"SQLite format 3", Content("a SQLite database, like a GeoPackage")),
    (b"%PDF", Content("a PDF")),
    (b"NITF", Content("a NITF file")),
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
    return Content("of no raster format that is known here")
