"""Ticks of cron expressions, against a model that looks at every minute."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from anabranch.workflows.schedules.cron import (
    list_last_ticks,
    list_ticks,
    next_tick,
    previous_tick,
    read_cron,
    read_zone,
)

MINUTE = timedelta(minutes=1)
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # its clocks went from 23:59 to 1:00
    "Australia/Lord_Howe",  # by half an hour
    "Pacific/Apia",  # without 30 December 2011
    "Africa/Casablanca",
    "Asia/Kathmandu",
]
EXPRESSIONS = [
    "* * * * *",
    "*/15 * * * *",
    "0 * * * *",
    "30 1 * * *",
    "30 2 * * *",
    "0,30 0-3 * * *",
    "59 23 * * *",
    "0 0 1 * *",
    "15 2 * * SUN",
    "5 0 30 12 *",
    "10 1 * 3,10,11 0",
    "0 12 13 * 5",
]


def instant(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


@cache
def changes(zone: str) -> list[datetime]:
    """When the clocks of a zone were changed, from 2000 to 2036."""
    where, at, found = ZoneInfo(zone), datetime(2000, 1, 1, tzinfo=UTC), []
    while at.year < 2037:
        if at.astimezone(where).utcoffset() != (at + timedelta(hours=12)).astimezone(where).utcoffset():
            found.append(at)
        at += timedelta(hours=12)
    return found


@cache
def read_field(field: str, low: int, high: int) -> frozenset[int]:
    field, found = field.replace("SUN", "0"), set[int]()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin, end = (low, high) if span == "*" else (int(first), int(last or first))
        found.update(range(begin, end + 1, int(step or 1)))
    return frozenset(found)


def matches(cron: str, local: datetime) -> bool:
    minute, hour, day, month, weekday = cron.split()
    if local.minute not in read_field(minute, 0, 59) or local.hour not in read_field(hour, 0, 23):
        return False
    on_day = local.day in read_field(day, 1, 31)
    on_weekday = local.isoweekday() % 7 in read_field(weekday, 0, 7)
    either = on_day and on_weekday if "*" in (day, weekday) else on_day or on_weekday
    return either and local.month in read_field(month, 1, 12)


def walk(cron: str, zone: str, begin: datetime, end: datetime) -> Iterator[datetime]:
    """Look at every minute: a local time that was seen is none again, and those that are skipped come with the next."""
    where, at = ZoneInfo(zone), begin
    latest = (begin - MINUTE).astimezone(where).replace(tzinfo=None)
    while at <= end:
        local = at.astimezone(where).replace(tzinfo=None)
        passed = [latest + MINUTE * k for k in range(1, max(0, (local - latest) // MINUTE) + 1)]
        if any(matches(cron, one) for one in passed):
            yield at
        latest, at = max(latest, local), at + MINUTE


@pytest.mark.parametrize("zone", ZONES)
def test_ticks_over_years_are_those_of_a_walk_over_every_minute(zone: str) -> None:
    """Around each change of the clocks, and at other times, in both directions."""
    chosen = random.Random(zone)  # repeatable
    begins = [at - timedelta(hours=30) for at in changes(zone)]
    begins += [datetime(2000, 1, 1, tzinfo=UTC) + timedelta(days=chosen.randrange(13_000)) for _ in range(12)]
    for begin, cron in zip(chosen.sample(begins, 12), EXPRESSIONS, strict=True):
        end = begin + timedelta(hours=60)
        expected = list(walk(cron, zone, begin, end))
        assert list_ticks(cron, zone, begin - MINUTE / 60, end, 10_000) == expected, (cron, begin)
        assert list_last_ticks(cron, zone, begin - MINUTE / 60, end, 10_000) == expected, (cron, begin)


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", EXPRESSIONS)
def test_every_tick_around_every_change_is_that_of_the_walk(zone: str, cron: str) -> None:
    for at in changes(zone):
        begin, end = at - timedelta(hours=30), at + timedelta(hours=60)
        expected = list(walk(cron, zone, begin, end))
        assert list_ticks(cron, zone, begin - MINUTE / 60, end, 10_000) == expected
        assert list_last_ticks(cron, zone, begin - MINUTE / 60, end, 10_000) == expected


def test_a_local_time_that_occurs_twice_ticks_once() -> None:
    """In Berlin, 2:30 occurs twice on 26 October 2025."""
    first = next_tick("30 2 * * *", "Europe/Berlin", instant("2025-10-25T12:00"))
    assert first == instant("2025-10-26T00:30")
    assert next_tick("30 2 * * *", "Europe/Berlin", first) == instant("2025-10-27T01:30")


def test_a_local_time_that_does_not_exist_ticks_at_the_next_instant_that_does() -> None:
    """In Berlin, 30 March 2025 has no 2:30; a tick of 3:00 is the same instant, and one tick."""
    first = next_tick("30 2 * * *", "Europe/Berlin", instant("2025-03-29T12:00"))
    assert first == instant("2025-03-30T03:00", "Europe/Berlin")
    both = list_ticks("*/30 2-3 * * *", "Europe/Berlin", instant("2025-03-30T00:00"), instant("2025-03-30T01:30"), 9)
    assert both == [instant("2025-03-30T01:00"), instant("2025-03-30T01:30")]


def test_the_tick_before_one_in_the_hour_that_is_repeated() -> None:
    """While 2:10 is shown for the second time, 2:50 has been."""
    assert previous_tick("50 2 * * *", "Europe/Berlin", instant("2025-10-26T01:10")) == instant("2025-10-26T00:50")


def test_an_instant_between_two_seconds_counts() -> None:
    at = instant("2025-01-01T12:00")
    assert previous_tick("0 12 * * *", "UTC", at + timedelta(microseconds=1)) == at
    assert previous_tick("0 12 * * *", "UTC", at) == at - timedelta(days=1)
    assert next_tick("0 12 * * *", "UTC", at - timedelta(microseconds=1)) == at


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("61 * * * *", "wrong minute"),
        ("* 24 * * *", "wrong hour"),
        ("0 0 31 2 *", "wrong day of month"),
        ("0 0 * 13 *", "wrong month"),
        ("0 0 * * 8", "wrong day of week"),
        ("* * * *", "5 fields, not 4"),
        ("0 * * * * *", "5 fields, not 6"),
        ("", "5 fields, not 0"),
        ("*/0 * * * *", "wrong minute"),
        ("1," * 150 + "1 * * * *", "at most 200"),
        ("\N{SUPERSCRIPT TWO} * * * *", "ASCII"),
    ],
)
def test_a_bad_expression_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_cron(text)


def test_a_zone_that_does_not_exist_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match="no time zone 'Europe/Berln'") as caught:
        read_zone("Europe/Berln")
    assert "Europe/Berlin" in str(caught.value.context)  # type: ignore[attr-defined]  # of pydantic's error
