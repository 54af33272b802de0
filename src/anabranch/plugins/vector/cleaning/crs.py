"""The CRS of a layer: named by code or WKT, checked before any parser sees it, and resolved first (R1, S2)."""

import re
from dataclasses import dataclass

from pyproj import CRS
from pyproj.exceptions import CRSError

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import ReadOptions, SourceLayer

__all__ = ["CRS_PATTERN", "WGS84", "SourceCrs", "missing_crs", "resolve_crs"]

CRS_PATTERN = r"^(EPSG|ESRI|OGC|IAU_2015):[A-Za-z0-9_]{1,32}$"
MAX_WKT_CHARS = 32_768
MIN_CONFIDENCE = 70
WGS84 = CRS.from_epsg(4326)
_CODE = re.compile(CRS_PATTERN)
# PROJ opens the files that these name. GDAL writes the one without a file for EPSG:3857.
_FILES = re.compile(r"PARAMETERFILE|PROJ4_GRIDS|(grids|file|model|init|catalog)\s*=(?!@null)", re.IGNORECASE)
_UNDEFINED = re.compile(r"^\s*[A-Z_]+\s*\[\s*\"undefined ", re.IGNORECASE)  # GeoPackage's layers without a CRS
_HOW = "Give a code like EPSG:25832 as `crs`."


@dataclass(frozen=True)
class SourceCrs:
    """The CRS of a layer's coordinates, without heights, and what it was found by; None where values must show it."""

    crs: CRS | None
    found: str
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its code, or its name where it has none."""
        return _name(self.crs or WGS84)


def resolve_crs(layer: SourceLayer, options: ReadOptions) -> SourceCrs:
    """The file's CRS, or the caller's where the file has none; an error where both exist and differ."""
    asked = _check_kind(_parse_code(options.crs, "`crs`"), "`crs`") if options.crs else None
    found, where = _parse_found(layer), "the file's CRS"
    if found is not None and layer.crs_found == "file":
        if asked is None:
            return SourceCrs(_check_kind(found, where), "file")
        if found.is_engineering:
            return SourceCrs(asked, "caller", (f"The file has a local CRS; {options.crs} from `crs` is used.",))
        if not _same(_check_kind(found, where), asked):
            raise _conflict(found, asked)
        return SourceCrs(asked, "file")
    if asked is not None:
        return SourceCrs(asked, "caller", _overridden(layer, found, asked))
    if found is not None or layer.crs_found == "columns":
        return SourceCrs(_check_kind(found or WGS84, where), layer.crs_found)
    return SourceCrs(None, "values")


def missing_crs(what: str, why: str) -> Permanent:
    """The error of a layer without a CRS, whose values don't show one either."""
    return Permanent(
        f"{what}, and {why}, so that its values don't show that they are degrees",
        code="vector.crs_missing",
        remedy="Set `crs` to the CRS of its coordinates, like EPSG:25832.",
    )


def _parse_found(layer: SourceLayer) -> CRS | None:
    text = (layer.crs or "").strip()
    if not text or _UNDEFINED.match(text):
        return None
    return _parse_code(text, "the file's CRS") if _CODE.fullmatch(text) else _parse_wkt(text)


def _parse_code(text: str, what: str) -> CRS:
    if not _CODE.fullmatch(text):
        raise Permanent(f"{what} is not the code of a CRS", code="vector.crs_text", remedy=_HOW)
    try:
        return CRS.from_string(text)
    except CRSError as error:
        raise Permanent(f"{what} {text} is not known", code="vector.crs_unknown", remedy=_HOW) from error


def _parse_wkt(text: str) -> CRS:
    remedy = "Write the CRS into the file by its code, or remove it there and set `crs`."
    if len(text) > MAX_WKT_CHARS or _FILES.search(text):
        why = f"is longer than {MAX_WKT_CHARS} characters" if len(text) > MAX_WKT_CHARS else "names a file of a grid"
        raise Permanent(f"the file's CRS {why}", code="vector.crs_text", remedy=remedy)
    try:
        return CRS.from_wkt(text)
    except CRSError as error:
        raise Permanent("the file's CRS is not readable as WKT", code="vector.crs_text", remedy=remedy) from error


def _check_kind(crs: CRS, what: str) -> CRS:
    """The CRS without heights, if it has positions on a map."""
    if crs.is_engineering:
        raise Permanent(
            f"{what} ({crs.name[:60]}) is local, so it has no place on a map",
            code="vector.crs_local",
            remedy="Set `crs` to the CRS of its coordinates, like EPSG:25832.",
        )
    if not (crs.is_geographic or crs.is_projected):
        raise Permanent(
            f"{what} ({crs.name[:60]}) is a {crs.type_name}, which is neither geographic nor projected",
            code="vector.crs_kind",
            remedy="Give the code of a projected or geographic CRS, like EPSG:25832 or EPSG:4326.",
        )
    if crs.is_compound:
        crs = crs.sub_crs_list[0]
    return crs.to_2d()


def _same(found: CRS, asked: CRS) -> bool:
    return found.equals(asked, ignore_axis_order=True) or _name(found) == _name(asked)


def _name(crs: CRS) -> str:
    if crs.equals(WGS84, ignore_axis_order=True):
        return "EPSG:4326"
    code = crs.to_authority(min_confidence=MIN_CONFIDENCE)
    return ":".join(code) if code else crs.name


def _conflict(found: CRS, asked: CRS) -> Permanent:
    return Permanent(
        f"the layer is in {_name(found)}, but `crs` is {_name(asked)}",
        code="vector.crs_conflict",
        remedy="Remove `crs`; if the file is wrong, correct its CRS there.",
    )


def _overridden(layer: SourceLayer, found: CRS | None, asked: CRS) -> tuple[str, ...]:
    if found is None or _same(found, asked):
        return ()
    return (f"{layer.format} has {_name(found)} by default; {_name(asked)} from `crs` is used.",)
