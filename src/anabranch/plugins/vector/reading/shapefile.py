"""Shapefiles: their parts must be whole and belong together, and their text has an encoding."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyogrio

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import ReadOptions, SourceLayer
from anabranch.plugins.vector.reading.archive import Shapefile
from anabranch.plugins.vector.reading.choose import choose_layers
from anabranch.plugins.vector.reading.encodings import (
    check_encoding,
    detect_encoding,
    gdal_name,
    is_utf8,
    warn_of_guess,
)
from anabranch.plugins.vector.reading.exact.dbf import DbfColumns
from anabranch.plugins.vector.reading.ogr import OgrFile, count_features, open_layer
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.redaction import show_text

__all__ = ["open_shapefiles"]

SHAPE_HEADER, INDEX_ENTRY, FILE_CODE = 100, 8, 9994
DELETED, PIECE_ROWS = ord("*"), 10_000
TABLE_HEADER = struct.Struct("<4xIHH16xxB")
# The drivers of dBASE and ArcGIS mark these; others are rare, and not reliable.
_LANGUAGES = {
    **dict.fromkeys((0x02, 0x08), "cp850"),
    **dict.fromkeys((0x03, 0x57, 0x58, 0x59), "cp1252"),
    0x01: "cp437",
    0x13: "cp932",
    0x26: "cp866",
    0x4D: "cp936",
    0x4E: "cp949",
    0x4F: "cp950",
    0x64: "cp852",
    0x65: "cp866",
    0xC8: "cp1250",
    0xC9: "cp1251",
    0xCA: "cp1254",
    0xCB: "cp1253",
}
_HOW = "if letters are wrong, set `encoding`."
_NO_INDEX = "The Shapefile {name} has no .shx file: it was rebuilt from the .shp file."


def open_shapefiles(
    archive: str, shapefiles: Sequence[Shapefile], options: ReadOptions, settings: VectorSettings
) -> tuple[SourceLayer, ...]:
    """The layers of an archive with Shapefiles, each of which is one."""
    chosen, _ = choose_layers(archive, [(each.name, True) for each in shapefiles], options.layer, settings)
    return tuple(_open(archive, each, options, settings) for each in shapefiles if each.name in chosen)


def _open(archive: str, shapefile: Shapefile, options: ReadOptions, settings: VectorSettings) -> SourceLayer:
    name = f"{show_text(shapefile.name)}.shp in {archive}"
    _check_shapes(name, shapefile.parts)
    rows, deleted = _read_table(name, shapefile.parts[".dbf"])
    encoding, found = _find_encoding(shapefile.parts, options)
    notices = _warn_of_encoding(shapefile, encoding, found)
    file = OgrFile(
        shapefile.parts[".shp"],
        name,
        "Shapefile",
        settings,
        encoding=gdal_name(encoding),
        options={"ADJUST_TYPE": "YES"},  # whole numbers of 19 digits are read as such where they fit
        own=DbfColumns(shapefile.parts[".dbf"], encoding),
    )
    if ".shx" not in shapefile.parts:
        notices = (*notices, _rebuild_index(file, shapefile.name))
    shapes = (file.path.with_suffix(".shx").stat().st_size - SHAPE_HEADER) // INDEX_ENTRY
    if shapes != rows:
        raise _damaged(f"{name} has {shapes:,} geometries, and its .dbf file has {rows:,} rows")
    layer = open_layer(
        file,
        shapefile.name,
        rows=rows,
        left_out={"deleted_row": deleted},
        detected={"encoding": encoding, "encoding found by": found},
        notices=notices,
    )
    if layer.crs or ".prj" not in shapefile.parts:
        return layer
    notice = f"The .prj file of the layer {show_text(shapefile.name)} can't be read, so that the CRS is unknown."
    return replace(layer, no_crs="its .prj file can't be read", warnings=(*layer.warnings, notice))


def _rebuild_index(file: OgrFile, name: str) -> str:
    """Have GDAL write the .shx file of a .shp file, in the folder that it was unpacked to; the notice of it.

    It replaces one that is there, too, and does not find records where only that one says where they are.
    """
    pyogrio.set_gdal_config_options({"SHAPE_RESTORE_SHX": "YES"})
    try:
        count_features(file)
    finally:
        pyogrio.set_gdal_config_options({"SHAPE_RESTORE_SHX": None})
    return _NO_INDEX.format(name=show_text(name))


def _check_shapes(name: str, parts: dict[str, Path]) -> None:
    """Refuse a Shapefile without its table, or one that is cut off: GDAL would read less without a word."""
    if ".dbf" not in parts:
        raise Permanent(
            f"the .dbf file of {name} is missing, which has its attributes",
            code="vector.shapefile",
            remedy="Add it to the archive: send the .shp, .shx, .dbf and .prj files.",
        )
    shapes = parts[".shp"]
    with shapes.open("rb") as file:
        head = file.read(SHAPE_HEADER)
    if len(head) < SHAPE_HEADER or struct.unpack_from(">i", head)[0] != FILE_CODE:
        raise _damaged(f"{name} is no Shapefile: its header is wrong")
    if (whole := 2 * struct.unpack_from(">i", head, 24)[0]) > shapes.stat().st_size:
        raise _damaged(f"{name} is cut off: it has {shapes.stat().st_size:,} of {whole:,} bytes")


def _read_table(name: str, table: Path) -> tuple[int, list[int]]:
    """How many rows a table has, and the numbers of those that are marked as deleted."""
    deleted: list[int] = []
    with table.open("rb") as file:
        head = file.read(TABLE_HEADER.size)
        if len(head) < TABLE_HEADER.size:
            raise _damaged(f"the .dbf file of {name} is cut off")
        rows, start, width, _ = TABLE_HEADER.unpack(head)
        size = table.stat().st_size
        if not width or start + rows * width > size:
            raise _damaged(f"the .dbf file of {name} is cut off: {rows:,} rows don't fit in {size:,} bytes")
        file.seek(start)
        for first in range(0, rows, PIECE_ROWS):
            marks = file.read(width * min(PIECE_ROWS, rows - first))[::width]
            if DELETED in marks:
                deleted += [first + place + 1 for place, mark in enumerate(marks) if mark == DELETED]
    return rows, deleted


def _damaged(message: str) -> Permanent:
    return Permanent(message, code="vector.damaged", remedy="Make the archive again from the original files.")


def _find_encoding(parts: dict[str, Path], options: ReadOptions) -> tuple[str, str]:
    """The encoding of the table: the caller's, that of the .cpg file, that of its bytes, or of its header."""
    if options.encoding:
        return check_encoding(options.encoding), "caller"
    with parts[".dbf"].open("rb") as file:
        _, start, _, language = TABLE_HEADER.unpack(file.read(TABLE_HEADER.size))
    seen = detect_encoding(parts[".dbf"], start=start, fields=True)
    declared = _read_cpg(parts.get(".cpg"))
    if declared and (declared != "utf-8" or seen == "utf-8"):
        return declared, "cpg file"
    if seen == "utf-8":
        return seen, "bytes"
    if language in _LANGUAGES:
        return _LANGUAGES[language], "dbf header"
    return seen, "bytes"


def _warn_of_encoding(shapefile: Shapefile, encoding: str, found: str) -> tuple[str, ...]:
    """What to say of an encoding that was guessed, or is not that of the .cpg file."""
    name = show_text(shapefile.name)
    guessed = warn_of_guess(name, encoding) if found == "bytes" else ()
    declared = _read_cpg(shapefile.parts.get(".cpg"))
    if found == "cpg file" and encoding != "utf-8" and is_utf8(shapefile.parts[".dbf"], start=_find_start(shapefile)):
        return (f"The .cpg file of the layer {name} says {encoding}, but its texts look like UTF-8: {_HOW}",)
    if found in ("caller", "cpg file") or declared in (None, encoding):
        return guessed
    contradiction = f"The .cpg file of the layer {name} says {declared}, but its texts are not: {encoding} is used."
    return (contradiction, *guessed)


def _find_start(shapefile: Shapefile) -> int:
    """Where the rows of the table begin."""
    with shapefile.parts[".dbf"].open("rb") as file:
        return int(TABLE_HEADER.unpack(file.read(TABLE_HEADER.size))[1])


def _read_cpg(path: Path | None) -> str | None:
    """The encoding that a .cpg file names, as `UTF-8`, `1252` or `ANSI 1252`."""
    if path is None:
        return None
    with path.open("rb") as file:
        text = file.read(64).decode("ascii", "ignore").strip().lower()
    number = text.rpartition(" ")[2].removeprefix("cp").removeprefix("windows-")
    name = f"cp{number}" if number.isdigit() and number not in ("65001", "88591") else text
    name = {"65001": "utf-8", "88591": "latin-1"}.get(number, name)
    try:
        return check_encoding(name)
    except Permanent:
        return None
