"""Checks the geometries and boxes of a search: whole, finite, on Earth, and not too many points."""

from collections.abc import Iterator, Sequence

from anabranch.geo.boxes import ANTIMERIDIAN, POLE
from anabranch.serving.stac.search.bounds import BOUNDS, is_finite, refuse

__all__ = ["check_bbox", "check_geometry"]

# The nesting depth of positions in the coordinates of each type.
LEVELS = {"Point": 0, "MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2, "MultiPolygon": 3}
COLLECTION = "GeometryCollection"
LINE_POSITIONS, RING_POSITIONS = 2, 4  # the fewest of a line, and of a ring with its first one repeated
VALID_RANGE = "Give longitudes from -180 to 180 and latitudes from -90 to 90; split geometries that cross 180 degrees."


def check_bbox(given: object) -> None:
    """Refuse a bbox that is not west, south, east, north in degrees, or the same with a height after each pair."""
    if not isinstance(given, list | tuple) or len(given) not in (4, 6) or not all(map(is_finite, given)):
        refuse("bbox must be 4 or 6 finite numbers", "Write it as west,south,east,north in degrees.")
    half = len(given) // 2
    low, high = given[:half], given[half:]
    if not _is_on_earth(low) or not _is_on_earth(high):
        refuse("bbox is outside the valid range", VALID_RANGE)
    if any(least > most for least, most in zip(low[1:], high[1:], strict=True)):
        refuse("bbox has its south above its north, or its lower height above its upper one", "Swap them.")


def check_geometry(given: object, where: str) -> None:
    """Refuse what is not a GeoJSON geometry on Earth, or has too many points."""
    for count, position in enumerate(_positions(given, where), 1):
        if count > BOUNDS.points:
            refuse(f"{where} has more than {BOUNDS.points:,} points", "Simplify it.")
        if not isinstance(position, list) or len(position) not in (2, 3) or not all(map(is_finite, position)):
            refuse(f"{where} has a position that is not 2 or 3 finite numbers", "Fix the geometry.")
        if not _is_on_earth(position):
            refuse(f"{where} has a position outside the valid range", VALID_RANGE)


def _is_on_earth(position: Sequence[float]) -> bool:
    return abs(position[0]) <= ANTIMERIDIAN and abs(position[1]) <= POLE


def _positions(given: object, where: str) -> Iterator[object]:
    kind = given.get("type") if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(kind, str) or kind not in (*LEVELS, COLLECTION):
        refuse(f"{where} is not a GeoJSON geometry", f"Its type is one of {', '.join(LEVELS)} and {COLLECTION}.")
    if kind != COLLECTION:
        yield from _flatten(given.get("coordinates"), kind, LEVELS[kind], where)
        return
    parts = given.get("geometries")
    if not isinstance(parts, list) or any(isinstance(part, dict) and part.get("type") == COLLECTION for part in parts):
        refuse(f"{where} is not a flat collection of geometries", "List them under `geometries`, none inside another.")
    for part in parts:
        yield from _positions(part, where)


def _flatten(coordinates: object, kind: str, levels: int, where: str) -> Iterator[object]:
    if levels == 0:
        yield coordinates
        return
    if not isinstance(coordinates, list):
        refuse(f"the coordinates of {where} are not nested as its type requires", "Fix the geometry.")
    if len(coordinates) > BOUNDS.points:
        refuse(f"{where} has more than {BOUNDS.points:,} points", "Simplify it.")
    if broken := _find_broken_rule(coordinates, kind, levels):
        refuse(f"{where} has a {kind} {broken}", "Fix the geometry.")
    for part in coordinates:
        yield from _flatten(part, kind, levels - 1, where)


def _find_broken_rule(coordinates: Sequence[object], kind: str, levels: int) -> str | None:
    """The rule of lines and rings that is broken; pgstac takes such a geometry for one that nothing intersects."""
    if not coordinates:
        return "without coordinates, and it must have some"
    if levels > 1 or not all(isinstance(position, list) for position in coordinates):
        return None
    if kind.endswith("LineString") and len(coordinates) < LINE_POSITIONS:
        return f"with a line of 1 position, and a line has at least {LINE_POSITIONS}"
    if kind.endswith("Polygon") and len(coordinates) < RING_POSITIONS:
        return f"with a ring of {len(coordinates)} positions, and a ring has at least {RING_POSITIONS}"
    if kind.endswith("Polygon") and coordinates[0] != coordinates[-1]:
        return "with a ring that is not closed: its last position must be its first"
    return None
