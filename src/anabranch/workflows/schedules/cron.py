"""The ticks of a cron expression in a time zone: pure functions of instants, without a clock."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from anabranch.workflows.mistakes import nearest, quote, refuse

__all__ = [
    "MAX_CRON_CHARACTERS",
    "list_last_ticks",
    "list_ticks",
    "next_tick",
    "previous_tick",
    "read_cron",
    "read_zone",
]

MAX_CRON_CHARACTERS = 200
FIELDS = 5
SECOND = timedelta(seconds=1)
RESOLUTION = timedelta(microseconds=1)
EXAMPLE = "Write minute, hour, day of month, month and day of week: 30 2 * * MON."


def read_cron(text: str) -> str:
    """A cron expression with five fields that matches some time; ValueError says what is wrong."""
    count = len(text.split())
    if len(text) > MAX_CRON_CHARACTERS or not text.isascii():
        raise refuse(f"{{key}} is a cron expression of at most {MAX_CRON_CHARACTERS} ASCII characters", EXAMPLE)
    if count != FIELDS:
        raise refuse(f"{{key}} has {FIELDS} fields, not {count}", EXAMPLE)
    try:
        found = next(CronSim(text, datetime(2000, 1, 1)), None)  # noqa: DTZ001  # a local time of no zone
    except CronSimError as error:
        field = str(error).removeprefix("Bad ").replace("-", " ")
        raise refuse(f"{{key}} {quote(text)} has a wrong {field}", EXAMPLE) from None
    if found is None:
        raise refuse(f"{{key}} {quote(text)} matches no date")
    return text


def read_zone(name: str) -> str:
    """The name of a time zone; ValueError says that there is none."""
    if name not in _zones():
        hint = nearest(name, sorted(_zones())) or "Write a name of the IANA time zone database: Europe/Berlin."
        raise refuse(f"{{key}}: there is no time zone {quote(name)}", hint)
    return name


def next_tick(cron: str, zone: str, after: datetime) -> datetime | None:
    """The first tick after an instant; None where there is none in the next fifty years.

    A local time that occurs twice ticks when it first occurs; one that does not exist, at the next instant that does.
    """
    return next(_walk(cron, zone, after), None)


def previous_tick(cron: str, zone: str, before: datetime) -> datetime | None:
    """The last tick before an instant; None where there is none in the fifty years before."""
    return next(_walk(cron, zone, before, back=True), None)


def list_ticks(cron: str, zone: str, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The first ticks after an instant, up to another."""
    within: list[datetime] = []
    for tick in islice(_walk(cron, zone, after), limit):
        if tick > until:
            break
        within.append(tick)
    return within


def list_last_ticks(cron: str, zone: str, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The last ticks up to an instant that are after another, in order."""
    found: list[datetime] = []
    for tick in islice(_walk(cron, zone, until + RESOLUTION, back=True), limit):
        if tick <= after:
            break
        found.append(tick)
    return found[::-1]


def _walk(cron: str, zone: str, start: datetime, *, back: bool = False) -> Iterator[datetime]:
    """The ticks on one side of an instant. The library counts in local time, with which instants only rise."""
    where = ZoneInfo(zone)
    shown = start.astimezone(where)
    local = shown.replace(tzinfo=None)
    if back:  # from after all local times that have occurred, for some of them may occur again
        ahead = (shown.replace(fold=0).utcoffset() or timedelta()) - (shown.utcoffset() or timedelta())
        local = local.replace(microsecond=0, fold=0) + ahead + SECOND
    last = start
    for matched in CronSim(cron, local, reverse=back):
        tick = _first_instant(matched, where)
        if tick < last if back else tick > last:
            yield tick
            last = tick


def _first_instant(local: datetime, zone: ZoneInfo) -> datetime:
    """When a local time first occurs, or, where it is skipped, when the local time goes on."""
    instant = local.replace(tzinfo=zone).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == local:
        return instant
    early, late = local.replace(tzinfo=zone, fold=1).astimezone(UTC), instant
    while late - early > SECOND:
        middle = early + timedelta(seconds=(late - early) // SECOND // 2)
        if middle.astimezone(zone).replace(tzinfo=None) < local:
            early = middle
        else:
            late = middle
    return late


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones()) - {"localtime"}
