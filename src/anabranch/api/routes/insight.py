"""Where time goes and what fails: of a job, and of all jobs."""

import asyncio

from fastapi import APIRouter

from anabranch.access import Scope
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.api.answers.insight import MAX_ATTEMPTS, build_timeline
from anabranch.api.deps import CurrentGateway, CurrentReads, needs
from anabranch.api.openapi.declare import JOB_CODES, problems
from anabranch.api.paths import JobId, WorkflowId
from anabranch.contract.insight import FailureGroup, Overview, Timeline, WorkflowVersion
from anabranch.engine.model import Job
from anabranch.workflows.drawing.diagram import draw_workflow

__all__ = ["MAX_GROUPS", "read_timeline", "router"]

router = APIRouter(prefix="/api", tags=["insight"])
MAX_GROUPS = 50


@router.get(
    "/jobs/{job_id}/timeline",
    dependencies=[needs(Scope.READ)],
    responses=problems(*JOB_CODES, "workflow.definition_missing", "workflow.unreadable"),
)
async def show_timeline(job_id: JobId, reads: CurrentReads) -> Timeline:
    """When the nodes of a job and the attempts of their first tasks waited, started and ran; and the critical path."""
    return await read_timeline(reads, await reads.find(job_id))


@router.get("/jobs/{job_id}/failures", dependencies=[needs(Scope.READ)], responses=problems(*JOB_CODES))
async def list_failures(job_id: JobId, reads: CurrentReads) -> list[FailureGroup]:
    """The failed tasks of a job, grouped by what went wrong, the largest groups first; at most 50 groups."""
    return await reads.failure_groups((await reads.head(job_id)).job, limit=MAX_GROUPS)


@router.get(
    "/workflows/{workflow_id}/versions", dependencies=[needs(Scope.READ)], responses=problems("workflow.not_found")
)
async def list_versions(workflow_id: WorkflowId, gateway: CurrentGateway, reads: CurrentReads) -> list[WorkflowVersion]:
    """The definitions of a workflow that its newest jobs were pinned to, the last used first."""
    return await reads.workflow_versions(gateway.declaration(workflow_id).workflow.id)


@router.get("/overview", dependencies=[needs(Scope.READ)], responses=problems())
async def show_overview(reads: CurrentReads) -> Overview:
    """What goes on, what failed in the last day, and what waits longest. `/api/health` has the parts of the stack."""
    return await reads.overview()


async def read_timeline(reads: PostgresReads, job: Job) -> Timeline:
    """The timeline of a job."""
    layout = await asyncio.to_thread(draw_workflow, await reads.workflow(job))
    nodes, times = await asyncio.gather(reads.nodes(job.id), reads.attempt_times(job.id, limit=MAX_ATTEMPTS))
    return build_timeline(job, nodes, layout, times)
