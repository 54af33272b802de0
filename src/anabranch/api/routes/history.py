"""What happened to a job."""

from typing import Annotated

from fastapi import APIRouter, Query

from anabranch.api.deps import CurrentGateway
from anabranch.api.openapi import problems
from anabranch.api.requests import EventsQuery
from anabranch.api.schemas import EventView, Page

__all__ = ["router"]

router = APIRouter(prefix="/api/jobs", tags=["jobs"])


@router.get("/{job_id}/events", responses=problems(404, 409, 422, 503))
async def list_events(job_id: str, query: Annotated[EventsQuery, Query()], gateway: CurrentGateway) -> Page[EventView]:
    """Every change of state of a job and its nodes, in order."""
    job = await gateway.reads.find(job_id)
    found = await gateway.reads.events(job.id, after=query.after, limit=query.limit + 1)
    shown = found[: query.limit]
    return Page(
        items=[EventView.of(event) for event in shown], next=str(shown[-1].seq) if len(found) > len(shown) else None
    )
