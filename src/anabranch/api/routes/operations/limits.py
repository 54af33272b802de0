"""Queues, limits and pauses."""

import structlog
from fastapi import APIRouter

from anabranch.access import Scope
from anabranch.api.deps import Caller, CurrentCaller, CurrentGateway, needs
from anabranch.api.openapi.declare import BODY_CODES, body, problems, takes
from anabranch.api.paths import Kind, LimitedName
from anabranch.api.requests.body import JsonBody, check_body
from anabranch.api.requests.models import LimitRequest, PauseRequest
from anabranch.api.requests.unknown_names import warn_of_unknown
from anabranch.contract.answer import build
from anabranch.contract.control import Limit, Paused, Queue, SetLimit
from anabranch.engine.model import LimitKind
from anabranch.errors import NotFound
from anabranch.gateway import Gateway

__all__ = ["router"]

log = structlog.get_logger()
router = APIRouter(prefix="/api", tags=["limits"])
NEEDS_ADMIN = needs(Scope.ADMIN)
PAUSE_BODY = body(PauseRequest, required=False)


@router.get("/queues", dependencies=[NEEDS_ADMIN], responses=problems())
async def list_queues(gateway: CurrentGateway) -> list[Queue]:
    """Queues that have tasks, workers or limits."""
    return await gateway.reads.queues()


@router.post(
    "/queues/{name}/pause", dependencies=[NEEDS_ADMIN], responses=problems(*BODY_CODES), openapi_extra=PAUSE_BODY
)
async def pause_queue(name: LimitedName, given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway) -> Paused:
    """Start no more tasks of a queue; running tasks continue."""
    return await _pause(gateway, caller, LimitKind.QUEUE, name, given)


@router.post("/queues/{name}/resume", dependencies=[NEEDS_ADMIN], responses=problems())
async def resume_queue(name: LimitedName, caller: CurrentCaller, gateway: CurrentGateway) -> Paused:
    """Start tasks of a queue again."""
    return await _resume(gateway, caller, LimitKind.QUEUE, name)


@router.post(
    "/workflows/{name}/pause",
    dependencies=[NEEDS_ADMIN],
    responses=problems(*BODY_CODES, "workflow.not_found"),
    openapi_extra=PAUSE_BODY,
)
async def pause_workflow(name: LimitedName, given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway) -> Paused:
    """Start no more tasks of a workflow's jobs; running tasks continue, and jobs can be submitted."""
    gateway.declaration(name)
    return await _pause(gateway, caller, LimitKind.WORKFLOW, name, given)


@router.post("/workflows/{name}/resume", dependencies=[NEEDS_ADMIN], responses=problems("workflow.not_found"))
async def resume_workflow(name: LimitedName, caller: CurrentCaller, gateway: CurrentGateway) -> Paused:
    """Start tasks of a workflow's jobs again."""
    if not await _is_limited(gateway, LimitKind.WORKFLOW, name):
        gateway.declaration(name)
    return await _resume(gateway, caller, LimitKind.WORKFLOW, name)


@router.get("/limits", dependencies=[NEEDS_ADMIN], responses=problems())
async def list_limits(gateway: CurrentGateway) -> list[Limit]:
    """All limits and pauses."""
    return await gateway.reads.limits()


@router.put("/limits/{kind}/{name}", dependencies=[NEEDS_ADMIN], **takes(LimitRequest, "limit.not_found"))
async def set_limit(
    kind: Kind, name: LimitedName, given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway
) -> SetLimit:
    """Limit how many tasks of a queue, workflow, handler or key run at once."""
    wanted = check_body(LimitRequest, given)
    limit = await gateway.controls.limit(kind, name, {"most": wanted.most, "reason": wanted.reason}, caller.name)
    log.info("limit.set", kind=kind, name=name, most=wanted.most)
    if limit is None:  # somebody took it away in the same moment
        raise _no_limit(kind, name)
    return build(SetLimit, limit, warning=await _warn(gateway, kind, name))


@router.delete("/limits/{kind}/{name}", dependencies=[NEEDS_ADMIN], responses=problems("limit.not_found"))
async def remove_limit(kind: Kind, name: LimitedName, caller: CurrentCaller, gateway: CurrentGateway) -> Paused:
    """Remove a limit; a pause stays."""
    if not await _is_limited(gateway, kind, name):
        raise _no_limit(kind, name)
    left = await gateway.controls.limit(kind, name, {"most": None}, caller.name)
    log.info("limit.removed", kind=kind, name=name)
    return Paused(kind=kind, name=name, paused=left is not None, reason=left.reason if left else "")


async def _pause(gateway: Gateway, caller: Caller, kind: LimitKind, name: str, given: JsonBody) -> Paused:
    reason = check_body(PauseRequest, given).reason
    await gateway.controls.limit(kind, name, {"paused": True, "reason": reason}, caller.name)
    log.info("limit.paused", kind=kind, name=name, reason=reason)
    warning = await _warn(gateway, kind, name)
    return Paused(kind=kind, name=name, paused=True, reason=reason, warning=warning)


async def _resume(gateway: Gateway, caller: Caller, kind: LimitKind, name: str) -> Paused:
    await gateway.controls.limit(kind, name, {"paused": False}, caller.name)
    log.info("limit.resumed", kind=kind, name=name)
    return Paused(kind=kind, name=name, paused=False, reason="")


async def _is_limited(gateway: Gateway, kind: LimitKind, name: str) -> bool:
    return any((limit.kind, limit.name) == (kind, name) for limit in await gateway.reads.limits())


async def _warn(gateway: Gateway, kind: LimitKind, name: str) -> str | None:
    return warn_of_unknown(kind, name, gateway.registry, await gateway.reads.queues())


def _no_limit(kind: LimitKind, name: str) -> NotFound:
    return NotFound("limit.not_found", f"the {kind} {name!r} has no limit")
