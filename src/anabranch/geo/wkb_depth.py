"""How deep the collections of WKB are nested: GEOS ends the process if they are nested too deep (S4)."""

import struct

__all__ = ["MAX_FLAT_BYTES", "is_too_deep"]

# GEOS calls itself for each level, and a stack holds some thousands of these calls.
MAX_DEPTH = 100
MAX_FLAT_BYTES = 9 * MAX_DEPTH  # a collection takes 9 bytes
EWKB_Z, EWKB_M, EWKB_SRID = 0x80000000, 0x40000000, 0x20000000
POINT, LINE, POLYGON = 1, 2, 3
CIRCULAR, TRIANGLE = 8, 17  # as lines and polygons are written
PARENTS = frozenset({4, 5, 6, 7, 9, 10, 11, 12, 15, 16})  # kinds whose parts are geometries


def is_too_deep(wkb: bytes) -> bool:
    """Whether collections are within collections too often; False also for what is no WKB, which GEOS refuses."""
    if len(wkb) <= MAX_FLAT_BYTES:
        return False
    position, left = 0, [1]
    try:
        while left:
            if left[-1] == 0:
                left.pop()
                continue
            left[-1] -= 1
            position, parts = _skip(wkb, position)
            left += [parts] if parts else []
            if len(left) > MAX_DEPTH:
                return True
    except (struct.error, IndexError):
        pass
    return False


def _skip(wkb: bytes, position: int) -> tuple[int, int]:
    """Where the coordinates of the geometry at a position end, and how many geometries follow that are parts of it."""
    order = "<" if wkb[position] else ">"
    (code,) = struct.unpack_from(f"{order}I", wkb, position + 1)
    dimensions = 2 + bool(code & EWKB_Z) + bool(code & EWKB_M) + (0, 1, 1, 2)[min(code % 0x10000 // 1000, 3)]
    kind, size = code % 0x10000 % 1000, 8 * dimensions
    position += 9 if code & EWKB_SRID else 5
    if kind == POINT:
        return position + size, 0
    (count,) = struct.unpack_from(f"{order}I", wkb, position)
    position += 4
    if kind in (LINE, CIRCULAR):
        return position + count * size, 0
    if kind in (POLYGON, TRIANGLE):
        for _ in range(count):
            (points,) = struct.unpack_from(f"{order}I", wkb, position)
            position += 4 + points * size
        return position, 0
    return (position, count) if kind in PARENTS else (len(wkb), 0)
