"""KML and GML: scanned by us, then read by GDAL."""

from pathlib import Path

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import ReadOptions, SourceLayer
from anabranch.plugins.vector.reading.choose import choose_layers
from anabranch.plugins.vector.reading.json_scan import require_readable_whole
from anabranch.plugins.vector.reading.ogr import OgrFile, list_indexed_layers, list_layers, open_layer
from anabranch.plugins.vector.reading.xml_scan import scan_xml
from anabranch.plugins.vector.settings import VectorSettings

__all__ = ["open_gml", "open_kml"]

MB = 2**20
KML_CRS = "OGC:CRS84"
_LINKS = "Network links are not followed: what they name is not published."


def open_kml(path: Path, options: ReadOptions, settings: VectorSettings) -> tuple[SourceLayer, ...]:
    """The layers of a KML file: its folders that have placemarks."""
    require_readable_whole(path, "KML", settings)
    names = scan_xml(path)
    if not names["Placemark"]:
        raise Permanent(
            f"{path.name} has no placemarks{_what_else(names)}",
            code="vector.kml",
            remedy="Send a KML file with placemarks; ground overlays are pictures, and links are not followed.",
        )
    file = OgrFile(path, path.name, "KML", settings)
    layers = [layer for layer in list_layers(file, skip_empty=True) if layer[1]]
    chosen, notices = choose_layers(path.name, layers, options.layer, settings)
    notices = (*notices, *((_LINKS,) if names["NetworkLink"] else ()))
    return tuple(
        open_layer(file, name, name, crs=KML_CRS, crs_found="format", notices=() if place else notices)
        for place, name in enumerate(chosen)
    )


def _what_else(names: dict[str, int]) -> str:
    kinds = {"GroundOverlay": "ground overlays", "NetworkLink": "network links", "PhotoOverlay": "photo overlays"}
    held = [title for name, title in kinds.items() if names.get(name)]
    return f", only {' and '.join(held)}" if held else ""


def open_gml(path: Path, options: ReadOptions, settings: VectorSettings) -> tuple[SourceLayer, ...]:
    """The layers of a GML file: its types of features; no schema beside it or on the network is read."""
    scan_xml(path)
    file = OgrFile(path, path.name, "GML", settings, options={"WRITE_GFS": "NO", "DOWNLOAD_SCHEMA": "NO"})
    layers = list_indexed_layers(file)
    chosen, notices = choose_layers(path.name, layers, options.layer, settings)
    return tuple(open_layer(file, name, name, notices=() if place else notices) for place, name in enumerate(chosen))
