"""A job's workflow, drawn with the status of its nodes."""

import asyncio

from fastapi import APIRouter, Response

from anabranch.access import Scope
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.api.answers.build import build_graph
from anabranch.api.answers.etags import IfNoneMatch
from anabranch.api.deps import CurrentReads, needs
from anabranch.api.drawing import SVG_RESPONSES, answer_svg
from anabranch.api.openapi.declare import JOB_CODES, problems
from anabranch.api.paths import JobId
from anabranch.contract.jobs import Graph
from anabranch.engine.model import Job
from anabranch.enums import NodeStatus
from anabranch.workflows.drawing.diagram import draw_workflow, workflow_svg

__all__ = ["router"]

router = APIRouter(prefix="/api/jobs", tags=["jobs"])


@router.get(
    "/{job_id}/graph",
    dependencies=[needs(Scope.READ)],
    responses=problems(*JOB_CODES, "workflow.definition_missing", "workflow.unreadable"),
)
async def show_graph(job_id: JobId, reads: CurrentReads) -> Graph:
    """The nodes and edges of the workflow that a job was pinned to, with positions and the status of each node."""
    job = await reads.find(job_id)
    layout = await asyncio.to_thread(draw_workflow, await reads.workflow(job))
    return build_graph(job, layout, await _statuses(reads, job))


@router.get(
    "/{job_id}/graph.svg",
    dependencies=[needs(Scope.READ)],
    response_class=Response,
    responses={**SVG_RESPONSES, **problems(*JOB_CODES, "workflow.definition_missing", "workflow.unreadable")},
)
async def draw_job(job_id: JobId, reads: CurrentReads, if_none_match: IfNoneMatch = None) -> Response:
    """The same as SVG, each node in the colour of its status."""
    job = await reads.find(job_id)
    workflow, states = await reads.workflow(job), await _statuses(reads, job)
    return answer_svg(await asyncio.to_thread(workflow_svg, workflow, states), if_none_match)


async def _statuses(reads: PostgresReads, job: Job) -> dict[str, NodeStatus]:
    return {node.name: node.status for node in await reads.nodes(job.id)}
