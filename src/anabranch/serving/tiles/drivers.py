"""The GDAL drivers allowed in this process: one that reads our COGs, and those that write images (S4)."""

import json
import os
import subprocess
import sys

from anabranch.errors import Unavailable
from anabranch.serving.tiles.malloc import CACHE_BYTES

__all__ = ["ALLOWED", "CONFIG", "check_drivers", "close_drivers"]

# VRT is how a raster is warped in memory; a file is opened as a GeoTIFF or not at all.
ALLOWED = frozenset({"GTiff", "JPEG", "MEM", "PNG", "VRT", "WEBP"})
# No sidecar files, no other files, no network: everything is in the file itself. And a small cache.
CONFIG: dict[str, str | int] = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_PAM_ENABLED": "NO",
    "GDAL_HTTP_PROXY": "127.0.0.1:9",
    "GDAL_CACHEMAX": CACHE_BYTES,
}
LIST = "import json, rasterio\nwith rasterio.Env() as env: print(json.dumps(sorted(env.drivers())))"


def close_drivers() -> None:
    """Make GDAL skip all drivers that are not allowed; GDAL reads this once, at its first use in the process."""
    if "GDAL_SKIP" in os.environ:
        return
    # Only GDAL knows its drivers, and a process that asks GDAL has loaded them all: ask in another process.
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "LD_LIBRARY_PATH", "HOME")}
    listed = subprocess.run([sys.executable, "-c", LIST], env=environment, capture_output=True, check=False, text=True)
    if listed.returncode:
        raise ImportError(listed.stderr.strip().rpartition("\n")[2] or "rasterio can't be used")
    os.environ["GDAL_SKIP"] = ",".join(sorted(set(json.loads(listed.stdout)) - ALLOWED))


def check_drivers() -> None:
    """Refuse to open files where GDAL was used before its drivers were closed."""
    import rasterio

    with rasterio.Env() as env:
        others = set(env.drivers()) - ALLOWED
    if others:
        raise Unavailable(
            "serving.drivers",
            f"this process has loaded {len(others)} GDAL drivers that are not allowed, for example {min(others)}",
            remedy="A plugin uses GDAL in the API's process: import and use GDAL only in handlers.",
        )
