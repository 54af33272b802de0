"""Which codes of coordinate reference systems exist, from the database that GDAL uses; GDAL itself is not imported."""

import sqlite3
from contextlib import closing
from functools import cache
from importlib.util import find_spec
from pathlib import Path

__all__ = ["explain_code"]

UNFIT_KINDS = ("geocentric", "vertical", "compound")


def explain_code(text: str) -> str | None:
    """Why no raster can have the CRS of this code, like EPSG:25832; None if one can, or if there is no database."""
    kinds, (authority, code) = _read_kinds(), text.split(":")
    wanted = code.lstrip("0").upper()
    kind = kinds.get((authority, wanted)) or kinds.get(("ESRI", wanted))  # GDAL knows ESRI's by EPSG:102100, too
    if not kinds or kind not in (None, *UNFIT_KINDS):
        return None
    return f"{text} is a {kind} CRS, which no raster can have" if kind else f"there is no CRS {text}"


@cache
def _read_kinds() -> dict[tuple[str, str], str]:
    """The kind of each CRS by authority and code; none where the wheel of rasterio brings no database."""
    package = find_spec("rasterio")
    file = Path(package.origin or "").parent / "proj_data" / "proj.db" if package else None
    if file is None or not file.is_file():
        return {}
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        rows = database.execute("select auth_name, code, type from crs_view").fetchall()
    return {(authority, str(code).upper()): kind for authority, code, kind in rows}
