"""GeoJSON, features in lines, and TopoJSON: scanned by us, then read by GDAL."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from anabranch.plugins.vector.models import MAX_SAMPLES, Notes, ReadOptions, SourceBatch, SourceLayer
from anabranch.plugins.vector.reading.choose import check_name, choose_layers
from anabranch.plugins.vector.reading.json.columns import OwnColumns, PropertyFacts
from anabranch.plugins.vector.reading.json.scan import (
    JsonFacts,
    read_features,
    require_properties,
    require_readable_whole,
    scan_json,
)
from anabranch.plugins.vector.reading.ogr import OgrFile, open_layer
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.redaction import show_text

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Rows

__all__ = ["open_json"]

GEOJSON_CRS = "OGC:CRS84"
# What GDAL reads the geometry of an object of TopoJSON from, by its type; it leaves out others.
_HELD = {
    **dict.fromkeys(("Point", "MultiPoint"), "coordinates"),
    **dict.fromkeys(("LineString", "MultiLineString", "Polygon", "MultiPolygon"), "arcs"),
}
_CODE = re.compile(r"^(?:urn:ogc:def:crs:)?(EPSG|ESRI|OGC|IAU_2015):(?:[\w.]*:)?(\w+)$", re.IGNORECASE)


def open_json(path: Path, options: ReadOptions, settings: VectorSettings) -> tuple[SourceLayer, ...]:
    """The layer of a GeoJSON file, or those of a TopoJSON file."""
    facts = scan_json(path, settings)
    if facts.kind == "topology":
        return _open_topology(path, facts, options, settings)
    name = str(facts.members.get("name") or "").replace("\0", "") or path.stem
    check_name(path.name, options.layer, [name])
    crs = _find_crs(facts)
    properties = facts.properties
    file = OgrFile(
        path,
        path.name,
        "GeoJSON",
        settings,
        find_unreadable=_Unreadable(facts, path, settings),
        id_column=properties.id_name if properties.ids_rise else None,
        own=OwnColumns(
            properties, lambda: read_features(path, settings), has_ids=properties.ids_rise or properties.ids_are_given
        ),
    )
    return (
        open_layer(
            file,
            name,
            crs=crs.code,
            crs_found=crs.found,
            no_crs=crs.no_crs,
            rows=facts.features,
            notices=crs.notices,
        ),
    )


@dataclass(frozen=True)
class _Crs:
    """The CRS of a file: its code and where it was found; of an unknown one an empty code, and why."""

    code: str
    found: str
    no_crs: str = SourceLayer.no_crs
    notices: tuple[str, ...] = ()


class _Unreadable:
    """Finds geometries that are not null in a file, and that GDAL does not read; the first few with their texts."""

    def __init__(self, facts: JsonFacts, path: Path, settings: VectorSettings) -> None:
        self._facts, self._path, self._settings = facts, path, settings
        self._left = MAX_SAMPLES

    def __call__(self, batch: pa.RecordBatch, rows: "Rows", places: "Rows") -> dict[int, str]:
        bad = places[np.isin(rows[places], np.array(self._facts.null_geometries, np.int64), invert=True)]
        found = dict.fromkeys(bad.tolist(), "")
        wanted = dict(zip(rows[bad[: self._left]].tolist(), bad.tolist(), strict=False))
        self._left -= len(wanted)
        features = islice(read_features(self._path, self._settings), max(wanted)) if wanted else ()
        for number, feature in enumerate(features, start=1):
            if number in wanted:
                found[wanted[number]] = show_text(json.dumps(feature.get("geometry"), ensure_ascii=False))
        return found


def _open_topology(
    path: Path, facts: JsonFacts, options: ReadOptions, settings: VectorSettings
) -> tuple[SourceLayer, ...]:
    require_readable_whole([path], path.name, "TopoJSON", settings)
    held = facts.members.get("objects")
    objects = held if isinstance(held, dict) else {}
    chosen, notices = choose_layers(path.name, [(name, True) for name in objects], options.layer, settings)
    crs = _find_crs(facts)
    crs = replace(crs, notices=(*crs.notices, *notices))
    file = OgrFile(path, path.name, "TopoJSON", settings)
    if not all(map(_is_collection, objects.values())):  # GDAL would make one layer of all that are none
        collections = {name: _make_collection(each) for name, each in objects.items()}
        file = replace(file, data=json.dumps({"type": "Topology", **facts.members, "objects": collections}).encode())
    layers = []
    for name in chosen:
        layers.append(_open_objects(file, name, objects[name], facts, crs))
        crs = replace(crs, notices=())
    return tuple(layers)


def _make_collection(each: object) -> object:
    return each if _is_collection(each) else {"type": "GeometryCollection", "geometries": [each]}


def _is_collection(each: object) -> bool:
    return isinstance(each, dict) and "geometries" in each


def _is_readable(each: object) -> bool:
    """Whether GDAL reads the geometry of an object."""
    return isinstance(each, dict) and isinstance(each.get(_HELD.get(str(each.get("type")), "")), list)


def _open_objects(file: OgrFile, name: str, held: Any, known: JsonFacts, crs: _Crs) -> SourceLayer:  # any JSON
    """The layer of an object: the members of a collection, or one geometry."""
    members = held["geometries"] if _is_collection(held) else [held]
    objects = members if isinstance(members, list) else []
    left_out: dict[str, list[int]] = {"null_geometry": [], "unreadable_geometry": []}
    facts, features = PropertyFacts(), []
    facts.may_have_nuls = known.properties.may_have_nuls
    for number, each in enumerate(objects, start=1):
        if _is_readable(each):
            require_properties(file.name, each, number)
            facts.add(each)
            features.append(each)
        else:
            is_null = isinstance(each, dict) and each.get("type") is None
            left_out["null_geometry" if is_null else "unreadable_geometry"].append(number)
    own = OwnColumns(facts, lambda: iter(features), has_ids=False)
    if not features:
        return _open_nothing(name, left_out, crs)
    return open_layer(
        replace(file, own=own),
        name,
        name,
        crs=crs.code,
        crs_found=crs.found,
        no_crs=crs.no_crs,
        rows=len(objects),
        left_out=left_out,
        notices=crs.notices,
    )


def _open_nothing(name: str, left_out: Mapping[str, list[int]], crs: _Crs) -> SourceLayer:
    """A layer of which nothing can be read."""

    def read(max_rows: int, dropped: Notes) -> Iterator[SourceBatch]:
        for reason, rows in left_out.items():
            dropped.add(reason, rows)
        return iter(())

    return SourceLayer(
        name,
        "TopoJSON",
        pa.schema([]),
        crs.code or None,
        read,
        crs_found=crs.found,
        no_crs=crs.no_crs,
        features=sum(map(len, left_out.values())),
        warnings=crs.notices,
    )


def _find_crs(facts: JsonFacts) -> _Crs:
    """The CRS that an old-style `crs` member names, or that of GeoJSON; unknown if the member names no code."""
    if "crs" not in facts.members:
        return _Crs(GEOJSON_CRS, "format")
    given = facts.members["crs"]
    named = given.get("properties") if isinstance(given, dict) and given.get("type") == "name" else None
    text = str(named.get("name")) if isinstance(named, dict) else ""
    if found := _CODE.match(text):
        return _Crs(f"{found[1].upper()}:{found[2]}", "file")
    what = f"the `crs` member ({show_text(text or json.dumps(given, ensure_ascii=False))}) names no code of a CRS"
    return _Crs("", "file", what, (f"{what[0].upper()}{what[1:]}, so that the CRS is unknown.",))
