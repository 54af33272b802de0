"""Coordinate reference systems: named by code, checked before any parser sees them, resolved first (R1, S2)."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.crs import CRS
from rasterio.errors import CRSError, RasterioError
from rasterio.warp import transform

from anabranch.errors import Permanent
from anabranch.geo.crs_codes import CRS_PATTERN
from anabranch.geo.degrees import WGS84, transform_points
from anabranch.plugins.raster.models import Notice, Repairs

__all__ = ["Resolved", "coincide", "describe_crs", "name_crs", "parse_crs", "resolve_crs"]


class CoordinateSystem(TypedDict, total=False):
    """A coordinate system in PROJJSON."""

    axis: list[object]


class Projjson(TypedDict, total=False):
    """A CRS as PROJJSON: the keys that are read here; the schema has more."""

    type: str
    area: str
    bbox: dict[str, float]
    coordinate_system: CoordinateSystem
    base_crs: "Projjson"
    id: object


_CODE = re.compile(CRS_PATTERN)
_HOW = "Give a code like EPSG:32633."
_UNFIT = {"GeodeticCRS": "geocentric", "VerticalCRS": "vertical", "CompoundCRS": "compound"}  # types of PROJJSON


@dataclass(frozen=True)
class Resolved:
    """The CRS of a raster, and the repairs that it needs."""

    crs: CRS
    repairs: Repairs
    notices: tuple[Notice, ...] = ()


def parse_crs(text: str, what: str) -> CRS:
    """A CRS by its code; a caller's text never reaches a parser that could fetch or read files."""
    if not _CODE.fullmatch(text):
        raise Permanent(f"{what} is not the code of a CRS", code="raster.crs_text", remedy=_HOW)
    try:
        found = CRS.from_string(text)
    except CRSError as error:
        raise Permanent(f"{what} {text} is not known", code="raster.crs_unknown", remedy=_HOW) from error
    if kind := _UNFIT.get(describe_crs(found).get("type", "")):
        raise Permanent(
            f"{what} {text} is a {kind} CRS, which no raster can have",
            code="raster.crs_kind",
            remedy="Give the code of a projected or geographic CRS, like EPSG:32633 or EPSG:4326.",
        )
    return found


def resolve_crs(found: CRS | None, given: str | None) -> Resolved:
    """The file's CRS, or the given one where the file has none; an error where both exist and differ."""
    asked = parse_crs(given, "input_crs") if given else None
    if found and (flat := _flatten(found)):
        return _without_heights(flat, asked, given)
    if found and _is_on_earth(found):
        if asked and not _same(found, asked):
            raise _conflict(found, asked)
        return Resolved(found, Repairs())
    if asked is None:
        raise _local(found) if found else _missing()
    if not _is_on_earth(asked):
        raise _local(asked)
    return Resolved(asked, Repairs(crs=given), (_taken(found, given or ""),))


def name_crs(crs: CRS) -> str:
    """The code of a CRS, like EPSG:32633; empty where it has none."""
    authority = crs.to_authority()
    return ":".join(authority) if authority else ""


def coincide(first: CRS, second: CRS, points: Sequence[tuple[float, float]], tolerance: float) -> bool:
    """Whether points have the same coordinates in both CRSs."""
    return np.allclose(np.transpose(transform_points(first, second, points)), points, rtol=0, atol=tolerance)


def _same(found: CRS, asked: CRS) -> bool:
    return bool(found == asked) or (found.to_epsg() is not None and found.to_epsg() == asked.to_epsg())


def describe_crs(crs: CRS) -> Projjson:
    """A CRS as PROJJSON; empty where it can't be written so."""
    try:
        found: Projjson = crs.to_dict(projjson=True)
        return found
    except (CRSError, CPLE_BaseError):
        return {}


def _is_on_earth(crs: CRS) -> bool:
    if not (crs.is_geographic or crs.is_projected):
        return False
    try:
        transform(crs, WGS84, [0.0], [0.0])
    except (RasterioError, CPLE_BaseError) as error:
        # The origin may lie outside the area of a projection; that does not make the CRS local.
        return "find coordinate operations" not in str(error)
    return True


def _missing() -> Permanent:
    return Permanent(
        "the raster has no CRS",
        code="raster.crs_missing",
        remedy="Set `input_crs` to the CRS of its coordinates, like EPSG:32633.",
    )


def _flatten(crs: CRS) -> CRS | None:
    """A projected CRS without its height axis, which a COG can't store; None where it has no such axis."""
    said = describe_crs(crs)
    axes = said.get("coordinate_system", {}).get("axis", [])
    if said.get("type") != "ProjectedCRS" or len(axes) != 3:
        return None
    said["coordinate_system"]["axis"] = axes[:2]
    base = said["base_crs"]
    base.pop("id", None)
    if "coordinate_system" in base:
        base["coordinate_system"] |= {"axis": base["coordinate_system"]["axis"][:2]}
    return CRS.from_string(json.dumps(said))


def _without_heights(flat: CRS, asked: CRS | None, given: str | None) -> Resolved:
    code = flat.to_epsg()
    if asked and code and asked.to_epsg() != code:
        raise _conflict(flat, asked)
    taken = given or (f"EPSG:{code}" if code else None)
    if taken is None:
        raise _heights()
    message = f"The file's CRS has a height axis, which is dropped; {taken} is used."
    notice = Notice(code="raster.crs_heights", message=message)
    return Resolved(parse_crs(taken, "input_crs"), Repairs(crs=taken), (notice,))


def _heights() -> Permanent:
    return Permanent(
        "the raster's CRS is projected and has a height axis, which a raster can't have",
        code="raster.crs_heights",
        remedy="Set `input_crs` to the same CRS without heights, like EPSG:32633; "
        "or write it into the file with `gdal_edit.py -a_srs EPSG:32633 FILE`.",
    )


def _local(crs: CRS) -> Permanent:
    return Permanent(
        f"the raster's CRS is neither geographic nor projected, so it has no place on a map: {crs.to_wkt()[:60]}…",
        code="raster.crs_local",
        remedy="Set `input_crs` to the CRS of its coordinates, or georeference the raster.",
    )


def _conflict(found: CRS, asked: CRS) -> Permanent:
    return Permanent(
        f"the raster is in {name_crs(found) or found.to_wkt()[:60]}, but input_crs is {name_crs(asked)}",
        code="raster.crs_conflict",
        remedy="Remove `input_crs`; to change the CRS of the output, set `target_crs`.",
    )


def _taken(found: CRS | None, given: str) -> Notice:
    why = "has a local CRS" if found else "has no CRS"
    return Notice(code="raster.crs_given", message=f"The file {why}; {given} from input_crs is used.")
