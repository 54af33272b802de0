"""Small vector files in every format, made by code."""

import json
import sqlite3
import struct
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyarrow as pa
import pyogrio
import shapely

__all__ = [
    "KML",
    "feature",
    "make_collection",
    "make_frame",
    "make_geopackage",
    "make_kml",
    "make_zip",
    "write_frame",
    "write_wkb",
    "zip_shapefile",
]

KML = '<?xml version="1.0" encoding="UTF-8"?>\n<kml xmlns="http://www.opengis.net/kml/2.2">{}</kml>'
DRIVERS = {
    ".gpkg": "GPKG",
    ".fgb": "FlatGeobuf",
    ".geojson": "GeoJSON",
    ".geojsonl": "GeoJSONSeq",
    ".shp": "ESRI Shapefile",
    ".gml": "GML",
    ".kml": "LIBKML",
    ".gdb": "OpenFileGDB",
}


def make_frame(crs: str | None = "EPSG:4326") -> geopandas.GeoDataFrame:
    """Three rows with numbers beyond floating point, umlauts, nulls, booleans and days."""
    return geopandas.GeoDataFrame(
        {
            "count": np.array([1, 2**60 + 1, -3], np.int64),
            "share": [0.5, None, 1e-9],
            "name": ["Zürich", None, 'a, "b"\nc'],
            "open": [True, False, True],
        },
        geometry=[shapely.Point(1.5, 2.25), shapely.Point(-170.125, 60), shapely.Point(0, 0)],
        crs=crs,
    )


def write_frame(frame: geopandas.GeoDataFrame, path: Path, layer: str | None = None, **options: Any) -> Path:
    """Write a layer in the format of the path's extension."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.suffix == ".parquet":
            frame.to_parquet(path, **options)
        else:
            pyogrio.write_dataframe(frame, path, layer=layer, driver=DRIVERS[path.suffix], **options)
    return path


def write_wkb(path: Path, geometries: Sequence[bytes], kind: str, crs: str = "EPSG:25832") -> Path:
    """Write geometries that shapely can't make, like curves."""
    table = pa.table({"geom": pa.array(geometries, pa.binary()), "n": pa.array(range(len(geometries)), pa.int64())})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pyogrio.write_arrow(table, path, driver=DRIVERS[path.suffix], geometry_name="geom", geometry_type=kind, crs=crs)
    return path


def feature(properties: Mapping[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """A GeoJSON feature with a point."""
    point = {"type": "Point", "coordinates": [1.5, 2.25]}
    return {"type": "Feature", "properties": properties, "geometry": point, **members}


def make_collection(path: Path, features: Sequence[Any], **members: Any) -> Path:
    """A GeoJSON file of these features."""
    path.write_text(json.dumps({"type": "FeatureCollection", **members, "features": list(features)}))
    return path


def make_kml(path: Path, content: str) -> Path:
    """A KML file."""
    path.write_text(KML.format(content))
    return path


def make_zip(path: Path, members: Mapping[str, bytes | Path]) -> Path:
    """A ZIP archive of texts and files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content.read_bytes() if isinstance(content, Path) else content)
    return path


def zip_shapefile(
    path: Path, frame: geopandas.GeoDataFrame, *, leave_out: Sequence[str] = (), inside: str = "", **options: Any
) -> Path:
    """A ZIP archive with a Shapefile, without some of its parts; added to the archive, if there is one."""
    folder = path.parent / "parts"
    folder.mkdir(exist_ok=True)
    stem = inside.rpartition("/")[2] or path.stem
    write_frame(frame, folder / f"{stem}.shp", **options)
    with zipfile.ZipFile(path, "a") as archive:
        for part in sorted(folder.glob(f"{stem}.*")):
            if part.suffix not in leave_out:
                archive.writestr(f"{inside or stem}{part.suffix}", part.read_bytes())
            part.unlink()
    return path


def make_geopackage(path: Path, statements: Sequence[str], frame: geopandas.GeoDataFrame | None = None) -> Path:
    """A GeoPackage with one layer, `places`, changed by statements."""
    write_frame(make_frame() if frame is None else frame, path, "places", SPATIAL_INDEX="NO")
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)
    return path


def circular(points: Sequence[tuple[float, float]]) -> bytes:
    """A CircularString in WKB."""
    flat = [number for point in points for number in point]
    return struct.pack(f"<BII{len(flat)}d", 1, 8, len(points), *flat)
