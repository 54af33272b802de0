"""The acquisition time of a raster, from its tags or its name; never from the date the file was written."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from anabranch.plugins.raster.models import Times

__all__ = ["find_times", "find_wrong_day"]

# TIFFTAG_DATETIME is left out: it is the time at which the file was written.
_TAGS = ("acquisitiondatetime", "acquisition_datetime", "acquisition_date", "datetime", "date", "time_coverage_start")
_SECOND, _DAY = timedelta(seconds=1), timedelta(days=1)


@dataclass(frozen=True)
class _Found:
    """A time in a name: its position, and its first and last second, which are the same for a moment."""

    left: int
    right: int
    start: datetime
    end: datetime


@dataclass(frozen=True)
class _Rule:
    """A notation of times in names: the words for one and for several, the pattern, and the parser."""

    one: str
    several: str
    pattern: re.Pattern[str]
    read: Callable[..., tuple[datetime, datetime] | None]
    bare: bool = False  # a bare number, which often means something else


def find_times(tags: Mapping[str, str], name: str) -> Times | None:
    """The moment or span of the data, and where it was found; None where there is none."""
    lower = {key.lower(): value for key, value in tags.items()}
    texts = {tag: lower[tag].strip().replace("/", "-") for tag in _TAGS if tag in lower}
    # A tag with a moment wins over an earlier one with only a day.
    said = (_from_tag(tag, text, moments=moments) for moments in (True, False) for tag, text in texts.items())
    return next(filter(None, said), None) or _from_name(name.rsplit(".", 1)[0])


def find_wrong_day(name: str) -> str | None:
    """What looks like a day in a file's name, but is none of the calendar, as 20260229."""
    return next((match[0] for match in _find_wrong_days(name)), None)


def _find_wrong_days(name: str) -> Iterator[re.Match[str]]:
    for match in _LIKE_DAY.finditer(name):
        before = name[: match.start()]
        if _NO_DATE.search(before) or _NO_NUMBER.search(before):
            continue
        try:
            date(int(match[1]), int(match[3]), int(match[4]))
        except ValueError:
            yield match


def _from_tag(tag: str, text: str, *, moments: bool) -> Times | None:
    try:
        if _is_day(text):
            return None if moments else _make_times(*_day(*date.fromisoformat(text).timetuple()[:3]), f"the tag {tag}")
        found = datetime.fromisoformat(text) if moments else None
        if found is None:
            return None
        moment = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return _make_times(moment, moment, f"the tag {tag}")


def _is_day(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


def _make_times(start: datetime, end: datetime, rule: str) -> Times:
    origin: Literal["tags", "name"] = "tags" if rule.startswith("the tag") else "name"
    if start == end:
        return Times(moment=start, origin=origin, rule=rule)
    return Times(start=start, end=end, origin=origin, rule=rule)


def _moment(*parts: str) -> tuple[datetime, datetime]:
    moment = datetime(*map(int, parts), tzinfo=UTC)  # type: ignore[arg-type, misc]  # six of them, as the pattern has
    return moment, moment


def _day(year: int | str, month: int | str, day: int | str) -> tuple[datetime, datetime]:
    start = datetime(int(year), int(month), int(day), tzinfo=UTC)
    return start, start + _DAY - _SECOND


def _day_of_year(year: str, number: str) -> tuple[datetime, datetime] | None:
    start = datetime(int(year), 1, 1, tzinfo=UTC) + _DAY * (int(number) - 1)
    return (start, start + _DAY - _SECOND) if start.year == int(year) else None


def _month(year: str, month: str) -> tuple[datetime, datetime]:
    start = datetime(int(year), int(month), 1, tzinfo=UTC)
    return start, (start + 31 * _DAY).replace(day=1) - _SECOND


def _year(year: str) -> tuple[datetime, datetime]:
    return datetime(int(year), 1, 1, tzinfo=UTC), datetime(int(year) + 1, 1, 1, tzinfo=UTC) - _SECOND


_LEFT, _RIGHT = r"(?<![0-9])", r"(?![0-9])"
_ALONE, _ENDS = r"(?<![0-9A-Za-z])", r"(?![0-9A-Za-z])"
_Y, _M, _D = r"(19[5-9]\d|20[0-4]\d)", r"(0[1-9]|1[0-2])", r"(0[1-9]|[12]\d|3[01])"
_EARLY, _Y_OF_DAY = "1950", r"(19\d\d|20[0-4]\d)"  # an earlier year is one only with a month and a day
_CLOCK = r"[T_\- ]?([01]\d|2[0-3])(?P<by>[:\-]?)([0-5]\d)(?P=by)([0-5]\d)"
_RULES = (
    _Rule("moment", "two moments", re.compile(rf"{_LEFT}{_Y_OF_DAY}[-_]?{_M}[-_]?{_D}{_CLOCK}{_RIGHT}"), _moment),
    _Rule("day", "two days", re.compile(rf"{_LEFT}{_Y_OF_DAY}(?P<by>[-_.]?){_M}(?P=by){_D}{_RIGHT}"), _day),
    _Rule(
        "day of the year",
        "two days of the year",
        re.compile(rf"{_ALONE}A?{_Y}-?([0-3]\d\d){_ENDS}"),
        _day_of_year,
        bare=True,
    ),
    _Rule("month", "two months", re.compile(rf"{_ALONE}{_Y}[-_.]?{_M}{_ENDS}"), _month, bare=True),
    # 2048 alone is more often the size of a tile than a year.
    _Rule("year", "years", re.compile(rf"{_ALONE}(?!2048){_Y}{_ENDS}"), _year, bare=True),
)
# Eight digits like those of a day, perhaps with a clock after them.
_LIKE_DAY = re.compile(rf"{_LEFT}{_Y}(?P<by>[-_.]?)(\d\d)(?P=by)(\d\d)(?=\d{{6}}{_RIGHT}|{_RIGHT})", re.ASCII)
_BETWEEN = re.compile(r"[-_. ]{1,3}|[-_ ]?to[-_ ]?", re.IGNORECASE)
# Landsat names have the acquisition day and, after it, the processing day.
_LANDSAT = re.compile(r"L[COTEM]\d\d_L\w{3}_\d{6}_", re.IGNORECASE)
_DATUMS = (
    "wgs|nad|etrs|ed|gda|nzgd|nztm|jgd|tokyo|sirgas|cgcs|itrf|igs|rgf|prs|pz|gdm|kgd|egm|navd|ngvd|evrf|evrs|ahd|grs|"
    "sweref|dhhn|sad|osgb|pulkovo|xian|beijing|hartebeesthoek|clarke|lambert|datum|epsg|esri|crs|srid"
)
_COUNTED = "tile|sheet|blatt|no|nr|num|number|id|product|item|order|part|block|row|col|path|band|zone|job|ref|version"
# Words right before a number that is not a date. The year of a datum may be followed by that of its realization.
_NO_DATE = re.compile(rf"(?<![a-z])(?:{_DATUMS})[-_. ]?$", re.IGNORECASE)
_REALIZED = rf"(?:(?:{_DATUMS})[-_. ]?\d{{4}}|(?:nad[-_. ]?83|sad[-_. ]?69)(?:[-_. ]?csrs)?)[-_. ]"
_NO_NUMBER = re.compile(rf"(?<![a-z])(?:(?:{_COUNTED})[-_. ]?|{_REALIZED})$", re.IGNORECASE)
_NO_EARLY_DAY = re.compile(rf"(?<![a-z])(?:{_COUNTED})[-_. ]?$", re.IGNORECASE)


def _from_name(stem: str) -> Times | None:
    for match in _find_wrong_days(stem):  # its month or year is not that of the data either
        stem = stem[: match.start()] + "#" * len(match[0]) + stem[match.end() :]
    for rule in _RULES:
        if found := list(_find(rule, stem)):
            start, end, several = _join(rule, stem, found)
            return _make_times(start, end, f"{rule.several if several else rule.one} in the file's name")
    return None


def _find(rule: _Rule, stem: str) -> Iterator[_Found]:
    for match in rule.pattern.finditer(stem):
        before = stem[: match.start()]
        if _NO_DATE.search(before) or (rule.bare and _NO_NUMBER.search(before)):
            continue
        if match[1] < _EARLY and _NO_EARLY_DAY.search(before):
            continue
        parts = [part for number, part in enumerate(match.groups(), 1) if number != match.re.groupindex.get("by")]
        try:
            read = rule.read(*parts)
        except (ValueError, OverflowError):
            continue  # it looks like a date, but is not one
        if read:
            yield _Found(match.start(), match.end(), *read)


def _join(rule: _Rule, stem: str, found: list[_Found]) -> tuple[datetime, datetime, bool]:
    """One time, or the span from the first to the second where they are adjacent; years may be more than two."""
    first = last = found[0]
    for later in found[1:] if rule.read is _year else found[1:2]:
        beside = _BETWEEN.fullmatch(stem[last.right : later.left]) is not None
        if not beside or later.start < last.start or _LANDSAT.match(stem):
            break
        last = later
    return first.start, last.end, last is not first
