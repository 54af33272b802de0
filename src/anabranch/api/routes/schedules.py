"""Schedules: when jobs are made by themselves, and what became of each tick."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Query

from anabranch.access import Scope
from anabranch.api.answers.build import page_links
from anabranch.api.deps import Caller, CurrentCaller, CurrentGateway, needs
from anabranch.api.openapi.declare import problems, takes
from anabranch.api.paths import ScheduleName
from anabranch.api.platform.callers import act_as
from anabranch.api.requests.body import JsonBody, check_body
from anabranch.api.requests.schedules import (
    AddScheduleRequest,
    BackfillRequest,
    ChangeScheduleRequest,
    ScheduleQuery,
    SchedulesQuery,
    TicksQuery,
)
from anabranch.contract.answer import Page
from anabranch.contract.schedules import Backfill, Schedule, ScheduleRun, ScheduleTick
from anabranch.errors import AnabranchError
from anabranch.gateway import Gateway

__all__ = ["router"]

log = structlog.get_logger()
router = APIRouter(prefix="/api/schedules", tags=["schedules"])
READ, OPERATE = needs(Scope.READ), needs(Scope.OPERATE)
INPUT_CODES = ("workflow.not_found", "job.parameters", "node.count", "storage.not_readable")
Given = Annotated[ScheduleQuery, Query()]


def _platform(caller: Caller, wanted: str | None) -> str:
    """Whose schedules are meant: the caller's own, or, for an admin, those of the platform that is named."""
    platform = wanted or caller.platform
    if caller.visible_platform not in (None, platform):
        raise AnabranchError("auth.forbidden", "a schedule of another platform needs the scope admin")
    return platform


@router.post(
    "",
    dependencies=[OPERATE],
    status_code=201,
    **takes(AddScheduleRequest, *INPUT_CODES, "platform.not_found", "schedule.exists", "schedule.too_many"),
)
async def add_schedule(given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway) -> Schedule:
    """Add a schedule: with a cron expression, from now on, or with a folder to watch."""
    wanted = check_body(AddScheduleRequest, given)
    platform = _platform(caller, wanted.platform)
    if platform != caller.platform:
        await gateway.releases.platforms.require(platform)
    made = await gateway.schedules.add(platform, wanted.name, wanted.wanted, act_as(caller))
    log.info("schedule.added", schedule=made.name, platform=platform)
    return made


@router.get("", dependencies=[READ], responses=problems())
async def list_schedules(
    query: Annotated[SchedulesQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Page[Schedule]:
    """Schedules, the newest first, those of workflow files among them."""
    page = await gateway.schedules.list_page(caller.visible_platform, before=query.before, limit=query.limit)
    return Page(page.items, page.next, page_links("before", page.next))


@router.get("/{schedule}", dependencies=[READ], responses=problems("schedule.not_found"))
async def show_schedule(
    schedule: ScheduleName, query: Given, caller: CurrentCaller, gateway: CurrentGateway
) -> Schedule:
    """A schedule."""
    return await gateway.schedules.show(_platform(caller, query.platform), schedule)


@router.patch(
    "/{schedule}",
    dependencies=[OPERATE],
    **takes(ChangeScheduleRequest, *INPUT_CODES, "schedule.not_found", "schedule.of_workflow", "schedule.changed"),
)
async def change_schedule(
    schedule: ScheduleName, query: Given, given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway
) -> Schedule:
    """Change a schedule; what is not given stays. With a new cron expression or time zone, ticks count from now on."""
    change = check_body(ChangeScheduleRequest, given).change
    return await gateway.schedules.change(_platform(caller, query.platform), schedule, change, act_as(caller))


@router.delete("/{schedule}", dependencies=[OPERATE], responses=problems("schedule.not_found", "schedule.of_workflow"))
async def remove_schedule(
    schedule: ScheduleName, query: Given, caller: CurrentCaller, gateway: CurrentGateway
) -> Schedule:
    """Remove a schedule with its history; its jobs stay. The answer is what it was."""
    removed = await gateway.schedules.remove(_platform(caller, query.platform), schedule, act_as(caller))
    log.info("schedule.removed", schedule=removed.name, platform=removed.platform)
    return removed


@router.post("/{schedule}/pause", dependencies=[OPERATE], responses=problems("schedule.not_found"))
async def pause_schedule(
    schedule: ScheduleName, query: Given, caller: CurrentCaller, gateway: CurrentGateway
) -> Schedule:
    """Make no more ticks until the schedule is resumed; jobs go on."""
    return await _pause(gateway, caller, schedule, query, paused=True)


@router.post("/{schedule}/resume", dependencies=[OPERATE], responses=problems("schedule.not_found"))
async def resume_schedule(
    schedule: ScheduleName, query: Given, caller: CurrentCaller, gateway: CurrentGateway
) -> Schedule:
    """Make ticks again, from now on, without those of the pause; what came into a watched folder meanwhile is found."""
    return await _pause(gateway, caller, schedule, query, paused=False)


async def _pause(gateway: Gateway, caller: Caller, schedule: str, query: ScheduleQuery, *, paused: bool) -> Schedule:
    return await gateway.schedules.pause(_platform(caller, query.platform), schedule, act_as(caller), paused=paused)


@router.post(
    "/{schedule}/run",
    dependencies=[OPERATE],
    status_code=202,
    responses=problems(
        "schedule.not_found",
        "schedule.changed",
        "schedule.retired",
        "schedule.broken",
        "schedule.watches",
        *INPUT_CODES,
    ),
)
async def run_schedule(
    schedule: ScheduleName, query: Given, caller: CurrentCaller, gateway: CurrentGateway
) -> ScheduleRun:
    """Make a job now, also while the schedule is paused, and whatever other jobs of it go on."""
    return await gateway.schedules.run(_platform(caller, query.platform), schedule, act_as(caller))


@router.get("/{schedule}/history", dependencies=[READ], responses=problems("schedule.not_found"))
async def list_ticks(
    schedule: ScheduleName, query: Annotated[TicksQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Page[ScheduleTick]:
    """The ticks that were dealt with, the newest first."""
    platform = _platform(caller, query.platform)
    page = await gateway.schedules.history(platform, schedule, before=query.before, limit=query.limit)
    return Page(page.items, page.next, page_links("before", page.next))


@router.post(
    "/{schedule}/backfill",
    dependencies=[OPERATE],
    status_code=202,
    **takes(BackfillRequest, "schedule.not_found", "schedule.retired", "schedule.watches", "schedule.backfill"),
)
async def backfill_schedule(
    schedule: ScheduleName, query: Given, given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway
) -> Backfill:
    """Make the jobs of ticks of the past, one after another; a tick that has a job gets no other."""
    wanted = check_body(BackfillRequest, given)
    platform = _platform(caller, query.platform)
    return await gateway.schedules.backfill(
        platform, schedule, *wanted.range, wanted.limit, act_as(caller), dry_run=wanted.dry_run
    )
