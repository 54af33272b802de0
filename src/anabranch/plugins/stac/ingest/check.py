"""Checks a document from elsewhere and gives it the form in which it is published (C1): pure functions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from anabranch.canonical import Json, JsonObject
from anabranch.errors import InputError
from anabranch.geo.boxes import ANTIMERIDIAN, FULL_TURN, POLE, Box
from anabranch.plugins.stac.collection import WORLD_EXTENT
from anabranch.plugins.stac.ingest.hrefs import Bases, keep_links, resolve_assets
from anabranch.plugins.stac.item import COLLECTION_LINK, STAC_VERSION
from anabranch.plugins.stac.names import check_collection_id, check_item_id
from anabranch.plugins.stac.validation.validate import known_schemas, validate

__all__ = ["Rules", "check_collection", "check_item", "list_unknown_extensions"]

# Valid documents of STAC 1.0 are valid documents of 1.1.
VERSIONS = re.compile(r"1\.[01]\.\d+")
# Zones other than UTC are allowed by RFC 3339, but not by the schema of STAC 1.1.
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
NEAR_DEGREES, NEAR_SHARE = 0.1, 0.1  # how far a geometry may reach beyond its box: a distance, and a share of its size
PGSTAC_KEY = "pgstac:base_item"  # of pgstac's own form of an item


@dataclass(frozen=True)
class Rules:
    """How an ingest treats all of its items."""

    collection: str | None = None
    """All items join this one."""
    accept_unknown: bool = True
    """Whether extensions are accepted whose schemas are not known here."""
    bases: Bases = field(default_factory=Bases)


def check_item(document: Mapping[str, Json], rules: Rules, file: str = "") -> JsonObject:
    """The item as it is published; InputError says what is wrong."""
    _check_kind(document, "Feature")
    collection = rules.collection or document.get("collection")
    if collection is None:
        raise InputError("ingest.no_collection", "the item names no collection", remedy="Give `collection`.")
    if document.get("geometry") is None:
        raise InputError("ingest.place", "the item has no geometry", remedy="Give its footprint.")
    base = rules.bases.find(document, file)
    links = keep_links(document, base)
    item: JsonObject = {
        **{key: value for key, value in document.items() if key != PGSTAC_KEY},
        "stac_version": STAC_VERSION,
        "id": check_item_id(str(document.get("id", ""))),
        "collection": check_collection_id(str(collection)),
        "links": [COLLECTION_LINK, *links] if isinstance(links, list) else links,
        "assets": resolve_assets(document.get("assets"), base),
    }
    _check_times(item)
    validate(item, accept_unknown=rules.accept_unknown)
    _check_place(item)
    return item


def check_collection(document: Mapping[str, Json], rules: Rules, file: str = "") -> JsonObject:
    """The collection as it is published, with the extent of none: that is always of its items (C2)."""
    _check_kind(document, "Collection")
    base = rules.bases.find(document, file)
    collection: JsonObject = {
        **document,
        "stac_version": STAC_VERSION,
        "id": check_collection_id(str(document.get("id", ""))),
        "links": keep_links(document, base),
        "extent": WORLD_EXTENT,
        **({"assets": resolve_assets(document["assets"], base)} if "assets" in document else {}),
    }
    validate(collection, accept_unknown=rules.accept_unknown)
    return collection


def list_unknown_extensions(document: Mapping[str, Json]) -> list[str]:
    """The extensions of a valid document whose schemas are not known here."""
    declared = document.get("stac_extensions")
    return [str(uri) for uri in declared if uri not in known_schemas()] if isinstance(declared, list) else []


def _check_kind(document: Mapping[str, Json], kind: str) -> None:
    if document.get("type") != kind:
        shown = ascii(str(document.get("type"))[:80])
        raise InputError("ingest.not_stac", f"the type is {shown}, not {kind}", remedy=f"Give a STAC {kind}.")
    version = document.get("stac_version")
    if not isinstance(version, str) or not VERSIONS.fullmatch(version):
        shown = ascii(str(version)[:80])
        remedy = "Upgrade it to STAC 1.0 or 1.1, with pystac for example."
        raise InputError("ingest.version", f"the STAC version is {shown}, neither 1.0 nor 1.1", remedy=remedy)


def _check_times(item: Mapping[str, Json]) -> None:
    properties = item.get("properties")
    if not isinstance(properties, dict):
        return
    moment, start, end = (_read_time(properties, key) for key in ("datetime", "start_datetime", "end_datetime"))
    if moment is None and (start is None or end is None):
        remedy = "Give `datetime`, or null with `start_datetime` and `end_datetime`."
        raise InputError("ingest.time", "the item has neither a datetime nor an interval", remedy=remedy)
    if start and end and start > end:
        raise InputError("ingest.time", "start_datetime is after end_datetime", remedy="Swap or correct them.")


def _read_time(properties: Mapping[str, Json], key: str) -> datetime | None:
    value = properties.get(key)
    if value is None:
        return None
    try:
        if isinstance(value, str) and RFC_3339.fullmatch(value):
            return datetime.fromisoformat(value.upper())
    except ValueError:
        pass
    what = f"properties.{key}: {str(value)[:80]!a} is not a time"
    raise InputError("ingest.time", what, remedy="Write it as RFC 3339 says, like 2024-05-01T10:30:00Z.")


def _check_place(item: JsonObject) -> None:
    """The geometry and the box of a valid item are on the globe and in the same place, and its rings are closed."""
    box = Box.of(cast("list[float]", item["bbox"]))
    far = None
    for line in _lines(item["geometry"]):
        for lon, lat, *_ in line:
            if not (abs(lon) <= ANTIMERIDIAN and abs(lat) <= POLE):
                raise _off_globe(f"geometry: the position {lon:.10g}, {lat:.10g}")
            inside = box.west <= lon <= box.east and box.south <= lat <= box.north
            if not inside and far is None and not _is_near(box, lon, lat):
                far = lon, lat
    shown = ", ".join(f"{side:.10g}" for side in box)
    if max(abs(box.west), abs(box.east)) > ANTIMERIDIAN or not -POLE <= box.south <= box.north <= POLE:
        raise _off_globe(f"bbox: {shown}")
    if far:
        what = f"bbox: {shown} is far from the geometry, which has the position {far[0]:.10g}, {far[1]:.10g}"
        remedy = "Give the box around the geometry: west, south, east, north; west is greater than east across 180."
        raise InputError("ingest.place", what, remedy=remedy)


def _is_near(box: Box, lon: float, lat: float) -> bool:
    """Whether a position is in a box or close to it: many boxes are rounded, or drawn around something else."""
    width = box.east - box.west + FULL_TURN * box.crosses
    near = NEAR_DEGREES + NEAR_SHARE * max(width, box.north - box.south)
    east_of_west = (lon - box.west + near) % FULL_TURN  # both sides of the antimeridian are one
    return box.south - near <= lat <= box.north + near and east_of_west <= width + 2 * near


def _lines(geometry: Json) -> Iterator[Sequence[Sequence[float]]]:
    """The positions of a valid geometry, ring by ring; those of polygons are closed."""
    found = cast("dict[str, list[Json]]", geometry)
    for part in found.get("geometries", ()):
        yield from _lines(part)
    waiting: list[Any] = (
        [found["coordinates"]] if "coordinates" in found else []
    )  # positions in lists of lists, as deep as the type says
    while waiting:
        part = waiting.pop()
        if not part:
            raise InputError("ingest.place", "geometry: it has no positions", remedy="Give the item's footprint.")
        if not isinstance(part[0], list):
            yield [part]
        elif not part[0] or isinstance(part[0][0], list):
            waiting += part
        else:
            if "Polygon" in found["type"] and part[0] != part[-1]:
                raise InputError("ingest.place", "geometry: a ring is not closed", remedy="End it where it begins.")
            yield part


def _off_globe(what: str) -> InputError:
    remedy = "Use longitudes from -180 to 180 and latitudes from -90 to 90 (WGS 84), and cut at the antimeridian."
    return InputError("ingest.place", f"{what} is not on the globe", remedy=remedy)
