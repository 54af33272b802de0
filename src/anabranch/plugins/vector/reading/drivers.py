"""The GDAL drivers that may open vector files, and an environment that skips all others (S4); imports no GDAL."""

from anabranch.geo.gdal_environment import closed_environment

__all__ = ["ALLOWED", "WRITTEN", "batch_bytes", "export_environment", "gdal_environment", "gdal_options"]

MB = 2**20
# CSV and GeoParquet are read without GDAL. pyogrio loads the driver MEM itself.
ALLOWED = frozenset(
    {"ESRI Shapefile", "FlatGeobuf", "GML", "GPKG", "GeoJSON", "GeoJSONSeq", "LIBKML", "MEM", "OpenFileGDB", "TopoJSON"}
)
# Those that write exports: GDAL makes PMTiles of a database in SQLite's format.
WRITTEN = frozenset({"FlatGeobuf", "MEM", "PMTiles", "SQLite"})
# The share of the memory that one batch may have: two are in flight, and each is copied while it is cleaned.
BATCH_DIVISOR = 8


def batch_bytes(memory_mb: int) -> int:
    """About how many bytes one batch of rows may have."""
    return memory_mb * MB // BATCH_DIVISOR


def gdal_options(memory_mb: int) -> dict[str, str]:
    """The options of GDAL for untrusted vector files, which may also be set after its start."""
    return {
        "OGR_ARROW_MEM_LIMIT": str(batch_bytes(memory_mb)),  # a batch ends before it has more bytes
        "OGR_GEOJSON_MAX_OBJ_SIZE": str(max(1, memory_mb // BATCH_DIVISOR)),
        "OGR_FLATGEOBUF_STREAM_BASE_IMPL": "YES",  # its own code ends the file where a batch reaches the limit
        "OGR_GPKG_NUM_THREADS": "1",  # else batches are read ahead, which takes more memory
        "OGR_SQLITE_ALLOW_EXTERNAL_ACCESS": "NO",
        "OGR_SQLITE_LOAD_EXTENSIONS": "",
        "GML_DOWNLOAD_SCHEMA": "NO",
        "GML_SKIP_RESOLVE_ELEMS": "ALL",
        "LIBKML_RESOLVE_STYLE": "NO",
        "LIBKML_READ_GROUND_OVERLAY": "NO",
    }


def gdal_environment(memory_mb: int = 1024) -> dict[str, str]:
    """The environment of a process that opens untrusted vector files; to be set before GDAL is first used."""
    return _environment(ALLOWED, memory_mb)


def export_environment(memory_mb: int = 1024) -> dict[str, str]:
    """The environment of a process that writes exports."""
    return _environment(WRITTEN, memory_mb)


def _environment(drivers: frozenset[str], memory_mb: int) -> dict[str, str]:
    return {
        **closed_environment(drivers, memory_mb),
        **gdal_options(memory_mb),
        "GDAL_NUM_THREADS": "1",
        "CPL_LOG": "/dev/null",  # GDAL writes a line for each name in GDAL_SKIP that this build lacks
    }
