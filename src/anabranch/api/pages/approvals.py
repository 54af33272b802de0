"""Approvals: what waits for a person, and one of it with a preview, a report, and the decision."""

import asyncio
from typing import Annotated

from fastapi import Query, Response

from anabranch.access import Scope
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.api.answers.build import build_job
from anabranch.api.deps import Caller, CurrentCaller, CurrentGateway, CurrentReads, CurrentServing
from anabranch.api.pages.input_forms import Field, read_fields
from anabranch.api.pages.rendering import CurrentPage, page_router
from anabranch.api.paths import JobId
from anabranch.api.platform.build import build_release
from anabranch.api.platform.callers import platform_filter
from anabranch.api.platform.previews import preview_job, preview_release
from anabranch.api.platform.releases import list_approvals
from anabranch.api.platform.requests import PageQuery, ReleaseId
from anabranch.contract.jobs import JobStatus, Node
from anabranch.contract.platform import Release
from anabranch.contract.previews import Preview
from anabranch.engine.model import JobState
from anabranch.errors import NotFound
from anabranch.gateway import Gateway
from anabranch.serving.subapps import Serving

__all__ = ["router"]

router = page_router()
MAX_JOBS = 20


@router.get("/approvals")
async def show_approvals(
    page: CurrentPage,
    query: Annotated[PageQuery, Query()],
    caller: CurrentCaller,
    gateway: CurrentGateway,
    reads: CurrentReads,
) -> Response:
    """Releases that wait for a review, and jobs whose gates wait for an answer."""
    releases = await list_approvals(query, caller, gateway)
    jobs = await _find_gates(reads) if query.before is None else []
    return page.render("releases/approvals.html", title="Approvals", releases=releases, gates=jobs, query=query)


@router.get("/approvals/{release_id}")
async def show_review(
    release_id: ReleaseId, page: CurrentPage, caller: CurrentCaller, gateway: CurrentGateway, serving: CurrentServing
) -> Response:
    """A release with what it would publish, and the decision."""
    release = build_release(await gateway.releases.find("release_id", release_id, platform_filter(caller)))
    preview = await _find_preview(release, page.can(Scope.OPERATE), caller, gateway, serving)
    return page.render(
        "releases/review.html",
        title=f"Review {release.title or ' / '.join(release.refs.values())}",
        release=release,
        preview=preview,
        job=None,
        gate=None,
        fields=(),
    )


@router.get("/approvals/jobs/{job_id}")
async def show_job_review(
    job_id: JobId,
    page: CurrentPage,
    caller: CurrentCaller,
    gateway: CurrentGateway,
    reads: CurrentReads,
    serving: CurrentServing,
) -> Response:
    """A job that waits for an answer, with what it would publish."""
    job = build_job(await reads.job(job_id))
    gate = _gate_of(job)
    preview = None
    if gate and page.can(Scope.OPERATE):
        try:
            preview = await preview_job(job.job_id, caller, gateway, serving)
        except NotFound:
            preview = None  # it waits for something else than a review
    return page.render(
        "releases/review.html",
        title=f"Review {job.job_type} {job.job_id[:12]}",
        release=None,
        preview=preview,
        job=job,
        gate=gate,
        fields=_fields_of(gate),
    )


async def _find_preview(
    release: Release, may_look: bool, caller: Caller, gateway: Gateway, serving: Serving
) -> Preview | None:
    if not may_look or release.processing_status != "completed" or release.approval_status != "pending_review":
        return None
    try:
        return await preview_release(release.release_id, caller, gateway, serving)
    except NotFound:
        return None  # decided since


async def _find_gates(reads: PostgresReads) -> list[tuple[JobStatus, Node]]:
    """The jobs that wait for an answer; those of releases are reviewed as releases."""
    found = await reads.jobs(limit=MAX_JOBS, before=None, state=JobState.WAITING, workflow=None, parent=None, labels={})
    details = await asyncio.gather(*(reads.detail(job) for job in found if not job.release_id))
    jobs = [build_job(detail) for detail in details]
    return [(job, gate) for job in jobs if (gate := _gate_of(job))]


def _gate_of(job: JobStatus) -> Node | None:
    return next((node for node in job.nodes if node.command), None)


def _fields_of(gate: Node | None) -> list[Field]:
    return read_fields(gate.answer) if gate and gate.answer else []
