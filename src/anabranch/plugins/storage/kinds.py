"""What a file is for geospatial work, by its name and its first bytes; no library opens it."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import NamedTuple

__all__ = [
    "HEAD_BYTES", "Classified", "Kind", "choose_main", "classify", "kind_of_name", "sidecar_stem", "sidecar_suffix",
]  # fmt: skip

HEAD_BYTES = 512
TAR_MAGIC_AT = 257


class Kind(StrEnum):
    """What a file is."""

    RASTER = "raster"
    VECTOR = "vector"
    ARCHIVE = "archive"
    SIDECAR = "sidecar"
    OTHER = "other"


class Classified(NamedTuple):
    """The kind of a file, and a note where its name and its content disagree."""

    kind: Kind
    note: str = ""


def _by_suffix(kinds: dict[Kind, str]) -> dict[str, Kind]:
    return {suffix: kind for kind, suffixes in kinds.items() for suffix in suffixes.split()}


# Formats with magic bytes, by extension; and those of text, which have none.
BINARY = _by_suffix(
    {
        Kind.RASTER: ".tif .tiff .gtiff .btf .jp2 .j2k .png .jpg .jpeg .nc .nc4 .h5 .hdf .hdf5 .he5 .grib .grib2 .grb "
        ".grb2 .img .mbtiles",
        Kind.VECTOR: ".shp .gpkg .fgb .parquet .geoparquet .kmz",
        Kind.ARCHIVE: ".zip .gz .tgz .tar .7z .rar .bz2 .xz",
    }
)
TEXT = _by_suffix(
    {Kind.RASTER: ".asc", Kind.VECTOR: ".geojson .geojsonl .geojsons .kml .gml .gpx .csv .tsv .json .ndjson"}
)
MAYBE_GEOJSON = (".json", ".ndjson")
# Sidecars by extension, and the kind of the file that they belong to where two have the same name.
SIDECARS = _by_suffix(
    {
        Kind.RASTER: ".tfw .tifw .tiffw .jgw .jpgw .jpegw .pgw .pngw .j2w .jp2w .wld .msk .ovr .rrd .aux .aux.xml .hdr",
        Kind.VECTOR: ".prj .qpj .dbf .shx .cpg .sbn .sbx .qix .fix .ain .aih .atx .qml .sld .qmd",
    }
)
MAGIC: tuple[tuple[bytes, Kind], ...] = (
    *(
        (magic, Kind.RASTER)
        for magic in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51")
    ),
    *(
        (magic, Kind.RASTER)
        for magic in (b"\x89PNG", b"\xff\xd8\xff", b"\x89HDF", b"CDF", b"\x0e\x03\x13\x01", b"GRIB")
    ),
    (b"EHFA_HEADER_TAG", Kind.RASTER),
    *((magic, Kind.VECTOR) for magic in (b"fgb\x03", b"PAR1", b"\0\0\x27\x0a", b"SQLite format 3")),
    *((magic, Kind.ARCHIVE) for magic in (b"PK\3\4", b"\x1f\x8b", b"7z\xbc\xaf", b"Rar!", b"BZh", b"\xfd7zXZ")),
)
# Containers whose content only the name says.
BY_NAME = {(".kmz", Kind.ARCHIVE): Kind.VECTOR, (".mbtiles", Kind.VECTOR): Kind.RASTER}


def sidecar_suffix(name: str) -> str:
    """The extension that makes a file a sidecar of another; empty for all others."""
    suffixes = PurePosixPath(name.lower()).suffixes
    endings = ("".join(suffixes[-2:]), "".join(suffixes[-1:]))
    if len(suffixes) > 1 and suffixes[-1] == ".xml" and suffixes[-2] in BINARY:
        return ".xml"  # metadata beside a file, like dem.tif.xml
    return next((ending for ending in endings if ending in SIDECARS), "")


def sidecar_stem(name: str) -> str:
    """What a sidecar shares with its main file, in lower case: all of its name, or its stem."""
    return name[: len(name) - len(sidecar_suffix(name))].lower()


def kind_of_name(name: str) -> Kind | None:
    """The kind that a file's extension says; None where it says nothing."""
    suffix = PurePosixPath(name.lower()).suffix
    return BINARY.get(suffix) or TEXT.get(suffix)


def classify(name: str, head: bytes) -> Classified:
    """The kind of a file that is no sidecar, by its first bytes; its name decides where they don't."""
    suffix = PurePosixPath(name.lower()).suffix
    found = _by_magic(suffix, head) or _by_text(suffix, head)
    said = BINARY.get(suffix, found)
    if found is said:
        return Classified(found or Kind.OTHER)
    what = found or "of another format"
    return Classified(found or Kind.OTHER, f"the extension {suffix} is that of a {said}, and the content is {what}")


def _by_magic(suffix: str, head: bytes) -> Kind | None:
    if head[TAR_MAGIC_AT:].startswith(b"ustar"):
        return Kind.ARCHIVE
    kind = next((kind for magic, kind in MAGIC if head.startswith(magic)), None)
    return kind and BY_NAME.get((suffix, kind), kind)


def _by_text(suffix: str, head: bytes) -> Kind | None:
    if suffix in MAYBE_GEOJSON and b'"Feature' not in head:
        return None
    return None if b"\0" in head else TEXT.get(suffix)


def choose_main(name: str, others: Sequence[tuple[str, Kind]]) -> str | None:
    """The name of the file that a sidecar belongs to, of those with the right stem: `dem.shp` for `dem.dbf`."""
    suffix, stem = sidecar_suffix(name), sidecar_stem(name)

    def distance(other: tuple[str, Kind]) -> tuple[bool, bool, bool]:
        whole, kind = other[0].lower(), other[1]
        return whole != stem, kind is not SIDECARS.get(suffix, kind), kind is Kind.VECTOR and not whole.endswith(".shp")

    return min(others, key=distance)[0] if others else None
