"""The format of a vector file: by its first bytes, and by its extension, which must agree."""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from anabranch.errors import Permanent
from anabranch.redaction import show_text

__all__ = ["SUFFIXES", "VectorFormat", "identify", "identify_suffix"]

HEAD_BYTES = 64 * 1024


@dataclass(frozen=True)
class VectorFormat:
    """A format: its name in reports, a title for messages, its extensions, and what to do where it is not read."""

    name: str
    title: str
    suffixes: tuple[str, ...] = ()
    remedy: str = ""


_SEND = "Send GeoJSON, GeoPackage, FlatGeobuf, GeoParquet, KML, GML, CSV, or a ZIP archive with a Shapefile."
_CONVERT = "Convert it: `ogr2ogr out.gpkg {name}`."
_UNPACK = "Unpack it, and send the file inside, or a ZIP archive."

SEQUENCE_SUFFIXES = (".geojsonl", ".geojsons", ".geojsonseq", ".ndgeojson", ".ndjson", ".jsonl")
JSON = VectorFormat("GeoJSON", "JSON", (".geojson", ".json", *SEQUENCE_SUFFIXES, ".topojson"))
GEOPACKAGE = VectorFormat("GeoPackage", "a SQLite database, like a GeoPackage", (".gpkg",))
FLATGEOBUF = VectorFormat("FlatGeobuf", "a FlatGeobuf", (".fgb",))
PARQUET = VectorFormat("GeoParquet", "a Parquet file", (".parquet", ".geoparquet", ".pq"))
ZIP = VectorFormat("ZIP", "a ZIP archive", (".zip", ".kmz"))
KML = VectorFormat("KML", "a KML file", (".kml",))
GML = VectorFormat("GML", "a GML file", (".gml", ".xml"))
CSV = VectorFormat("CSV", "text", (".csv", ".tsv", ".tab", ".txt"))
BARE_SHAPEFILE = VectorFormat("Shapefile", "a part of a Shapefile", (".shp", ".shx", ".dbf"))

_READ = (JSON, GEOPACKAGE, FLATGEOBUF, PARQUET, ZIP, KML, GML, CSV)
SUFFIXES = frozenset(suffix for each in _READ for suffix in each.suffixes)

_BY_MAGIC: tuple[tuple[bytes, VectorFormat], ...] = (
    (b"SQLite format 3\x00", GEOPACKAGE),
    (b"fgb\x03fgb", FLATGEOBUF),
    (b"PAR1", PARQUET),
    (b"PK\x03\x04", ZIP),
    (b"PK\x05\x06", ZIP),
    (b"\x00\x00\x27\x0a", BARE_SHAPEFILE),
    (b"\x1e", JSON),
    (b"\x1f\x8b", VectorFormat("gzip", "a gzip archive", remedy=_UNPACK)),
    (b"7z\xbc\xaf", VectorFormat("7z", "a 7z archive", remedy=_UNPACK)),
    (b"Rar!", VectorFormat("RAR", "a RAR archive", remedy=_UNPACK)),
    (b"\xd0\xcf\x11\xe0", VectorFormat("Excel", "an Excel workbook", remedy="Save it as CSV, and send that.")),
    (b"ARROW1", VectorFormat("Arrow", "an Arrow file", remedy="Write it as GeoParquet, and send that.")),
    (b"II*\x00", VectorFormat("TIFF", "a TIFF, which is a raster", remedy="Publish it with `process_raster`.")),
    (b"MM\x00*", VectorFormat("TIFF", "a TIFF, which is a raster", remedy="Publish it with `process_raster`.")),
    (b"%PDF", VectorFormat("PDF", "a PDF", remedy=_CONVERT)),
)
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_GML_ROOT = re.compile(r"(?i)(^|/)gml($|/)|opengis\.net/(gml|wfs|citygml)")


def identify(path: Path) -> VectorFormat:
    """The format of a file; refused where it is none that is read, or not the one that its extension says."""
    if not path.is_file():
        raise Permanent(
            f"{path.name} is not on the machine", code="vector.missing", remedy="Stage it again, then retry."
        )
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise Permanent(f"{path.name} is empty: it has zero bytes", code="vector.empty", remedy="Upload it again.")
    found, named = _identify_content(head), identify_suffix(path.name)
    if BARE_SHAPEFILE in (found, named):
        raise Permanent(
            f"{path.name} is a part of a Shapefile, and needs the others",
            code="vector.shapefile",
            remedy="Send a ZIP archive with the .shp, .shx, .dbf and .prj files.",
        )
    if named and found.name != named.name:
        raise Permanent(
            f"{path.name} is {found.title}, but its extension {path.suffix.lower()} is that of {_title(named)}",
            code="vector.mismatch",
            remedy="Give the file the extension of its format; or upload it again, if it is another than it should be.",
        )
    if found.name not in {each.name for each in _READ} or (found is CSV and not named):
        raise Permanent(
            f"{path.name} is {found.title}, which is not a supported vector format",
            code="vector.format",
            remedy=(found.remedy or _SEND).format(name=path.name),
        )
    return found


def identify_suffix(name: str) -> VectorFormat | None:
    """The format that the extension of a name says, if it is a known one."""
    suffix = Path(name).suffix.lower()
    return next((each for each in (*_READ, BARE_SHAPEFILE) if suffix in each.suffixes), None)


def _title(named: VectorFormat) -> str:
    return "CSV" if named is CSV else named.title


def _identify_content(head: bytes) -> VectorFormat:
    for magic, found in _BY_MAGIC:
        if head.startswith(magic):
            return found
    text = head
    for mark in _BOMS:
        text = text.removeprefix(mark)
    text = text.replace(b"\x00", b"").lstrip()  # UTF-16 has a zero beside each letter of ASCII
    if text[:1] == b"<":
        return _identify_xml(head)
    if text[:1] in (b"{", b"["):
        return JSON
    if b"\x00" in head and not head.startswith(_BOMS[1:]):
        return VectorFormat("unknown", "in an unknown binary format", remedy=_SEND)
    return CSV


def _identify_xml(head: bytes) -> VectorFormat:
    """KML and GML by their root element; the parser stops there, before any entity."""
    roots: list[tuple[str, dict[str, str]]] = []
    parser = expat.ParserCreate(namespace_separator="/")

    def start(name: str, attributes: dict[str, str]) -> None:
        if not roots:
            roots.append((name, attributes))
            parser.StartElementHandler = None

    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = _stop
    with suppress(expat.ExpatError, _Doctype):
        parser.Parse(head, False)
    if not roots:
        return _guess_xml(head)
    name = roots[0][0]
    local = name.rpartition("/")[2]
    if local == "kml":
        return KML
    if _GML_ROOT.search(name) or (local != "schema" and b"opengis.net/gml" in head):  # of any application schema
        return GML
    return VectorFormat("XML", f"an XML file of another kind, <{show_text(local)}>", remedy=_CONVERT)


class _Doctype(Exception):
    """The file has a document type declaration."""


def _stop(*_: object) -> None:
    raise _Doctype


def _guess_xml(head: bytes) -> VectorFormat:
    """What a file that is no XML, or has a document type, seems to be: the scan of the whole says what is wrong."""
    found = re.search(rb"<(?:\w+:)?(kml|FeatureCollection)\b", head.replace(b"\x00", b""))
    if found is None:
        return VectorFormat("XML", "an XML file of another kind", remedy=_CONVERT)
    return KML if found[1] == b"kml" else GML
