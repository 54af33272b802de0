"""GeoJSON, features in lines, and TopoJSON: scanned by us, then read by GDAL."""

import re
from pathlib import Path

from anabranch.plugins.vector.models import ReadOptions, SourceLayer
from anabranch.plugins.vector.reading.choose import check_name, choose_layers
from anabranch.plugins.vector.reading.json_scan import JsonFacts, require_readable_whole, scan_json
from anabranch.plugins.vector.reading.ogr import OgrFile, list_layers, open_layer
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.redaction import show_text

__all__ = ["open_json"]

MB = 2**20
GEOJSON_CRS = "OGC:CRS84"
_CODE = re.compile(r"^(?:urn:ogc:def:crs:)?(EPSG|ESRI|OGC|IAU_2015):(?:[\w.]*:)?(\w+)$", re.IGNORECASE)


def open_json(path: Path, options: ReadOptions, settings: VectorSettings) -> tuple[SourceLayer, ...]:
    """The layer of a GeoJSON file, or those of a TopoJSON file."""
    facts = scan_json(path, settings)
    if facts.kind == "topology":
        return _open_topology(path, options, settings)
    name = str(facts.members.get("name") or "") or path.stem
    check_name(path.name, options.layer, [name])
    crs, found, notices = _find_crs(facts)
    ids = facts.ids and facts.features and "id" not in facts.names
    file = OgrFile(
        path,
        path.name,
        "GeoJSON",
        settings,
        id_column="id" if ids else None,
        text_columns=frozenset(name for name, kind in facts.types if kind is str),
    )
    layer = open_layer(file, name, crs=crs, crs_found=found, rows=facts.features, notices=(*notices, *_inexact(facts)))
    return (layer,)


def _open_topology(path: Path, options: ReadOptions, settings: VectorSettings) -> tuple[SourceLayer, ...]:
    require_readable_whole(path, "TopoJSON", settings)
    file = OgrFile(path, path.name, "TopoJSON", settings)
    chosen, notices = choose_layers(path.name, list_layers(file), options.layer, settings)
    return tuple(
        open_layer(file, name, name, notices=notices if not place else ()) for place, name in enumerate(chosen)
    )


def _find_crs(facts: JsonFacts) -> tuple[str | None, str, tuple[str, ...]]:
    """The CRS that an old-style `crs` member names, or that of GeoJSON; and what to say of it."""
    if "crs" not in facts.members:
        return GEOJSON_CRS, "format", ()
    given = facts.members["crs"]
    named = given.get("properties") if isinstance(given, dict) and given.get("type") == "name" else None
    text = str(named.get("name")) if isinstance(named, dict) else ""
    if found := _CODE.match(text):
        return f"{found[1].upper()}:{found[2]}", "member", ()
    said = f" ({show_text(text)})" if text else ""
    return None, "member", (f"The crs member{said} names no code, so that the CRS is unknown.",)


def _inexact(facts: JsonFacts) -> tuple[str, ...]:
    """Numbers that are read as floating point, since others of their property are, and have too many digits for it."""
    real = {name for name, kind in facts.types if kind is float}
    names = sorted(facts.inexact & real) + sorted(facts.too_large - real)
    shown = ", ".join(show_text(name) for name in names)
    return (f"Whole numbers with over 15 digits are rounded in: {shown}.",) if names else ()
