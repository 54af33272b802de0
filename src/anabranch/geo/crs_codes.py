"""Which codes of coordinate reference systems exist, from the database that GDAL uses; GDAL itself is not imported."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from importlib.util import find_spec
from pathlib import Path

__all__ = ["CRS_PATTERN", "check_crs", "explain_code"]

# What a parser of CRSs may see of a caller: names and URLs would be looked up.
CRS_PATTERN = r"^(EPSG|ESRI|OGC|IAU_2015):[A-Za-z0-9_]{1,32}$"

UNFIT_KINDS = ("geocentric", "vertical", "compound")


def check_crs(text: str | None) -> str | None:
    """The code of a CRS that data can have, for validators of requests; ValueError says what is wrong with it."""
    if text is not None and not re.fullmatch(CRS_PATTERN, text):
        raise ValueError(f"{text[:80]!r} is not the code of a CRS. Write it like EPSG:25832")
    if text is not None and (wrong := explain_code(text)):
        raise ValueError(f"{wrong}. Write the code of a projected or geographic one, like EPSG:25832")
    return text


def explain_code(text: str) -> str | None:
    """Why no data can have the CRS of this code, like EPSG:25832; None if one can, or if there is no database."""
    kinds, (authority, code) = _read_kinds(), text.split(":")
    wanted = code.lstrip("0").upper()
    kind = kinds.get((authority, wanted)) or kinds.get(("ESRI", wanted))  # GDAL knows ESRI's by EPSG:102100, too
    if not kinds or kind not in (None, *UNFIT_KINDS):
        return None
    return f"{text} is a {kind} CRS, which no raster or layer can have" if kind else f"there is no CRS {text}"


@cache
def _read_kinds() -> dict[tuple[str, str], str]:
    """The kind of each CRS by authority and code; none where no installed wheel brings a database."""
    file = next(filter(Path.is_file, _find_databases()), None)
    if file is None:
        return {}
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        rows = database.execute("select auth_name, code, type from crs_view").fetchall()
    return {(authority, str(code).upper()): kind for authority, code, kind in rows}


def _find_databases() -> Iterator[Path]:
    for package, folder in (("rasterio", "proj_data"), ("pyproj", "proj_dir/share/proj")):
        if spec := find_spec(package):
            yield Path(spec.origin or "").parent / folder / "proj.db"
