"""The GDAL drivers that may be loaded, and an environment that skips all others (S4); nothing here imports GDAL."""

from anabranch.geo.gdal_environment import closed_environment

__all__ = ["ALLOWED", "CONVERTED", "READABLE", "gdal_environment"]

# Formats of untrusted files that every step reads as they are: they store their georeference inside the file and refer
# to no other file. GTiff: most uploads. JP2OpenJPEG: satellite scenes. A GDAL build ignores the names it does not have.
READABLE = ("GTiff", "JP2OpenJPEG")
# Formats that are first converted to a GeoTIFF, in a sandbox that can read no other file, whatever the first one names.
CONVERTED = ("netCDF", "HDF5", "HDF5Image", "GRIB", "HFA", "AAIGrid", "DTED", "PNG", "JPEG")
# Warping adds the VRT driver to its own process, so every file is also opened with one named driver.
# Drivers for our own work: COG writes, MEM and Memory hold masks during vectorization.
ALLOWED = frozenset({*READABLE, *CONVERTED, "COG", "MEM", "Memory"})


def gdal_environment(memory_mb: int = 1024, threads: int = 0) -> dict[str, str]:
    """The environment of a process that opens untrusted rasters; to be set before GDAL is first used."""
    return {
        **closed_environment(ALLOWED, memory_mb),
        "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
        "GDAL_GEOREF_SOURCES": "INTERNAL",
        "GRIB_NORMALIZE_UNITS": "NO",  # else temperatures become degrees Celsius
        "HDF5_USE_FILE_LOCKING": "FALSE",  # a source is read-only
        "GDAL_NUM_THREADS": str(threads) if threads else "ALL_CPUS",
    }
