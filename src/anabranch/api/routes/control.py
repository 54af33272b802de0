"""Control of jobs: cancel, retry, signal; and the tasks that failed for good."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Query, Response

from anabranch.access import Scope
from anabranch.api.answers.build import build_dead_letter, build_job, build_page
from anabranch.api.deps import CurrentCaller, CurrentControls, CurrentReads, needs
from anabranch.api.openapi.declare import BODY_CODES, JOB_CODES, body, problems, takes
from anabranch.api.paths import JobId, NodeName
from anabranch.api.requests.body import JsonBody, check_body
from anabranch.api.requests.models import CancelRequest, DeadLettersQuery, ReplayRequest, RetryRequest
from anabranch.contract.answer import Page
from anabranch.contract.control import DeadLetter, Replay, Retry, Signalled
from anabranch.contract.jobs import JobStatus
from anabranch.errors import InputError
from anabranch.job_control import RetryChoice

__all__ = ["router"]

log = structlog.get_logger()
router = APIRouter(prefix="/api", tags=["control"])
NEEDS_OPERATE = needs(Scope.OPERATE)
GATE_CODES = ("gate.answer", "gate.not_found", "gate.ended", "gate.other", "job.busy")
RETRY_CODES = (
    *JOB_CODES,
    *("retry.child", "retry.choice", "retry.nothing_failed", "retry.older", "retry.open"),
    *("node.not_found", "job.busy", "workflow.definition_missing", "workflow.unreadable"),
)


@router.post(
    "/jobs/{job_id}/cancel",
    dependencies=[NEEDS_OPERATE],
    **takes(CancelRequest, *JOB_CODES, "job.ended", "job.busy", required=False),
)
async def cancel_job(job_id: JobId, given: JsonBody, caller: CurrentCaller, controls: CurrentControls) -> JobStatus:
    """Cancel a job: no more tasks start, and running tasks are asked to stop. A job that has ended is not changed."""
    wanted = check_body(CancelRequest, given)
    cancelled = await controls.cancel(job_id, wanted.reason, caller.name)
    log.info("job.cancelled", job=cancelled.job.job_id, reason=wanted.reason)
    return build_job(cancelled)


@router.post(
    "/jobs/{job_id}/retry",
    status_code=202,
    dependencies=[NEEDS_OPERATE],
    responses={
        200: {"model": Retry, "description": "A dry run: nothing has changed"},
        **problems(*BODY_CODES, *RETRY_CODES),
    },
    openapi_extra=body(RetryRequest, required=False),
)
async def retry_job(
    job_id: JobId, given: JsonBody, caller: CurrentCaller, controls: CurrentControls, response: Response
) -> Retry:
    """Run the failed tasks of an ended job again, or a node and all nodes after it. Other results are kept."""
    wanted = check_body(RetryRequest, given)
    choice = RetryChoice(tuple(wanted.nodes), wanted.from_node)
    if wanted.dry_run:
        response.status_code = 200
        return await controls.plan_retry(job_id, choice)
    plan = await controls.retry(job_id, choice, caller.name)
    log.info("job.retried", job=plan.job_id, nodes=[node.name for node in plan.nodes])
    return plan


@router.post(
    "/jobs/{job_id}/signal/{node}",
    dependencies=[NEEDS_OPERATE],
    responses=problems(*BODY_CODES, *JOB_CODES, *GATE_CODES),
    openapi_extra=body({"type": "object"}, required=False),
)
async def signal_gate(
    job_id: JobId,
    node: NodeName,
    payload: JsonBody,
    caller: CurrentCaller,
    reads: CurrentReads,
    controls: CurrentControls,
) -> Signalled:
    """Signal a gate: the body becomes its output. Only the first signal counts."""
    job = await reads.find(job_id)
    accepted = await controls.signal(job.job_id, node, payload, caller.name)
    log.info("gate.signalled", job=job.job_id, node=node, accepted=accepted)
    return Signalled(job_id=job.job_id, node=node, accepted=accepted)


@router.get("/dead-letters", dependencies=[needs(Scope.READ)], responses=problems())
async def list_dead_letters(query: Annotated[DeadLettersQuery, Query()], reads: CurrentReads) -> Page[DeadLetter]:
    """Tasks that failed for good, the newest first; not those that a retry or a newer job took the place of."""
    found = await reads.dead_letters(
        limit=query.limit + 1, after=query.after, workflow=query.workflow, handler=query.handler, code=query.code
    )
    return build_page(found, query.limit, build_dead_letter, lambda letter: letter.cursor)


@router.post("/dead-letters/replay", dependencies=[NEEDS_OPERATE], **takes(ReplayRequest, *JOB_CODES, "replay.choice"))
async def replay_dead_letters(given: JsonBody, caller: CurrentCaller, controls: CurrentControls) -> list[Replay]:
    """Retry the jobs of dead letters, each from the nodes that have some."""
    wanted = check_body(ReplayRequest, given)
    if not (wanted.jobs or wanted.workflow or wanted.handler or wanted.code):
        raise InputError("replay.choice", "nothing says which dead letters to replay")
    replayed = await controls.replay(
        workflow=wanted.workflow,
        handler=wanted.handler,
        code=wanted.code,
        job_ids=wanted.jobs,
        limit=wanted.limit,
        by=caller.name,
    )
    log.info("dead_letters.replayed", jobs=[one.job_id for one in replayed if one.error is None])
    return replayed
