"""When the data of a raster are of, from its tags or its name; never from the date on which the file was written."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from anabranch.plugins.raster.models import Times

__all__ = ["find_times"]

Origin = Literal["tags", "name"]

# TIFFTAG_DATETIME is left out: it says when the file was made.
_TAGS = ("acquisitiondatetime", "acquisition_datetime", "acquisition_date", "datetime", "date", "time_coverage_start")
_EDGE = r"(?<![0-9])"
_YEAR = r"(19[5-9]\d|20[0-4]\d)"
_MONTH, _DAY = r"(0[1-9]|1[0-2])", r"(0[1-9]|[12]\d|3[01])"
_CLOCK = r"[T_\- ]?([01]\d|2[0-3])[:\-]?([0-5]\d)[:\-]?([0-5]\d)"
_MOMENT = re.compile(rf"{_EDGE}{_YEAR}[-_]?{_MONTH}[-_]?{_DAY}{_CLOCK}(?![0-9])")
_DATE = re.compile(rf"{_EDGE}{_YEAR}([-_.]?){_MONTH}\2{_DAY}(?![0-9])")
_MONTHS = re.compile(rf"{_EDGE}{_YEAR}[-_]{_MONTH}(?![0-9])")
# 2048 alone is the side of a tile more often than a year.
_YEARS = re.compile(rf"(?:^|[-_. ])(?!2048){_YEAR}(?=$|[-_. ])")


def find_times(tags: Mapping[str, str], name: str) -> Times | None:
    """The moment or span of the data, or None where nothing says it."""
    lower = {key.lower(): value for key, value in tags.items()}
    texts = [lower[tag].strip().replace("/", "-") for tag in _TAGS if tag in lower]
    # A tag that tells the moment says more than one before it that tells only the day.
    said = [times for parse in (_parse_moment, _parse_day) for text in texts if (times := parse(text))]
    return said[0] if said else _from_name(name.rsplit(".", 1)[0])


def _parse_day(text: str) -> Times | None:
    if not _is_day(text):
        return None
    day = date.fromisoformat(text)
    return _span_of_day(day.year, day.month, day.day, origin="tags")


def _is_day(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


def _parse_moment(text: str) -> Times | None:
    if _is_day(text):
        return None
    try:
        found = datetime.fromisoformat(text)
        moment = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return Times(moment=moment, origin="tags")


def _from_name(stem: str) -> Times | None:
    if found := _MOMENT.search(stem):
        year, month, day, hour, minute, second = map(int, found.groups())
        return _moment(year, month, day, hour, minute, second)
    if found := _DATE.search(stem):
        return _span_of_day(*map(int, found.group(1, 3, 4)))
    if found := _MONTHS.search(stem):
        year, month = map(int, found.groups())
        return _span(datetime(year, month, 1, tzinfo=UTC), datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC))
    years = _YEARS.findall(stem)
    if years:
        first, last = int(min(years)), int(max(years))
        return _span(datetime(first, 1, 1, tzinfo=UTC), datetime(last + 1, 1, 1, tzinfo=UTC))
    return None


def _moment(year: int, month: int, day: int, hour: int, minute: int, second: int) -> Times | None:
    try:
        return Times(moment=datetime(year, month, day, hour, minute, second, tzinfo=UTC), origin="name")
    except ValueError:
        return None


def _span_of_day(year: int, month: int, day: int, *, origin: Origin = "name") -> Times | None:
    try:
        begin = datetime(year, month, day, tzinfo=UTC)
        return _span(begin, begin + timedelta(days=1), origin)
    except (ValueError, OverflowError):
        return None


def _span(begin: datetime, after: datetime, origin: Origin = "name") -> Times:
    return Times(start=begin, end=after - timedelta(seconds=1), origin=origin)
