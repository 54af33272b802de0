"""A job's events as they happen."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from anabranch.access import Scope
from anabranch.api.answers.openapi import problems
from anabranch.api.deps import CurrentGateway, CurrentLookout, needs
from anabranch.api.paths import JobId
from anabranch.api.requests import StreamQuery
from anabranch.api.streaming.events import STREAMED, EventStream

__all__ = ["router"]

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

LastEvent = Annotated[
    int | None,
    Header(alias="Last-Event-ID", ge=0, lt=2**31, description="As a browser sends it; stands above `after`."),
]


@router.get(
    "/{job_id}/stream",
    dependencies=[needs(Scope.READ)],
    response_class=Response,
    responses={**STREAMED, **problems(404, 409, 410)},
)
async def stream_events(
    job_id: JobId,
    query: Annotated[StreamQuery, Query()],
    gateway: CurrentGateway,
    lookout: CurrentLookout,
    last_event_id: LastEvent = None,
) -> Response:
    """A job's events as they happen, from the first or after one of them, without a gap or a repeat."""
    after = query.after if last_event_id is None else last_event_id
    return EventStream(lookout, await gateway.reads.head(job_id), after)
