"""What happened to a job, and what its tasks printed."""

from typing import Annotated

from fastapi import APIRouter, Query

from anabranch.access import Scope
from anabranch.api.answers.openapi import problems
from anabranch.api.deps import CurrentGateway, needs
from anabranch.api.paths import JobId
from anabranch.api.requests import EventsQuery, LogsQuery
from anabranch.api.schemas import EventView, LogView, Page

__all__ = ["router"]

router = APIRouter(prefix="/api/jobs", tags=["jobs"])


@router.get("/{job_id}/events", dependencies=[needs(Scope.READ)], responses=problems(404, 409, 410))
async def list_events(
    job_id: JobId, query: Annotated[EventsQuery, Query()], gateway: CurrentGateway
) -> Page[EventView]:
    """Every change of state of a job and its nodes, in order."""
    job = (await gateway.reads.head(job_id)).job
    found = await gateway.reads.events(job, after=query.after, limit=query.limit + 1)
    shown = found[: query.limit]
    return Page(
        items=[EventView.of(event) for event in shown], next=str(shown[-1].seq) if len(found) > len(shown) else None
    )


@router.get("/{job_id}/logs", dependencies=[needs(Scope.READ)], responses=problems(404, 409, 410))
async def list_logs(job_id: JobId, query: Annotated[LogsQuery, Query()], gateway: CurrentGateway) -> Page[LogView]:
    """What the attempts of a job's tasks printed and measured, in order; known when an attempt has ended."""
    job = (await gateway.reads.head(job_id)).job
    found = await gateway.reads.logs(
        job, limit=query.limit + 1, after=query.after, node=query.node, index=query.index, attempt=query.attempt
    )
    if query.node and not found:
        await gateway.reads.require_node(job, query.node)
    shown = found[: query.limit]
    return Page(
        items=[LogView.of(trace) for trace in shown], next=shown[-1].cursor if len(found) > len(shown) else None
    )
