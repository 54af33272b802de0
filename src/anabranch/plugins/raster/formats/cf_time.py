"""Moments of the CF conventions: a number of units since a day of some calendar."""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

__all__ = ["TimeAxis", "parse_axis", "write_moment"]

_SECONDS = {
    **dict.fromkeys(("microsecond", "microseconds", "microsec", "microsecs"), 1e-6),
    **dict.fromkeys(("millisecond", "milliseconds", "msec", "msecs", "ms"), 1e-3),
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), 1.0),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), 60.0),
    **dict.fromkeys(("hour", "hours", "hr", "hrs", "h"), 3600.0),
    **dict.fromkeys(("day", "days", "d"), 86_400.0),
    **dict.fromkeys(("week", "weeks"), 604_800.0),
}
_UNITS = re.compile(
    r"\s*([a-z]+)\s+since\s+([+-]?\d{1,4})-(\d{1,2})-(\d{1,2})"
    r"(?:[T\s]+(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.\d*)?)?)?)?\s*(Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?\s*",
    re.ASCII | re.IGNORECASE,
)
_DAY_SECONDS = 86_400
_GREGORIAN_STARTS = 2_299_161  # the Julian day number of 1582-10-15
_ORDINAL_0 = 1_721_425  # its Julian day number
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MIXED = {"", "standard", "gregorian"}
_PROLEPTIC = {"proleptic_gregorian"}
_NO_LEAP = {"noleap", "365_day"}


class TimeAxis:
    """The moments of a time coordinate."""

    def __init__(self, seconds: float, base: Callable[[int], datetime | None], start: float) -> None:
        self._seconds = seconds
        self._find_day = base
        self._start = start

    def moment(self, value: float) -> datetime | None:
        """The moment of a value, to the second or millisecond; None where no date of our calendar is it."""
        if not math.isfinite(value) or abs(value * self._seconds) > 1e13:
            return None
        total = round(self._start + value * self._seconds, 3)
        days, rest = divmod(total, _DAY_SECONDS)
        day = self._find_day(int(days))
        return day and day + timedelta(milliseconds=round(rest * 1000))


def parse_axis(units: str, calendar: str) -> TimeAxis | None:
    """The axis of `units` like `days since 1900-01-01`; None where the calendar or the unit has no exact moments."""
    match = _UNITS.fullmatch(units[:200])
    seconds = _SECONDS.get(match[1].lower()) if match else None
    if match is None or seconds is None:
        return None
    year, month, day = (int(match[number]) for number in (2, 3, 4))
    clock = sum(int(match[number] or 0) * scale for number, scale in ((5, 3600), (6, 60), (7, 1)))
    base = _base(calendar.strip().lower(), year, month, day)
    return base and TimeAxis(seconds, base, clock - _zone_seconds(match[8] or ""))


def write_moment(moment: datetime) -> str:
    """A moment as callers write it, like 2020-01-15T00:00:00Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _zone_seconds(zone: str) -> int:
    if not zone or zone.upper() in ("Z", "UTC", "GMT"):
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


def _base(calendar: str, year: int, month: int, day: int) -> Callable[[int], datetime | None] | None:
    """A function from a number of days since a date of a calendar to the start of that day."""
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    if calendar in _MIXED:
        first = _julian_day(year, month, day)
        return lambda days: _from_ordinal(first + days - _ORDINAL_0)
    if calendar in _PROLEPTIC and year >= 1:
        try:
            ordinal = datetime(year, month, day, tzinfo=UTC).toordinal()
        except ValueError:
            return None
        return lambda days: _from_ordinal(ordinal + days)
    if calendar in _NO_LEAP and day <= _MONTH_DAYS[month - 1]:
        number = year * 365 + sum(_MONTH_DAYS[: month - 1]) + day - 1
        return lambda days: _from_day_without_leap(number + days)
    return None


def _julian_day(year: int, month: int, day: int) -> int:
    """The Julian day number of a date of the mixed calendar: Julian before 1582-10-15, Gregorian from then on."""
    shift = (14 - month) // 12
    years, months = year + 4800 - shift, month + 12 * shift - 3
    common = day + (153 * months + 2) // 5 + 365 * years + years // 4
    gregorian = common - years // 100 + years // 400 - 32_045
    return gregorian if gregorian >= _GREGORIAN_STARTS else common - 32_083


def _from_ordinal(ordinal: int) -> datetime | None:
    try:
        return datetime.fromordinal(ordinal).replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _from_day_without_leap(number: int) -> datetime | None:
    year, day = divmod(number, 365)
    for month, length in enumerate(_MONTH_DAYS, 1):
        if day < length:
            return datetime(year, month, day + 1, tzinfo=UTC) if 1 <= year <= 9999 else None
        day -= length
    return None
