"""Schedules: their next ticks, what became of the former ones, and what can be done with them."""

from datetime import datetime
from typing import Annotated

from fastapi import Query, Response
from pydantic import AwareDatetime, Field

from anabranch.access import PLATFORM_PATTERN
from anabranch.api.deps import CurrentCaller, CurrentGateway
from anabranch.api.pages.rendering import CurrentPage, page_router
from anabranch.api.paths import ScheduleName
from anabranch.api.requests.schedules import ScheduleQuery, SchedulesQuery, TicksQuery
from anabranch.api.routes.schedules import list_schedules, list_ticks, show_schedule
from anabranch.contract.schedules import Schedule
from anabranch.strict_model import StrictModel
from anabranch.workflows.schedules.cron import next_tick
from anabranch.workflows.schedules.schedule import CatchUp, Overlap

__all__ = ["list_next_ticks", "router"]

router = page_router()
MAX_COMING = 5
MAX_TICKS = 50


class ScheduleForm(StrictModel):
    """Whose schedule is shown, and where its history begins."""

    platform: Annotated[str, Field(pattern=f"^{PLATFORM_PATTERN.pattern}$")] | None = None
    before: AwareDatetime | None = None


@router.get("/schedules")
async def show_schedules(
    page: CurrentPage, query: Annotated[SchedulesQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Response:
    """Schedules, the newest first, and a form for another one."""
    return page.render(
        "operations/schedules.html",
        title="Schedules",
        schedules=await list_schedules(query, caller, gateway),
        query=query,
        workflows=sorted(gateway.registry.declarations),
        overlaps=list(Overlap),
        catch_ups=list(CatchUp),
    )


@router.get("/schedules/{schedule}")
async def show_one_schedule(
    schedule: ScheduleName,
    page: CurrentPage,
    query: Annotated[ScheduleForm, Query()],
    caller: CurrentCaller,
    gateway: CurrentGateway,
) -> Response:
    """A schedule with its next and its former ticks."""
    found = await show_schedule(schedule, ScheduleQuery(platform=query.platform), caller, gateway)
    wanted = TicksQuery(platform=query.platform, before=query.before, limit=MAX_TICKS)
    return page.render(
        "operations/schedule.html",
        title=f"Schedule {found.name}",
        schedule=found,
        coming=list_next_ticks(found),
        ticks=await list_ticks(schedule, wanted, caller, gateway),
        query=query,
    )


def list_next_ticks(schedule: Schedule) -> list[datetime]:
    """The ticks that come next; none while it makes none."""
    found: list[datetime] = []
    coming = schedule.next_at
    while coming and schedule.cron and len(found) < MAX_COMING:
        found.append(coming)
        coming = next_tick(schedule.cron, schedule.timezone, coming)
    return found
