"""Probes, and the status of each part of the stack; the worst one is the overall status (O1)."""

import asyncio
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from anabranch.access import Scope
from anabranch.api.deps import CurrentCaller, CurrentGateway, CurrentMonitor, CurrentTick, needs
from anabranch.api.health.diagnosis import OLDEST_TICK_SECONDS, worst
from anabranch.api.openapi.declare import problems
from anabranch.contract.answer import build
from anabranch.contract.stack import Alive, Component, Health, Ready
from anabranch.errors import Unavailable

__all__ = ["router"]

router = APIRouter(tags=["health"])

SESSION_TIMEOUT_SECONDS = 0.4


@router.get(
    "/api/health",
    dependencies=[needs(Scope.READ)],
    responses={**problems(), 503: {**problems()[503], "model": Health, "description": "A part is down"}},
)
async def show_health(monitor: CurrentMonitor, caller: CurrentCaller, response: Response) -> Health:
    """The status of every part; within two seconds, even if the database hangs.

    An admin also gets the details, which may name jobs and machines, and the queue depths.
    """
    parts, queues = await monitor.examine()
    status = worst(parts)
    response.status_code = 503 if status == "down" else 200
    if caller.visible_platform is not None:
        parts, queues = [replace(part, detail="", remedy="") for part in parts], {}
    components = {part.name: build(Component, part, remedy=part.remedy or None) for part in parts}
    return Health(status, components, queues)


@router.get("/livez", responses=problems("api.stalled"), response_model_exclude_none=True)
async def show_life(request: Request, tick: CurrentTick) -> Alive:
    """Whether the event loop responds."""
    if tick.age > OLDEST_TICK_SECONDS:
        raise Unavailable("api.stalled", f"the event loop last ticked {tick.age:.0f} s ago")
    known = request.state.principal is not None
    return Alive(status="ok", tick_age_seconds=round(tick.age, 3) if known else None)


@router.get("/readyz", responses=problems())
async def show_readiness(gateway: CurrentGateway, monitor: CurrentMonitor) -> Ready:
    """Whether jobs can be submitted and read: checks the database."""
    await monitor.vitals()
    try:
        async with asyncio.timeout(SESSION_TIMEOUT_SECONDS):
            await gateway.ready()
    except TimeoutError:
        reason = "the API has no session with the database"
        raise Unavailable("api.no_session", reason, remedy="Try again.") from None
    return Ready(status="ok")
