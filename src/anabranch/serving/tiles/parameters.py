"""Checks the query parameters of raster routes: known names, finite numbers, bounded sizes."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping

from fastapi import Request

from anabranch.canonical import decode
from anabranch.errors import InputError, NotFound
from anabranch.serving.parameters import refuse_unknown
from anabranch.serving.tiles.colormap import check_colormap
from anabranch.serving.tiles.rescale import MAX_BANDS

__all__ = ["check_parameters"]

# The largest images to compute at once; the defaults are far smaller.
MAX_PIXELS = {"tilesize": 1024, "width": 2048, "height": 2048, "max_size": 2048}
MAX_STATISTICS_PIXELS = 1024  # for statistics: sorting and counting takes many times the memory of the values
TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
MIN_PIXELS = 1  # the reader takes 0 as no limit
MAX_REPEATS = {"bidx": MAX_BANDS, "c": 64, "p": 64, "rescale": 64}
# Every operation of a formula and every color is applied to all pixels.
MAX_CHARS = {"color_formula": 256, "colormap": 8192, "histogram_bins": 8192}
# Of a search, which has limits of its own.
MAX_CHARS |= dict.fromkeys(("collections", "ids", "filter"), 8192)
MAX_OTHER_CHARS = 256
MAX_BINS = 1024
MAX_ZOOM = 30  # at which a tile is 4 cm wide
MAX_LONGITUDE, MAX_LATITUDE = 360.0, 90.0  # a longitude may be counted from either side of 180
NODATA_WORDS = ("nan", "inf", "-inf")  # that a raster may have as nodata
SEE_API = "The parameters of each route are described at /openapi.json."
ASK_FOR_LESS = "Request less, or split the request."


def check_parameters(request: Request, known: Collection[str]) -> None:
    """Refuse unknown parameters and values out of range; the route itself checks how values are written."""
    query = request.query_params
    refuse_unknown(query.keys(), known, "raster.query")
    _check_tile(request.path_params)
    for name, value in (*query.multi_items(), *request.path_params.items()):
        _check_length(name, value)
        if check := CHECKS.get(name):
            check(name, value)
    _check_sizes(request)


def _check_length(name: str, value: str) -> None:
    if len(value) > (most := MAX_CHARS.get(name, MAX_OTHER_CHARS)):
        raise InputError("raster.size", f"{name} has more than {most} characters", remedy=ASK_FOR_LESS)


def _check_sizes(request: Request) -> None:
    query = request.query_params
    counted = request.scope["route"].name == "statistics"
    for name, value in (*query.multi_items(), *request.path_params.items()):
        most = min(MAX_PIXELS.get(name, 0), MAX_STATISTICS_PIXELS) if counted else MAX_PIXELS.get(name)
        if most and not _fits(value, most):
            remedy = f"Give a whole number of pixels from {MIN_PIXELS} to {most}, or leave {name} out."
            raise InputError("raster.size", f"{name} must be from {MIN_PIXELS} to {most}", remedy=remedy)
    if query.get("categorical", "").lower() in TRUE and "c" not in query:
        # In a raster of floats nearly every value is unique.
        raise InputError("raster.size", "categorical needs the values to count", remedy="List them, like c=1&c=2.")
    if over := [name for name, most in MAX_REPEATS.items() if len(query.getlist(name)) > most]:
        raise InputError(
            "raster.size", f"{over[0]} is given more than {MAX_REPEATS[over[0]]} times", remedy=ASK_FOR_LESS
        )


def _check_tile(path: Mapping[str, str]) -> None:
    """Refuse a tile that no grid has: computing its bounds never ends for some numbers."""
    place = [path.get(name, "0").lstrip("+") for name in ("z", "x", "y")]
    if not all(text.removeprefix("-").isdecimal() for text in place):
        message = f"no tile is {'/'.join(text[:20] for text in place)}: its place is three whole numbers"
        raise InputError("request.invalid", message, remedy="The URLs of tiles are in tilejson.json.")
    if not (len(place[0]) < 9 and 0 <= int(place[0]) <= MAX_ZOOM):
        message = f"{place[0][:20]} is not a valid zoom; zooms are from 0 to {MAX_ZOOM}"
        raise InputError("raster.query", message, remedy="The zooms of the raster are in tilejson.json.")
    most = 2 ** (int(place[0]) + 1)  # of a grid that is twice as wide as high
    if not all(len(text) < 12 and 0 <= int(text) < most for text in place[1:]):
        message = f"no grid has a tile {'/'.join(text[:20] for text in place)}"
        raise NotFound("raster.outside", message, remedy="The bounds are in tilejson.json.")


def _fits(text: str, most: int) -> bool:
    try:
        return MIN_PIXELS <= float(text) <= most
    except ValueError:
        return True  # the route reports it


def _wrong(name: str, what: str) -> InputError:
    return InputError("raster.query", f"{name} must be {what}", remedy=SEE_API)


def _numbers(texts: Iterable[str]) -> list[float]:
    """The texts that are numbers; the route reports the others."""
    found = []
    for text in texts:
        try:
            found.append(float(text))
        except ValueError:
            continue
    return found


def _within(low: float, high: float) -> Callable[[str, str], None]:
    def check(name: str, value: str) -> None:
        if not all(low <= number <= high for number in _numbers([value])):
            raise _wrong(name, f"a number from {low:g} to {high:g}")

    return check


def _check_finite(name: str, value: str) -> None:
    if not all(map(math.isfinite, _numbers(value.replace(",", " ").split()))):
        raise _wrong(name, "made of finite numbers")


def _check_range(name: str, value: str) -> None:
    _check_finite(name, value)
    ends = _numbers(value.split(","))
    if len(ends) == 2 and not ends[0] < ends[1]:
        raise _wrong(name, "two numbers, the lower first")


def _check_nodata(name: str, value: str) -> None:
    if value.strip().lower() not in NODATA_WORDS:
        _check_finite(name, value)


def _check_bins(name: str, value: str) -> None:
    _check_finite(name, value)
    edges = value.split(",")
    if len(edges) > MAX_BINS or (len(edges) == 1 and not _fits(value, MAX_BINS)):
        raise InputError("raster.size", f"{name} must ask for 1 to {MAX_BINS} bins", remedy=ASK_FOR_LESS)


def _check_colormap(name: str, value: str) -> None:
    try:
        given = decode(value)
    except ValueError as error:
        raise _wrong(name, f"JSON: {error}") from error
    try:
        check_colormap(given)
    except ValueError as error:
        raise _wrong(name, str(error)) from error


CHECKS: Mapping[str, Callable[[str, str], None]] = {
    "lon": _within(-MAX_LONGITUDE, MAX_LONGITUDE),
    "lat": _within(-MAX_LATITUDE, MAX_LATITUDE),
    "minzoom": _within(0, MAX_ZOOM),
    "maxzoom": _within(0, MAX_ZOOM),
    "p": _within(0, 100),
    "c": _check_finite,
    "bidx": _within(1, 2**16),
    "nodata": _check_nodata,
    "rescale": _check_range,
    "histogram_range": _check_range,
    "histogram_bins": _check_bins,
    "color_formula": _check_finite,
    "colormap": _check_colormap,
}
