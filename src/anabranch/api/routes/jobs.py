"""Submit, list and show jobs."""

from dataclasses import replace
from typing import Annotated, cast

import structlog
from fastapi import APIRouter, Query, Request, Response

from anabranch.access import Scope
from anabranch.api.answers.build import build_job, build_page, build_summary, build_task
from anabranch.api.answers.etags import IfNoneMatch, allow_caching, not_modified, returns_cacheable
from anabranch.api.callbacks import check_callbacks, move_callbacks, read_callbacks
from anabranch.api.deps import CurrentCaller, CurrentGateway, CurrentLimits, CurrentReads, needs, read_key
from anabranch.api.openapi.declare import (
    BODY_CODES,
    JOB_CODES,
    SUBMIT_CODES,
    Responses,
    body,
    keyed,
    problems,
    queried,
    takes,
)
from anabranch.api.paths import JobId, WorkflowId
from anabranch.api.requests.body import JsonBody
from anabranch.api.requests.job_bodies import check_job, find_all_mistakes, read_job, read_submit_query
from anabranch.api.requests.models import JobRequest, JobsQuery, SubmitQuery, TasksQuery
from anabranch.api.submission import submit_wanted
from anabranch.canonical import JsonObject
from anabranch.contract.answer import Page
from anabranch.contract.jobs import CheckedJob, JobStatus, JobSummary, SubmittedJob, Task
from anabranch.engine.model import TERMINAL_STATES
from anabranch.engine.read_models import LabelledJob
from anabranch.errors import InputError
from anabranch.serving.etags import has, tag_of

__all__ = ["EXISTING_JOB", "SUBMIT_PROBLEMS", "find_jobs", "router"]

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

SUBMIT_PROBLEMS = problems(*BODY_CODES, *SUBMIT_CODES)
EXISTING_JOB: Responses = {200: {"model": SubmittedJob, "description": "The job already existed"}}


@router.post(
    "/submit/{job_type}",
    dependencies=[needs(Scope.SUBMIT)],
    status_code=202,
    response_model=SubmittedJob,
    responses={**EXISTING_JOB, **SUBMIT_PROBLEMS},
    openapi_extra=queried(SubmitQuery, keyed(body({"type": "object"}, required=False))),
)
async def submit_parameters(
    job_type: WorkflowId,
    parameters: JsonBody,
    caller: CurrentCaller,
    gateway: CurrentGateway,
    limits: CurrentLimits,
    request: Request,
) -> Response:
    """Submit a job; the body holds its parameters. The same workflow and parameters return the same job."""
    moved = move_callbacks({"parameters": parameters})
    moved_parameters = cast(JsonObject, moved["parameters"])
    try:
        query, key = read_submit_query(request), read_key(request)
    except InputError as error:
        raise find_all_mistakes(
            lambda: read_submit_query(request),
            lambda: read_key(request),
            lambda: gateway.declaration(job_type).check(moved_parameters),
        ) from error
    wanted = JobRequest.model_construct(
        workflow=job_type,
        parameters=moved_parameters,
        priority=query.priority,
        rerun=query.rerun,
        labels=query.labels,
        callbacks=read_callbacks(moved),
    )
    return await submit_wanted(gateway, limits, caller, wanted, key)


@router.post(
    "",
    dependencies=[needs(Scope.SUBMIT)],
    status_code=202,
    response_model=SubmittedJob,
    responses={**EXISTING_JOB, **SUBMIT_PROBLEMS},
    openapi_extra=keyed(body(JobRequest, required=True)),
)
async def submit_job(
    given: JsonBody,
    caller: CurrentCaller,
    gateway: CurrentGateway,
    limits: CurrentLimits,
    request: Request,
) -> Response:
    """Submit a job. The same workflow and parameters return the same job."""
    try:
        wanted, key = read_job(given, gateway), read_key(request)
    except InputError as error:
        raise find_all_mistakes(lambda: check_job(given, gateway), lambda: read_key(request)) from error
    if wanted.correlation_id:
        caller = replace(caller, correlation_id=wanted.correlation_id)
        request.state.correlation_id = caller.correlation_id
        structlog.contextvars.bind_contextvars(correlation_id=caller.correlation_id)
    return await submit_wanted(gateway, limits, caller, wanted, key)


@router.post(
    "/validate",
    dependencies=[needs(Scope.SUBMIT)],
    **takes(JobRequest, "workflow.not_found", "job.parameters", "node.count"),
)
async def validate_job(given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway) -> CheckedJob:
    """Check a job without submitting it: the body of a submission; every mistake in it is reported at once."""
    checked = check_job(given, gateway)
    await check_callbacks(gateway, caller.platform, read_job(given, gateway).callbacks)
    return checked


async def find_jobs(query: JobsQuery, reads: CurrentReads) -> list[LabelledJob]:
    """The jobs of a page, and one more if there is a next one."""
    parent = (await reads.find(query.parent)).id if query.parent else None
    return await reads.jobs(
        limit=query.limit + 1,
        before=query.before,
        state=query.status,
        workflow=query.workflow,
        parent=parent,
        labels=query.labels,
    )


@router.get("", dependencies=[needs(Scope.READ)], responses=problems(*JOB_CODES))
async def list_jobs(query: Annotated[JobsQuery, Query()], reads: CurrentReads) -> Page[JobSummary]:
    """Jobs, the newest first."""
    found = await find_jobs(query, reads)
    return build_page(found, query.limit, build_summary, lambda job: job.id, "before")


RETURNS_JOB = returns_cacheable(JobStatus, *JOB_CODES)


@router.get(
    "/{job_id}",
    name="show_job",
    description="The same as `/api/jobs/status/{job_id}`.",
    dependencies=[needs(Scope.READ)],
    **RETURNS_JOB,
)
@router.get("/status/{job_id}", dependencies=[needs(Scope.READ)], **RETURNS_JOB)
async def show_status(
    job_id: JobId, reads: CurrentReads, response: Response, if_none_match: IfNoneMatch = None
) -> JobStatus | Response:
    """A job with its nodes, its progress and its result; a unique prefix of its id is enough.

    Once it has ended, the response has an ETag.
    """
    job = await reads.find(job_id)
    if job.state in TERMINAL_STATES:
        tag = tag_of(job.job_id, job.last_event)
        if has(if_none_match, tag):
            return not_modified(tag)
        allow_caching(response, tag)
    return build_job(await reads.detail(job))


@router.get(
    "/{job_id}/tasks",
    dependencies=[needs(Scope.READ)],
    responses=problems(*JOB_CODES, "node.not_found", "page.cursor"),
)
async def list_tasks(job_id: JobId, query: Annotated[TasksQuery, Query()], reads: CurrentReads) -> Page[Task]:
    """The tasks of a job, in order."""
    job = (await reads.head(job_id)).job
    found = await reads.tasks(job, limit=query.limit + 1, after=query.after, node=query.node, status=query.status)
    if query.node and not found:
        await reads.require_node(job, query.node)
    return build_page(found, query.limit, build_task, lambda task: task.cursor)
