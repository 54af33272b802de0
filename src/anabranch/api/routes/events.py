"""The events of a job, listed or streamed; the logs of its tasks; and its support bundle."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse

from anabranch.access import Scope
from anabranch.api.answers.build import build_event, build_page
from anabranch.api.answers.bundle import BUNDLE_RESPONSES, MEDIA_TYPE, pack
from anabranch.api.deps import CurrentGateway, CurrentJobWatcher, CurrentReads, needs
from anabranch.api.openapi.declare import JOB_CODES, problems
from anabranch.api.paths import JobId
from anabranch.api.requests.models import EventsQuery, LogsQuery, StreamQuery
from anabranch.api.streaming.events import STREAM_RESPONSES, EventStream
from anabranch.contract.answer import Page, build
from anabranch.contract.jobs import Event, Log

__all__ = ["router"]

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

LastEvent = Annotated[
    int | None,
    Header(alias="Last-Event-ID", ge=0, lt=2**31, description="Sent by browsers that reconnect; overrides `after`."),
]


@router.get("/{job_id}/events", dependencies=[needs(Scope.READ)], responses=problems(*JOB_CODES))
async def list_events(job_id: JobId, query: Annotated[EventsQuery, Query()], reads: CurrentReads) -> Page[Event]:
    """Every change of a job and its nodes, in order."""
    job = (await reads.head(job_id)).job
    found = await reads.events(job, after=query.after, limit=query.limit + 1)
    return build_page(found, query.limit, build_event, lambda event: event.seq)


@router.get(
    "/{job_id}/logs",
    dependencies=[needs(Scope.READ)],
    responses=problems(*JOB_CODES, "node.not_found", "page.cursor"),
)
async def list_logs(job_id: JobId, query: Annotated[LogsQuery, Query()], reads: CurrentReads) -> Page[Log]:
    """The output and metrics of the attempts of a job's tasks, in order; running attempts too."""
    job = (await reads.head(job_id)).job
    found = await reads.logs(
        job,
        limit=query.limit + 1,
        after=query.after,
        node=query.node,
        index=query.index,
        attempt=query.attempt,
        status=query.status,
    )
    if query.node and not found:
        await reads.require_node(job, query.node)
    return build_page(found, query.limit, lambda trace: build(Log, trace), lambda trace: trace.cursor)


@router.get(
    "/{job_id}/stream",
    dependencies=[needs(Scope.READ)],
    response_class=Response,
    responses={**STREAM_RESPONSES, **problems(*JOB_CODES, "stream.too_many")},
)
async def stream_events(
    job_id: JobId,
    query: Annotated[StreamQuery, Query()],
    reads: CurrentReads,
    job_watcher: CurrentJobWatcher,
    last_event_id: LastEvent = None,
) -> Response:
    """A job's events as they happen, from the first or after one of them, without a gap or a repeat."""
    after = query.after if last_event_id is None else last_event_id
    return EventStream(job_watcher, await reads.head(job_id), after)


@router.get(
    "/{job_id}/bundle",
    dependencies=[needs(Scope.OPERATE)],
    response_class=StreamingResponse,
    responses={**BUNDLE_RESPONSES, **problems(*JOB_CODES)},
)
async def bundle_job(job_id: JobId, gateway: CurrentGateway, reads: CurrentReads) -> StreamingResponse:
    """A job, its definition, events, failed tasks and their logs, versions and masked settings, in one zip."""
    job = await reads.find(job_id)
    name = f"anabranch-{job.job_id[:12]}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(pack(gateway, job), media_type=MEDIA_TYPE, headers=headers)
