"""KML and GML: scanned by us, then read by GDAL."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import ReadOptions, SourceLayer
from anabranch.plugins.vector.reading.choose import choose_layers
from anabranch.plugins.vector.reading.exact.gml import GmlValues
from anabranch.plugins.vector.reading.exact.kml import KmlValues, declare_texts
from anabranch.plugins.vector.reading.formats import KML, identify
from anabranch.plugins.vector.reading.json.scan import require_readable_whole
from anabranch.plugins.vector.reading.ogr import (
    OgrFile,
    count_features,
    find_types,
    list_indexed_layers,
    list_layers,
    open_layer,
)
from anabranch.plugins.vector.reading.xml_scan import XmlFacts, scan_xml
from anabranch.plugins.vector.settings import VectorSettings

__all__ = ["open_gml", "open_kml", "open_linked_kml"]

KML_CRS = "OGC:CRS84"
_HOLDERS = ("kml", "Document", "Folder")  # others hold changes of placemarks that another file has
_CORNERS = ("lowerCorner", "upperCorner")  # of the box around a feature, which GDAL takes for attributes
_LINKS = "Network links are not followed: what they name is not published."

_FINE = re.compile(rb"T[0-9:]{8}\.[0-9]{4,}[^<]*</(?:\w+:)?(?:when|begin|end)\s*>")
_TIMES = "Times are read to the millisecond: some have more digits."


def open_kml(
    path: Path, options: ReadOptions, settings: VectorSettings, *, is_first: bool = True
) -> tuple[SourceLayer, ...]:
    """The layers of a KML file: its folders that have placemarks. Of several files, only the first stays open."""
    require_readable_whole([path], path.name, "KML", settings)
    facts = scan_xml(path)
    placemarks = _count_placemarks(facts)
    if not placemarks:
        raise Permanent(
            f"{path.name} has no placemarks{_what_else(facts)}",
            code="vector.kml",
            remedy="Send a KML file with placemarks; ground overlays are pictures, and links are not followed.",
        )
    file = OgrFile(path, path.name, "KML", settings, keeps_open=is_first)
    held = list_layers(file)
    counts = {name: count_features(file, name) for name, has_geometry in held if has_geometry}
    places = {name: number for number, (name, _) in enumerate(held)}
    if (found := sum(counts.values())) != placemarks:
        raise Permanent(
            f"{path.name} has {placemarks:,} placemarks, and {found:,} of them can be read",
            code="vector.kml",
            remedy="Put all of them into one document or folder below the root element.",
        )
    layers = [(name, True) for name, count in counts.items() if count]
    chosen, notices = choose_layers(path.name, layers, options.layer, settings)
    given = path.read_bytes()
    text, mixed = declare_texts(given)
    declared = {name: find_types(file, places[name]) if text != given else {} for name in chosen}
    notices = (
        *notices,
        *((_LINKS,) if facts.names["NetworkLink"] else ()),
        *((_TIMES,) if _FINE.search(given) else ()),
    )
    return tuple(
        open_layer(
            replace(file, data=text if text != given else None, parse=partial(KmlValues, declared[name], mixed)),
            name,
            places[name],  # a document without a name has that of the file, which GDAL does not know here
            crs=KML_CRS,
            crs_found="format",
            rows=counts[name],
            notices=() if place else notices,
        )
        for place, name in enumerate(chosen)
    )


def open_linked_kml(
    name: str, main: Path, linked: Sequence[Path], options: ReadOptions, settings: VectorSettings
) -> tuple[SourceLayer, ...]:
    """The layers of a KMZ archive whose main file has links to others in it, as GDAL writes them."""
    every = options.model_copy(update={"layer": None})
    files = [path for path in (main, *linked) if identify(path) is KML and _count_placemarks(scan_xml(path))]
    require_readable_whole(files, name, "KML", settings)
    layers: list[SourceLayer] = []
    for path in files or [main]:
        for layer in open_kml(path, every, settings, is_first=not layers):
            layers.append(replace(layer, warnings=tuple(line for line in layer.warnings if line != _LINKS)))
    choose_layers(name, [(layer.name, True) for layer in layers], options.layer, settings)
    return tuple(layer for layer in layers if options.layer in (None, layer.name))


def _count_placemarks(facts: XmlFacts) -> int:
    return sum(facts.within[parent, "Placemark"] for parent in _HOLDERS)


def _what_else(facts: XmlFacts) -> str:
    kinds = {"GroundOverlay": "ground overlays", "NetworkLink": "network links", "PhotoOverlay": "photo overlays"}
    held = [title for name, title in kinds.items() if facts.names[name]]
    return f", only {' and '.join(held)}" if held else ""


def open_gml(path: Path, options: ReadOptions, settings: VectorSettings) -> tuple[SourceLayer, ...]:
    """The layers of a GML file: its types of features; no schema beside it or on the network is read."""
    facts = scan_xml(path)
    options_of_gml = {"WRITE_GFS": "NO", "DOWNLOAD_SCHEMA": "NO"}
    corners = frozenset(name for name in _CORNERS if facts.names[name] == facts.within["Envelope", name])
    file = OgrFile(path, path.name, "GML", settings, options=options_of_gml, parse=GmlValues, skipped=corners)
    layers = list_indexed_layers(file)
    chosen, notices = choose_layers(path.name, layers, options.layer, settings)
    return tuple(
        open_layer(file, name, name, rows=_count_members(facts, name), notices=() if place else notices)
        for place, name in enumerate(chosen)
    )


def _count_members(facts: XmlFacts, name: str) -> int | None:
    """How many features of a type there are, if all of its elements are in members of the root."""
    return facts.members[name] if 0 < facts.members[name] == facts.names[name] else None
