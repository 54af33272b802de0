"""GeoPackages: which layers they have is read from their own tables, before GDAL opens them."""

from dataclasses import dataclass, replace
from pathlib import Path

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import ReadOptions, SourceLayer
from anabranch.plugins.vector.reading.choose import choose_layers
from anabranch.plugins.vector.reading.exact.geopackage import STATEMENTS, StoredColumns, open_database, quote_name
from anabranch.plugins.vector.reading.ogr import OgrFile, count_features, open_layer
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.redaction import show_text

__all__ = ["open_geopackage"]

PLACEHOLDER = "ogr_empty_table"  # GDAL wrote it once where there are attributes only, and never reads it
WAL_VERSIONS = slice(18, 20)  # of the file's header: 2 where it was written with a write-ahead log
_WAL = (
    "The GeoPackage was open in another program when it was copied (write-ahead log): changes that were still in its "
    "-wal file are missing. Close it there and copy it again, if so."
)


@dataclass(frozen=True)
class _Layer:
    """What a GeoPackage says of a layer."""

    name: str
    has_geometry: bool
    is_view: bool


def open_geopackage(path: Path, options: ReadOptions, settings: VectorSettings) -> tuple[SourceLayer, ...]:
    """The layers of a GeoPackage; views, too, which are read as tables are."""
    held = _list_layers(path)
    layers = [(layer.name, layer.has_geometry) for layer in held]
    chosen, notices = choose_layers(path.name, layers, options.layer, settings)
    # Nothing writes to the file: without locks and logs it opens also where it, or its folder, can't be written to.
    file = OgrFile(path, path.name, "GeoPackage", settings, options={"IMMUTABLE": "YES"}, has_keys=True)
    with path.open("rb") as head:
        notices = (*notices, *((_WAL,) if 2 in head.read(20)[WAL_VERSIONS] else ()))
    views = {layer.name for layer in held if layer.is_view}
    layers_found = []
    for place, name in enumerate(chosen):
        columns = StoredColumns(path, name, name in views)
        rows = count_features(file, name, force=True) if name in views else _count_rows(path, name)
        table = replace(file, own=columns, find_unreadable=columns.find_unreadable)
        layers_found.append(open_layer(table, name, name, rows=rows, notices=notices if not place else ()))
    return tuple(layers_found)


def _count_rows(path: Path, table: str) -> int:
    """How many rows a table has: GDAL ends without a word at a page that it can't read, which is an error here."""
    with open_database(path) as database:
        return int(database.execute(STATEMENTS["count_rows"].format(table=quote_name(table))).fetchone()[0])


def _list_layers(path: Path) -> list[_Layer]:
    with open_database(path) as database:
        if not database.execute(STATEMENTS["find_contents"]).fetchone()[0]:
            raise Permanent(
                f"{path.name} is a SQLite database, but not a GeoPackage: it has no table gpkg_contents",
                code="vector.geopackage",
                remedy=f"Convert it: `ogr2ogr out.gpkg {path.name}`.",
            )
        tables = database.execute(STATEMENTS["list_tables"]).fetchall()
    layers = []
    for name, kind, held, definition in tables:
        if kind in ("features", "attributes", "aspatial"):
            _check_table(path.name, str(name), str(held), str(definition))
            layers.append(_Layer(str(name), kind == "features" and name != PLACEHOLDER, held == "view"))
    return layers


def _check_table(file: str, name: str, held: str, definition: str) -> None:
    """A virtual table reads what code of its module says, and not what is in the file."""
    if held and not definition.lower().lstrip().startswith("create virtual"):
        return
    what = "is a virtual table" if held else "is not in it"
    raise Permanent(
        f"the layer {show_text(name)!r} of {file} {what}",
        code="vector.geopackage",
        remedy=f"Write the file again: `ogr2ogr out.gpkg {file}`.",
    )
