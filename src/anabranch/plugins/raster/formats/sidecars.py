"""What sidecars add to a raster: a geotransform, a CRS, a mask, and metadata of bands; the raster's own always wins."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from affine import Affine
from rasterio.crs import CRS
from rasterio.errors import CRSError
from rasterio.io import DatasetReader

from anabranch.errors import Permanent
from anabranch.geo.aux_xml import AuxMetadata, read_aux
from anabranch.geo.sidecar_names import SidecarKind
from anabranch.plugins.raster.checks.bands import fits, mask_kind
from anabranch.plugins.raster.files.reader import open_raster
from anabranch.plugins.raster.formats.contents import read_units
from anabranch.plugins.raster.models import Notice
from anabranch.redaction import show_text

__all__ = ["Additions", "read_additions"]

MAX_WORLD_BYTES = 4_096
MAX_WKT_CHARS = 16_384
MAX_WKT_DEPTH = 32
_WKT = re.compile(
    r"(PROJCS|GEOGCS|PROJCRS|PROJECTEDCRS|GEOGCRS|GEOGRAPHICCRS|GEODCRS|GEODETICCRS|BOUNDCRS|COMPD_CS)\s*[\[(]"
)


@dataclass
class Additions:
    """What is added to a raster, in words too, and notices of what is not."""

    transform: Affine | None = None
    crs: CRS | None = None
    mask: Path | None = None
    nodata: float | None = None
    descriptions: dict[int, str] = field(default_factory=dict)
    units: dict[int, str] = field(default_factory=dict)
    scales: dict[int, tuple[float, float]] = field(default_factory=dict)
    used: set[SidecarKind] = field(default_factory=set)
    applied: list[str] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def apply(self, kind: SidecarKind, what: str) -> None:
        """Note what is used of a sidecar."""
        self.used.add(kind)
        self.applied.append(what)

    def skip(self, path: Path, reason: str) -> None:
        """Note that a sidecar is not used."""
        code = "raster.mask_beside" if path.suffix.lower() == ".msk" else "raster.sidecar_unused"
        self.notices.append(
            Notice(code=code, message=f"{show_text(path.name)} beside the raster is not used: {reason}.")
        )


def read_additions(src: DatasetReader, sidecars: Mapping[SidecarKind, Path]) -> Additions:
    """What the sidecars of a raster add to it."""
    found = Additions()
    aux = _read_aux(found, sidecars.get("aux"))
    _add_transform(found, src, sidecars.get("world"), aux)
    _add_crs(found, src, sidecars.get("prj"), aux)
    _add_mask(found, src, sidecars.get("mask"))
    if aux is not None:
        _add_bands(found, src, aux)
    return found


def _add_transform(found: Additions, src: DatasetReader, world: Path | None, aux: AuxMetadata | None) -> None:
    needed = src.transform.is_identity and not src.gcps[0]
    if needed and world is not None:
        found.transform = _read_world(world)
        found.apply("world", f"the geotransform of {show_text(world.name)}")
    elif needed and aux is not None and (text := aux.values.get("GeoTransform")):
        found.transform = _read_geotransform(text)
        found.apply("aux", "the geotransform of .aux.xml")
    elif world is not None and not needed:
        theirs = _try_world(world)
        if theirs is None or not theirs.almost_equals(src.transform, 1e-3 * abs(src.transform.a)):
            found.skip(world, "the raster has a position of its own, and this one differs")


def _try_world(world: Path) -> Affine | None:
    try:
        return _read_world(world)
    except Permanent:
        return None


def _read_world(path: Path) -> Affine:
    """The geotransform of a world file: six numbers, of which the last two are the centre of the first pixel."""
    with path.open("rb") as file:
        lines = file.read(MAX_WORLD_BYTES).decode("ascii", "replace").split()
    try:
        a, d, b, e, c, f = (float(line) for line in lines)
    except ValueError as error:
        raise _refuse(f"{show_text(path.name)} has not six numbers, one in each line") from error
    if not all(map(math.isfinite, (a, d, b, e, c, f))) or a * e == b * d:
        raise _refuse(f"{show_text(path.name)} has no pixel size")
    return Affine(a, b, c, d, e, f) * Affine.translation(-0.5, -0.5)


def _read_geotransform(text: str) -> Affine:
    try:
        values = [float(part) for part in text.split(",")]
        return Affine.from_gdal(*values)
    except (ValueError, TypeError) as error:
        raise _refuse(f"the GeoTransform of .aux.xml has not six numbers: {show_text(text)}") from error


def _add_crs(found: Additions, src: DatasetReader, prj: Path | None, aux: AuxMetadata | None) -> None:
    if src.crs or src.gcps[0]:
        return
    if prj is not None:
        with prj.open("rb") as file:
            found.crs = _parse_wkt(file.read(MAX_WKT_CHARS + 1).decode("utf-8", "replace"))
        if found.crs is not None:
            found.apply("prj", f"the CRS of {show_text(prj.name)}")
            return
        found.skip(prj, "it is not the WKT of a CRS")
    if aux is not None and (text := aux.values.get("SRS")):
        found.crs = _parse_wkt(text)
        if found.crs is not None:
            found.apply("aux", "the CRS of .aux.xml")


def _parse_wkt(text: str) -> CRS | None:
    """The CRS of a WKT, which reaches no parser but that of WKT; None where it is none."""
    text = text.strip().lstrip("\ufeff")
    depth = deepest = 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        deepest = max(deepest, depth)
    if not _WKT.match(text) or len(text) > MAX_WKT_CHARS or deepest > MAX_WKT_DEPTH:
        return None
    try:
        return CRS.from_wkt(text)
    except CRSError:
        return None


def _add_mask(found: Additions, src: DatasetReader, mask: Path | None) -> None:
    if mask is None:
        return
    if mask_kind(src) != "none":
        found.skip(mask, "the raster says itself which pixels are valid")
        return
    try:
        theirs = open_raster(mask)
    except Permanent as error:
        found.skip(mask, error.message)
        return
    with theirs:
        if (theirs.width, theirs.height) != (src.width, src.height):
            raise _refuse(
                f"{show_text(mask.name)} has {theirs.width} x {theirs.height} pixels,"
                f" and the raster {src.width} x {src.height}"
            )
        if theirs.count != 1:
            found.skip(mask, f"it has {theirs.count} bands, and a COG has one mask for all bands")
            return
    found.mask = mask
    found.apply("mask", f"the mask of {show_text(mask.name)}")


def _read_aux(found: Additions, path: Path | None) -> AuxMetadata | None:
    if path is None:
        return None
    try:
        aux = read_aux(path)
    except ValueError as error:
        found.skip(path, str(error))
        return None
    if aux.unused:
        found.skip(path, f"of its elements {', '.join(sorted(aux.unused)[:8])}")
    return aux


def _add_bands(found: Additions, src: DatasetReader, aux: AuxMetadata) -> None:
    units = read_units(src)
    for index in src.indexes:
        values = aux.bands[index].values if index in aux.bands else {}
        if values.get("Description") and not src.descriptions[index - 1]:
            found.descriptions[index] = show_text(values["Description"])
        if values.get("UnitType") and not units[index - 1]:
            found.units[index] = show_text(values["UnitType"])
        scale, offset = _number(values.get("Scale", "1")), _number(values.get("Offset", "0"))
        own = (src.scales[index - 1], src.offsets[index - 1])
        if own == (1, 0) and (scale, offset) != (1, 0) and scale and offset is not None:
            found.scales[index] = (scale, offset)
    if found.descriptions or found.units or found.scales:
        found.apply("aux", "names, units and scales of bands of .aux.xml")
    nodata = {values["NoDataValue"] for band in aux.bands.values() if "NoDataValue" in (values := band.values)}
    if len(nodata) == 1 and mask_kind(src) == "none" and found.mask is None:
        value = _number(nodata.pop(), finite=False)
        if value is not None and fits(value, src.dtypes[0]):
            found.nodata = value
            found.apply("aux", "the nodata value of .aux.xml")


def _number(text: str, *, finite: bool = True) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) or not finite else None


def _refuse(message: str) -> Permanent:
    return Permanent(message, code="raster.sidecar", remedy="Fix the file, or leave it out.")
