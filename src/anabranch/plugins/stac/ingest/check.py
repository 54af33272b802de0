"""Checks a document from elsewhere and gives it the form in which it is published (C1): pure functions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from anabranch.canonical import Json, JsonObject
from anabranch.errors import InputError
from anabranch.geo.boxes import ANTIMERIDIAN, POLE, Box
from anabranch.plugins.stac.collection import WORLD_EXTENT
from anabranch.plugins.stac.ingest.hrefs import Bases, keep_links, resolve_assets
from anabranch.plugins.stac.item import COLLECTION_LINK, STAC_VERSION
from anabranch.plugins.stac.names import check_collection_id, check_item_id
from anabranch.plugins.stac.validation import known_schemas, validate

__all__ = ["Rules", "check_collection", "check_item", "list_unknown_extensions"]

# Valid documents of STAC 1.0 are valid documents of 1.1.
VERSIONS = re.compile(r"1\.[01]\.\d+")
# Zones other than UTC are allowed by RFC 3339, but not by the schema of STAC 1.1.
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
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
    """The geometry and the box of a valid item are on the globe, and its rings are closed."""
    for line in _lines(item["geometry"]):
        for lon, lat, *_ in line:
            if not (abs(lon) <= ANTIMERIDIAN and abs(lat) <= POLE):
                raise _off_globe(f"geometry: the position {lon:.10g}, {lat:.10g}")
    box = Box.of(cast("list[float]", item["bbox"]))
    if max(abs(box.west), abs(box.east)) > ANTIMERIDIAN or not -POLE <= box.south <= box.north <= POLE:
        raise _off_globe(f"bbox: {', '.join(f'{side:.10g}' for side in box)}")


def _lines(geometry: Json) -> Iterator[Sequence[Sequence[float]]]:
    """The positions of a valid geometry, ring by ring; those of polygons are closed."""
    found = cast("dict[str, list[Json]]", geometry)
    for part in found.get("geometries", ()):
        yield from _lines(part)
    waiting: list[Any] = [found.get("coordinates", [])]  # positions in lists of lists, as deep as the type says
    while waiting:
        part = waiting.pop()
        if part and not isinstance(part[0], list):
            yield [part]
        elif part and part[0] and isinstance(part[0][0], list):
            waiting += part
        else:
            if "Polygon" in found["type"] and part[0] != part[-1]:
                raise InputError("ingest.place", "geometry: a ring is not closed", remedy="End it where it begins.")
            yield part


def _off_globe(what: str) -> InputError:
    remedy = "Use longitudes from -180 to 180 and latitudes from -90 to 90 (WGS 84), and cut at the antimeridian."
    return InputError("ingest.place", f"{what} is not on the globe", remedy=remedy)
