"""Overview: what needs a person, what goes on, what fails, and the health of each part."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fastapi import Response

from anabranch.api.deps import CurrentCaller, CurrentGateway, CurrentMonitor, CurrentReads
from anabranch.api.health.diagnosis import WORST_FIRST, worst
from anabranch.api.pages.rendering import CurrentPage, page_router
from anabranch.contract.insight import HourCount
from anabranch.engine.read_models import DeadLetter
from anabranch.enums import JobState

__all__ = ["Hour", "router", "spread_hours"]

router = page_router()
HOURS = 24
LETTERS_READ, FAILURES_SHOWN = 200, 5
SCHEDULES_READ = 500


@dataclass(frozen=True)
class Hour:
    """The jobs that ended in an hour, and their shares of the busiest hour, in percent."""

    begin: datetime
    completed: int
    failed: int
    cancelled: int
    heights: tuple[float, float, float]

    @property
    def words(self) -> str:
        """The same in words."""
        others = "".join(
            f", {count} {word}" for word, count in (("failed", self.failed), ("cancelled", self.cancelled)) if count
        )
        return f"{self.begin:%H:%M} UTC: {self.completed} completed{others}"


@router.get("/")
async def show_overview(
    page: CurrentPage, caller: CurrentCaller, reads: CurrentReads, gateway: CurrentGateway, monitor: CurrentMonitor
) -> Response:
    """Everything at a glance."""
    (parts, queues), overview, letters, schedules = await asyncio.gather(
        monitor.examine(),
        reads.overview(),
        reads.dead_letters(limit=LETTERS_READ),
        gateway.schedules.list_page(caller.visible_platform, before=None, limit=SCHEDULES_READ),
    )
    sees_all = caller.visible_platform is None
    hours = spread_hours(overview.hours, datetime.now(UTC))
    return page.render(
        "overview.html",
        title="Overview",
        overview=overview,
        hours=hours,
        ended=sum(hour.completed + hour.failed + hour.cancelled for hour in hours),
        failed=sum(hour.failed for hour in hours),
        parts=sorted(parts, key=lambda part: (WORST_FIRST.index(part.status), part.name)),
        health=worst(parts),
        queues=queues if sees_all else {},
        sees_all=sees_all,
        failures=_group(letters)[:FAILURES_SHOWN],
        broken=[schedule for schedule in schedules.items if schedule.status == "broken"],
        refused=dict(gateway.registry.refused) if sees_all else {},
    )


def _group(letters: Sequence[DeadLetter]) -> list[tuple[DeadLetter, int]]:
    """The first dead letter of each job, and how many of those that were read are the job's."""
    by_job: dict[str, list[DeadLetter]] = {}
    for letter in letters:
        by_job.setdefault(letter.job_id, []).append(letter)
    return [(found[0], len(found)) for found in by_job.values()]


def spread_hours(counts: Iterable[HourCount], now: datetime) -> list[Hour]:
    """Every hour of the last day, also those in which nothing ended."""
    found = {(count.hour.astimezone(UTC), count.state): count.jobs for count in counts}
    last = now.replace(minute=0, second=0, microsecond=0)
    begins = [last - timedelta(hours=back) for back in reversed(range(HOURS))]
    states = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)
    rows = [(begin, tuple(found.get((begin, state), 0) for state in states)) for begin in begins]
    most = max((sum(row) for _, row in rows), default=0) or 1
    return [
        Hour(begin, done, failed, cancelled, (100 * done / most, 100 * failed / most, 100 * cancelled / most))
        for begin, (done, failed, cancelled) in rows
    ]
