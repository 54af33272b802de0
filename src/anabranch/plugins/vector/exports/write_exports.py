"""Writes the rows of a layer in several formats, and compares each file with the rows.

CSV and PMTiles are read by another library than wrote them; GeoParquet and FlatGeobuf by the same.
"""

from importlib.metadata import version
from pathlib import Path

from anabranch.plugins.vector.convert import Progress
from anabranch.plugins.vector.exports.csv_wkt import verify_csv, write_csv
from anabranch.plugins.vector.exports.expected import Expected, expect
from anabranch.plugins.vector.exports.flatgeobuf import verify_flatgeobuf, write_flatgeobuf
from anabranch.plugins.vector.exports.geoparquet import verify_geoparquet, write_geoparquet
from anabranch.plugins.vector.exports.models import ExportedFiles, ExportFormat, ExportOptions
from anabranch.plugins.vector.exports.pmtiles import choose_max_zoom, verify_pmtiles, write_pmtiles

__all__ = ["write_exports"]

EXTENSIONS: dict[ExportFormat, str] = {
    "geoparquet": "parquet", "flatgeobuf": "fgb", "pmtiles": "pmtiles", "csv": "csv"
}  # fmt: skip
SOFTWARE = ("pyarrow", "pyogrio", "shapely")


def write_exports(source: Path, folder: Path, options: ExportOptions, progress: Progress) -> ExportedFiles:
    """Write the rows of a COPY file into files of the folder."""
    expected = expect(source, options.columns)
    max_zoom = options.max_zoom
    if max_zoom is None:
        max_zoom = choose_max_zoom(expected.bounds) if expected.bounds else 0
    files: dict[ExportFormat, str] = {}
    for number, name in enumerate(options.formats, 1):
        # A name of a file begins with a letter or digit, and that of a layer may not.
        path = folder / f"{options.layer.lstrip('_') or 'layer'}.{EXTENSIONS[name]}"
        _write(name, source, path, expected, options, max_zoom)
        files[name] = path.name
        progress(number, len(options.formats), name)
    return ExportedFiles(
        rows=expected.rows,
        files=files,
        max_zoom=max_zoom if "pmtiles" in files else None,
        software={name: version(name) for name in SOFTWARE},
    )


def _write(
    name: ExportFormat, source: Path, path: Path, expected: Expected, options: ExportOptions, max_zoom: int
) -> None:
    columns, layer, geometry_type = options.columns, options.layer, options.geometry_type
    match name:
        case "geoparquet":
            verify_geoparquet(write_geoparquet(source, columns, path), expected)
        case "flatgeobuf":
            write_flatgeobuf(source, columns, path, expected, layer=layer, geometry_type=geometry_type)
            verify_flatgeobuf(path, expected)
        case "pmtiles":
            write_pmtiles(source, columns, path, layer=layer, geometry_type=geometry_type, max_zoom=max_zoom)
            verify_pmtiles(path, expected, layer=layer, max_zoom=max_zoom)
        case "csv":
            verify_csv(write_csv(source, columns, path), expected)
