"""Opens an untrusted vector file of any format."""

from dataclasses import replace
from pathlib import Path

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import ReadOptions, SourceLayer
from anabranch.plugins.vector.reading.archive import unpack
from anabranch.plugins.vector.reading.choose import choose_layers
from anabranch.plugins.vector.reading.csv.open_csv import open_csv
from anabranch.plugins.vector.reading.flatgeobuf import open_flatgeobuf
from anabranch.plugins.vector.reading.formats import CSV, FLATGEOBUF, GEOPACKAGE, GML, KML, PARQUET, ZIP, identify
from anabranch.plugins.vector.reading.geopackage import open_geopackage
from anabranch.plugins.vector.reading.json.geojson import open_json
from anabranch.plugins.vector.reading.ogr import OgrFile, count_features, list_layers, open_layer, set_options
from anabranch.plugins.vector.reading.parquet import open_parquet
from anabranch.plugins.vector.reading.shapefile import open_shapefiles
from anabranch.plugins.vector.reading.xml_files import open_gml, open_kml, open_linked_kml
from anabranch.plugins.vector.settings import VectorSettings

__all__ = ["open_layers"]

MB = 2**20


def open_layers(path: Path, folder: Path, options: ReadOptions, settings: VectorSettings) -> tuple[SourceLayer, ...]:
    """The layers of a file, to be read while it and the folder are there; archives are unpacked into the folder."""
    set_options(settings)
    found = identify(path)
    if path.stat().st_size > settings.vector_max_mb * MB:
        raise Permanent(
            f"{path.name} has {path.stat().st_size // MB:,} MB, over the limit of {settings.vector_max_mb:,}",
            code="vector.too_large",
            remedy="Split it, or ask the operator to raise ANABRANCH_VECTOR_MAX_MB.",
        )
    if found is ZIP:
        return _open_archive(path, folder, options, settings)
    openers = {
        CSV.name: open_csv,
        GEOPACKAGE.name: open_geopackage,
        GML.name: open_gml,
        KML.name: open_kml,
        PARQUET.name: open_parquet,
        FLATGEOBUF.name: open_flatgeobuf,
    }
    return openers.get(found.name, open_json)(path, options, settings)


def _open_archive(path: Path, folder: Path, options: ReadOptions, settings: VectorSettings) -> tuple[SourceLayer, ...]:
    unpacked = unpack(path, folder, settings)
    if unpacked.shapefiles:
        layers = open_shapefiles(path.name, unpacked.shapefiles, options, settings)
    elif unpacked.geodatabase:
        layers = _open_geodatabase(path.name, unpacked.geodatabase.path, options, settings)
    elif unpacked.file and unpacked.linked:
        layers = open_linked_kml(path.name, unpacked.file, unpacked.linked, options, settings)
    else:
        layers = open_layers(unpacked.file or path, folder, options, settings)
    return (replace(layers[0], warnings=(*layers[0].warnings, *unpacked.notices)), *layers[1:])


def _open_geodatabase(
    archive: str, folder: Path, options: ReadOptions, settings: VectorSettings
) -> tuple[SourceLayer, ...]:
    file = OgrFile(folder, archive, "FileGDB", settings, has_keys=True)
    chosen, notices = choose_layers(archive, list_layers(file), options.layer, settings)
    return tuple(
        open_layer(file, name, name, rows=count_features(file, name), notices=() if place else notices)
        for place, name in enumerate(chosen)
    )
