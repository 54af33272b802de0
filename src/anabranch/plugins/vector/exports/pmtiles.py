"""PMTiles of vector tiles, for maps, by GDAL.

Tiles hold a picture of the features: coordinates are on a grid, shapes are simpler at small scales, and features are
left out of tiles that would become too large. Dates, times, bytes, exact decimal numbers and JSON are text, and what
is no number (NaN) is null.
"""

import gzip
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from pmtiles.reader import MmapSource, Reader, all_tiles
from pmtiles.tile import Compression, TileType

from anabranch.errors import Permanent
from anabranch.plugins.vector.exports.copy_reader import GEOMETRY
from anabranch.plugins.vector.exports.expected import Bounds, Expected, check, shapes_of
from anabranch.plugins.vector.exports.gdal_writer import write_by_gdal
from anabranch.plugins.vector.exports.plain_types import replace_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.plugins.vector.models import Column

__all__ = ["choose_max_zoom", "verify_pmtiles", "write_pmtiles"]

MAX_ZOOM = 14
MAX_TILES = 16_384  # of the largest scale: the time and size of a file follow from these
MAX_LATITUDE = 85.051128
HEADER_LATITUDE = 85.0  # beyond which GDAL writes no bounds
BOUNDS_DEGREES = 1e-5


def choose_max_zoom(bounds: Bounds) -> int:
    """The largest scale at which tiles over these bounds are still few enough."""
    left, bottom, right, top = bounds
    width, height = (right - left) / 360, abs(_mercator(top) - _mercator(bottom))
    fitting = (zoom for zoom in range(MAX_ZOOM, 0, -1) if (width * 2**zoom + 1) * (height * 2**zoom + 1) <= MAX_TILES)
    return next(fitting, 0)


def write_pmtiles(
    source: Path, columns: "Sequence[Column]", target: Path, *, layer: str, geometry_type: str, max_zoom: int
) -> Path:
    """Write the rows of a COPY file as tiles of the scales 0 to `max_zoom`; GDAL keeps temporary files beside it."""
    return write_by_gdal(
        source, columns, target, _as_held, driver="PMTiles", layer=layer, geometry_type=geometry_type,
        MINZOOM="0", MAXZOOM=str(max_zoom), NAME=layer,
    )  # fmt: skip


def verify_pmtiles(path: Path, expected: Expected, *, layer: str, max_zoom: int) -> None:
    """Read every tile by a reader that is not GDAL; sampled points have a tile of the largest scale."""
    with path.open("rb") as file:
        source = MmapSource(file)
        reader = Reader(source)
        header = reader.header()
        check(path, "kind", (header["version"], header["tile_type"]), (3, TileType.MVT))
        if not header["addressed_tiles_count"] and _is_beyond_maps(expected):
            raise Permanent(
                f"the layer is wholly beyond {MAX_LATITUDE:.2f} degrees north or south, and no web map shows these",
                code="vector.export_values",
                remedy="Leave the format out.",
            )
        check(path, "scales", (header["min_zoom"], header["max_zoom"]), (0, max_zoom))
        check(path, "layers", [found["id"] for found in reader.metadata()["vector_layers"]], [layer])
        _check_bounds(path, header, expected)
        tiles = {place for place, data in all_tiles(source) if _is_whole(path, place, data, header["tile_compression"])}
        check(path, "tiles", len(tiles), header["addressed_tiles_count"])
    missing = [place for place in _sampled_tiles(expected, max_zoom) if place not in tiles]
    check(path, "tiles that are missing", missing, [])


def _is_beyond_maps(expected: Expected) -> bool:
    _, bottoms, _, tops = shapely.bounds(shapes_of(expected.sample[GEOMETRY])).T if expected.rows else np.zeros((4, 1))
    return bool(((bottoms > MAX_LATITUDE) | (tops < -MAX_LATITUDE)).all())


def _as_held(rows: pa.Table) -> pa.Table:
    """The rows in the types that tiles have."""
    rows = replace_columns(rows, [name for name in rows.schema.names if name != GEOMETRY])
    for place, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            numbers = rows[field.name]
            # GDAL takes a NaN for another value of the tile.
            rows = rows.set_column(place, field.name, pc.if_else(pc.is_nan(numbers), None, numbers))
    return rows


def _check_bounds(path: Path, header: dict[str, int], expected: Expected) -> None:
    if expected.bounds is None:
        return
    found = [header[name] / 1e7 for name in ("min_lon_e7", "min_lat_e7", "max_lon_e7", "max_lat_e7")]
    left, bottom, right, top = expected.bounds
    wanted = [left, max(bottom, -HEADER_LATITUDE), right, min(top, HEADER_LATITUDE)]
    if any(abs(one - other) > BOUNDS_DEGREES for one, other in zip(found, wanted, strict=True)):
        raise Permanent(f"{path.name}: bounds {found}, and not {wanted}", code="vector.export_wrong")


def _is_whole(path: Path, place: tuple[int, int, int], data: bytes, compression: Compression) -> bool:
    if not (gzip.decompress(data) if compression == Compression.GZIP else data):
        raise Permanent(f"{path.name}: tile {place} is empty", code="vector.export_wrong")
    return True


def _sampled_tiles(expected: Expected, zoom: int) -> set[tuple[int, int, int]]:
    """The tiles of the sample's points that a web map shows; small lines and areas may be left out of tiles."""
    if not expected.geometry_types <= {"Point", "Point Z"} or not expected.rows:
        return set()
    places = shapely.get_coordinates(shapes_of(expected.sample[GEOMETRY])).tolist()
    last = 2**zoom - 1
    return {
        (zoom, min(int((x + 180) / 360 * 2**zoom), last), min(int(_mercator(y) * 2**zoom), last))
        for x, y in places
        if abs(y) < MAX_LATITUDE
    }


def _mercator(latitude: float) -> float:
    """How far down a map of the world a latitude is, from 0 to 1."""
    radians = math.radians(max(min(latitude, MAX_LATITUDE), -MAX_LATITUDE))
    return min(max((1 - math.asinh(math.tan(radians)) / math.pi) / 2, 0), 1)
