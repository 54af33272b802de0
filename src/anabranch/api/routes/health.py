"""Health can fail (O1): probes, and the state of each part; the worst part wins."""

import asyncio
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from anabranch.access import Scope
from anabranch.api.deps import CurrentGateway, CurrentTick, needs
from anabranch.api.openapi import problems
from anabranch.app import Gateway
from anabranch.engine.errors import Unavailable
from anabranch.engine.model import Vitals
from anabranch.engine.ports import Refused

__all__ = ["router"]

router = APIRouter(tags=["health"])

PATIENCE_SECONDS = 3.0
SESSION_PATIENCE_SECONDS = 0.5
OLDEST_TICK_SECONDS = 10.0
Status = Literal["ok", "degraded", "down"]
WORST: tuple[Status, ...] = ("down", "degraded", "ok")


class Component(BaseModel):
    """One part of the stack."""

    model_config = ConfigDict(frozen=True)
    status: Status
    detail: str


class Health(BaseModel):
    """The state of every part; the worst of them is the state of all."""

    model_config = ConfigDict(frozen=True)
    status: Status
    components: dict[str, Component]
    queues: dict[str, int] = Field(description="Tasks that wait for a worker, by queue.")


class Alive(BaseModel):
    """The event loop turns."""

    model_config = ConfigDict(frozen=True)
    status: Status
    tick_age_seconds: float | None = Field(description="Not for strangers.")


class Ready(BaseModel):
    """Jobs can be submitted and read."""

    model_config = ConfigDict(frozen=True)
    status: Status


@router.get(
    "/api/health",
    dependencies=[needs(Scope.READ)],
    responses={503: {"model": Health, "description": "A part is down"}, **problems()},
)
async def show_health(gateway: CurrentGateway, response: Response) -> Health:
    """The state of every part, and the depth of the queues."""
    try:
        vitals = await take_vitals(gateway)
    except Unavailable as error:
        components, queues = judge_silence(error), {}
    else:
        components, queues = judge(vitals), vitals.queues
    status = next(level for level in WORST if any(part.status == level for part in components.values()))
    response.status_code = 503 if status == "down" else 200
    return Health(status=status, components=components, queues=queues)


@router.get("/livez", responses=problems(503), response_model_exclude_none=True)
async def show_life(request: Request, tick: CurrentTick) -> Alive:
    """Whether the event loop turns, by the age of its own tick."""
    if tick.age > OLDEST_TICK_SECONDS:
        raise Unavailable("api.stalled", f"the event loop last ticked {tick.age:.0f} s ago", remedy="Restart the API.")
    known = request.state.principal is not None
    return Alive(status="ok", tick_age_seconds=round(tick.age, 3) if known else None)


@router.get("/readyz", responses=problems(503))
async def show_readiness(gateway: CurrentGateway) -> Ready:
    """Whether jobs can be submitted and read, by a round trip to the database."""
    await take_vitals(gateway)
    try:
        async with asyncio.timeout(SESSION_PATIENCE_SECONDS):
            await gateway.ready()
    except TimeoutError:
        reason = "the API has no session with the database"
        raise Unavailable("api.no_session", reason, remedy="Try again.") from None
    return Ready(status="ok")


async def take_vitals(gateway: Gateway) -> Vitals:
    """What health is judged by, soon or not at all."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await gateway.reads.vitals()
    except TimeoutError:
        reason = f"the database did not answer in {PATIENCE_SECONDS:g} s"
        raise Unavailable("database.unreachable", reason, remedy="Start the server.") from None
    except Refused as error:
        remedy = "Run `anabranch db migrate`."
        raise Unavailable(
            "database.not_migrated", f"schema app can't be read: {error.message}", remedy=remedy
        ) from error


def judge(vitals: Vitals) -> dict[str, Component]:
    """The state of each part by what the database knows of it."""
    return {
        "database": Component(status="ok", detail="it answers"),
        "orchestrators": _count(vitals.orchestrators, none="down"),
        "workers": _count(vitals.workers, none="degraded"),
        "sweeper": _judge_sweeper(vitals.sweeper_age_seconds, vitals.sweeper_every_seconds),
    }


def judge_silence(error: Unavailable) -> dict[str, Component]:
    """The state of each part while the database is silent."""
    unknown = Component(status="down", detail="unknown: the database doesn't answer")
    others = ("orchestrators", "workers", "sweeper")
    return {"database": Component(status="down", detail=error.code), **dict.fromkeys(others, unknown)}


def _count(alive: int, *, none: Status) -> Component:
    return Component(status="ok" if alive else none, detail=f"{alive} alive" if alive else "none is alive")


def _judge_sweeper(age: float | None, every: float | None) -> Component:
    if age is None or every is None:
        return Component(status="down", detail="it has never ticked")
    late = age > 3 * every + 5
    return Component(status="down" if late else "ok", detail=f"last tick {age:.0f} s ago, due every {every:g} s")
