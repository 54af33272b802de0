"""The handlers of the plugin."""

from typing import Annotated

from pydantic import Field

from anabranch import Context, handler
from anabranch_geohash.settings import GeohashSettings

__all__ = ["encode", "encode_point"]

ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz"

Longitude = Annotated[float, Field(ge=-180, le=180)]
Latitude = Annotated[float, Field(ge=-90, le=90)]


@handler("geohash.encode", quick=True)
def encode_point(lon: Longitude, lat: Latitude, *, ctx: Context) -> str:
    """The geohash of a point."""
    return encode(lon, lat, ctx.settings(GeohashSettings).geohash_length)


def encode(lon: float, lat: float, length: int) -> str:
    """The geohash of a point: five bits for each character, of longitude and latitude in turns."""
    ranges, values = [[-180.0, 180.0], [-90.0, 90.0]], (lon, lat)
    bits = 0
    for place in range(5 * length):
        bounds, value = ranges[place % 2], values[place % 2]
        middle = sum(bounds) / 2
        upper = value >= middle
        bounds[0 if upper else 1] = middle
        bits = 2 * bits + upper
    return "".join(ALPHABET[bits >> 5 * place & 31] for place in reversed(range(length)))
