"""What a caller may ask of a raster: known names, finite numbers, and no more than can be computed."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping

from fastapi import Request

from anabranch.canonical import decode
from anabranch.errors import InputError, NotFound
from anabranch.serving.stretch import MOST_BANDS

__all__ = ["check_parameters"]

# What a caller may ask to be computed at once; the defaults are far below.
MOST = {"tilesize": 1024, "width": 2048, "height": 2048, "max_size": 2048}
MOST_COUNTED = 1024  # of statistics: every value is sorted and counted, which takes many times its own room
TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
LEAST = 1  # none at all is taken for all there are
MOST_LISTED = {"bidx": MOST_BANDS, "c": 64, "p": 64, "rescale": 64}
# Every step of a formula and every color goes over all pixels.
LONGEST = {"color_formula": 256, "colormap": 8192, "histogram_bins": 8192}
LONGEST_OTHER = 256
MOST_BINS = 1024
DEEPEST = 30  # there a tile of the world is 4 cm wide
LON, LAT = 360.0, 90.0  # a longitude may be counted from either side of 180
NOT_A_NUMBER = ("nan", "inf", "-inf")  # which a raster may have where it has no value
KNOWN = "What a route takes is described at /raster/api."
LESS = "Ask for less, several times."


def check_parameters(request: Request, known: Collection[str]) -> None:
    """Refuse what the route doesn't know or can't be given; how a value is written is left to the route."""
    query = request.query_params
    if unknown := sorted(set(query) - set(known)):
        told = f"there is no parameter {', '.join(name[:40] for name in unknown[:5])} here"
        raise InputError("raster.query", told, remedy=f"The parameters are {', '.join(sorted(known)) or 'none'}.")
    _check_tile(request.path_params)
    for name, value in (*query.multi_items(), *request.path_params.items()):
        _check_length(name, value)
        if check := CHECKS.get(name):
            check(name, value)
    _check_sizes(request)


def _check_length(name: str, value: str) -> None:
    if len(value) > (most := LONGEST.get(name, LONGEST_OTHER)):
        raise InputError("raster.size", f"{name} has more than {most} characters", remedy=LESS)


def _check_sizes(request: Request) -> None:
    query = request.query_params
    counted = request.scope["route"].name == "statistics"
    for name, value in (*query.multi_items(), *request.path_params.items()):
        most = min(MOST.get(name, 0), MOST_COUNTED) if counted else MOST.get(name)
        if most and not _fits(value, most):
            raise InputError("raster.size", f"{name} is at least {LEAST} and at most {most}", remedy=LESS)
    if query.get("categorical", "").lower() in TRUE and "c" not in query:
        # Every value of a raster of real numbers is one of its own.
        raise InputError("raster.size", "categorical counts values that are named", remedy="Name them: c=1&c=2.")
    if over := [name for name, most in MOST_LISTED.items() if len(query.getlist(name)) > most]:
        raise InputError("raster.size", f"{over[0]} is given more than {MOST_LISTED[over[0]]} times", remedy=LESS)


def _check_tile(path: Mapping[str, str]) -> None:
    """Refuse a tile that no grid has: what computes its bounds does not end for some numbers."""
    place = [path.get(name, "0").lstrip("+") for name in ("z", "x", "y")]
    if not all(text.removeprefix("-").isdecimal() for text in place):
        return  # which the route tells
    if not (len(place[0]) < 9 and 0 <= int(place[0]) <= DEEPEST):
        told = f"{place[0][:20]} is no zoom of a tile; they go from 0 to {DEEPEST}"
        raise InputError("raster.query", told, remedy="The zooms of the raster are in tilejson.json.")
    most = 2 ** (int(place[0]) + 1)  # of a grid that is twice as wide as high
    if not all(len(text) < 12 and 0 <= int(text) < most for text in place[1:]):
        told = f"no grid has a tile {'/'.join(text[:20] for text in place)}"
        raise NotFound("raster.outside", told, remedy="The bounds are in tilejson.json.")


def _fits(text: str, most: int) -> bool:
    try:
        return LEAST <= float(text) <= most
    except ValueError:
        return True  # the route says what is wrong with it


def _wrong(name: str, what: str) -> InputError:
    return InputError("raster.query", f"{name} must be {what}", remedy=KNOWN)


def _numbers(texts: Iterable[str]) -> list[float]:
    """What of texts is numbers; the others the route tells."""
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
    if value.strip().lower() not in NOT_A_NUMBER:
        _check_finite(name, value)


def _check_bins(name: str, value: str) -> None:
    _check_finite(name, value)
    edges = value.split(",")
    if len(edges) > MOST_BINS or (len(edges) == 1 and not _fits(value, MOST_BINS)):
        raise InputError("raster.size", f"{name} asks for more than {MOST_BINS} bins, or for none", remedy=LESS)


def _check_json(name: str, value: str) -> None:
    try:
        decode(value)
    except ValueError as error:
        raise _wrong(name, f"JSON: {error}") from error


CHECKS: Mapping[str, Callable[[str, str], None]] = {
    "lon": _within(-LON, LON),
    "lat": _within(-LAT, LAT),
    "minzoom": _within(0, DEEPEST),
    "maxzoom": _within(0, DEEPEST),
    "p": _within(0, 100),
    "c": _check_finite,
    "bidx": _within(1, 2**16),
    "nodata": _check_nodata,
    "rescale": _check_range,
    "histogram_range": _check_range,
    "histogram_bins": _check_bins,
    "color_formula": _check_finite,
    "colormap": _check_json,
}
