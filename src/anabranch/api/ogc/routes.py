"""OGC API - Processes 1.0 below `/ogc`: each route calls what a route of our own calls, and answers in its form."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, cast

import structlog
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import Field

from anabranch.access import Scope
from anabranch.api.answers.errors import respond
from anabranch.api.callbacks import move_callbacks, read_callbacks, seal_callbacks
from anabranch.api.deps import (
    CurrentCaller,
    CurrentControls,
    CurrentGateway,
    CurrentLimits,
    CurrentReads,
    needs,
    read_key,
)
from anabranch.api.ogc.build import (
    CONFORMANCE,
    JOB_STATES,
    Links,
    build_listed_job,
    build_process,
    build_status,
    build_summary,
)
from anabranch.api.ogc.execution import ExecuteRequest, ResponseForm, read_inputs
from anabranch.api.openapi.declare import BODY_CODES, JOB_CODES, SUBMIT_CODES, Responses, body, keyed, problems
from anabranch.api.paths import JobId, WorkflowId
from anabranch.api.requests.body import JsonBody, check_body
from anabranch.api.requests.job_bodies import find_all_mistakes
from anabranch.api.requests.models import LIMIT_DESCRIPTION, Labelled, Name
from anabranch.api.submission import accept_job
from anabranch.canonical import JsonObject
from anabranch.contract.answer import JsonValue
from anabranch.contract.processes import Conformance, OgcJob, OgcJobs, OgcLanding, OgcStatus, Process, ProcessList
from anabranch.engine.model import Job, JobState
from anabranch.engine.submitting.submission import Order
from anabranch.errors import AnabranchError, InputError, NotFound, Unavailable
from anabranch.gateway import Gateway
from anabranch.strict_model import StrictModel

__all__ = ["router"]

log = structlog.get_logger()

EXCEPTIONS = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0"
EXCEPTION_TYPES = {
    "workflow.not_found": f"{EXCEPTIONS}/no-such-process",
    "job.not_found": f"{EXCEPTIONS}/no-such-job",
    "results.not_ready": f"{EXCEPTIONS}/result-not-ready",
}
RESULT_CODES = ("results.failed", "results.dismissed", "results.not_ready")
DISMISSED = "it was dismissed"
CREATED: Responses = {
    201: {
        "model": OgcJob,
        "description": "The job, new or of the same inputs",
        "headers": {
            "Location": {"schema": {"type": "string"}, "required": True, "description": "The job."},
            "Preference-Applied": {
                "schema": {"type": "string"},
                "description": "`respond-async`, if it was asked for.",
            },
        },
    }
}
CURSOR_DESCRIPTION = "The last of the page before, as its link `next` has it."
READ = needs(Scope.READ)
Form = Annotated[ResponseForm | None, Query(description="The form of the results; by default `document`.")]
Prefer = Annotated[str | None, Header(description="`respond-async` changes nothing: every answer is asynchronous.")]


class OgcRoute(APIRoute):
    """A route whose problems have the types that the standard gives them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except AnabranchError as error:
                if error.code not in EXCEPTION_TYPES:
                    raise
                uri, correlation_id = EXCEPTION_TYPES[error.code], request.state.correlation_id
                return respond(error, path=request.url.path, correlation_id=correlation_id, uri=uri)

        return answer


router = APIRouter(prefix="/ogc", tags=["processes"], route_class=OgcRoute)


class ProcessesQuery(StrictModel):
    """Which processes to list."""

    limit: int = Field(100, ge=1, le=1000, description=LIMIT_DESCRIPTION)
    after: Name | None = Field(None, description=CURSOR_DESCRIPTION)


class OgcJobsQuery(Labelled):
    """Which jobs to list."""

    limit: int = Field(50, ge=1, le=500, description=LIMIT_DESCRIPTION)
    before: int | None = Field(None, ge=1, lt=2**63, description=CURSOR_DESCRIPTION)
    status: OgcStatus | None = Field(None, description="Only with this status.")
    process_id: Name | None = Field(None, alias="processID", description="Only of this process.")


@router.get("/", dependencies=[READ], include_in_schema=False)
@router.get("", dependencies=[READ], responses=problems())
async def show_ogc(request: Request) -> OgcLanding:
    """The landing page of OGC API - Processes."""
    return Links(request).landing()


@router.get("/conformance", dependencies=[READ], responses=problems())
async def show_ogc_conformance() -> Conformance:
    """The requirements classes of the standard that are met."""
    return CONFORMANCE


@router.get("/processes", dependencies=[READ], responses=problems())
async def list_processes(
    query: Annotated[ProcessesQuery, Query()], gateway: CurrentGateway, request: Request
) -> ProcessList:
    """The workflows as processes, by name."""
    declarations, links = gateway.registry.declarations, Links(request)
    names = sorted(name for name in declarations if query.after is None or name > query.after)
    shown = names[: query.limit]
    last = shown[-1] if len(names) > query.limit else None
    found = tuple(build_summary(declarations[name], links) for name in shown)
    return ProcessList(found, links.of_page("/processes", "after", last))


@router.get("/processes/{process_id}", dependencies=[READ], responses=problems("workflow.not_found"))
async def show_process(process_id: WorkflowId, gateway: CurrentGateway, request: Request) -> Process:
    """A workflow as a process, with its inputs and its output."""
    return build_process(gateway.declaration(process_id), Links(request))


@router.post(
    "/processes/{process_id}/execution",
    dependencies=[needs(Scope.SUBMIT)],
    status_code=201,
    response_model_exclude_none=True,
    responses={**CREATED, **problems(*BODY_CODES, *SUBMIT_CODES)},
    openapi_extra=keyed(body(ExecuteRequest, required=True)),
)
async def execute_process(
    process_id: WorkflowId,
    given: JsonBody,
    caller: CurrentCaller,
    gateway: CurrentGateway,
    reads: CurrentReads,
    limits: CurrentLimits,
    request: Request,
    response: Response,
    prefer: Prefer = None,
) -> OgcJob:
    """Execute a process, asynchronously. The same process and inputs are the same job."""
    try:
        wanted, key = check_body(ExecuteRequest, given), read_key(request)
    except InputError as error:
        raise find_all_mistakes(
            lambda: _check_execution(given, process_id, gateway), lambda: read_key(request)
        ) from error
    moved = move_callbacks({"parameters": read_inputs(wanted.inputs)})
    callbacks = await seal_callbacks(gateway, caller.platform, read_callbacks(moved))
    order = Order(
        process_id,
        cast(JsonObject, moved["parameters"]),
        caller.platform,
        caller.correlation_id,
        key=key,
        by=caller.name,
        callbacks=callbacks,
        by_scope=caller.scope,
    )
    submitted = await accept_job(gateway, limits, caller.principal, order)
    links = Links(request)
    response.headers["Location"] = links.job(submitted.job_id, wanted.response).href
    if prefer and "respond-async" in prefer:
        response.headers["Preference-Applied"] = "respond-async"
    return build_status(await reads.job(submitted.job_id), links, wanted.response)


@router.get("/jobs", dependencies=[READ], response_model_exclude_none=True, responses=problems())
async def list_ogc_jobs(query: Annotated[OgcJobsQuery, Query()], reads: CurrentReads, request: Request) -> OgcJobs:
    """Jobs, the newest first."""
    states: tuple[JobState | None, ...] = JOB_STATES[query.status] if query.status else (None,)
    found: list[Job] = []
    for state in states:
        found += await reads.jobs(
            limit=query.limit + 1, before=query.before, state=state, workflow=query.process_id, labels=query.labels
        )
    found.sort(key=lambda job: job.id, reverse=True)
    shown, links = found[: query.limit], Links(request)
    last = shown[-1].id if len(found) > query.limit else None
    return OgcJobs(tuple(build_listed_job(job, links) for job in shown), links.of_page("/jobs", "before", last))


@router.get("/jobs/{job_id}", dependencies=[READ], response_model_exclude_none=True, responses=problems(*JOB_CODES))
async def show_ogc_job(job_id: JobId, reads: CurrentReads, request: Request, response: Form = None) -> OgcJob:
    """Where a job stands."""
    return build_status(await reads.job(job_id), Links(request), response)


@router.delete(
    "/jobs/{job_id}",
    dependencies=[needs(Scope.OPERATE)],
    response_model_exclude_none=True,
    responses=problems(*JOB_CODES, "job.ended", "job.busy"),
)
async def dismiss_job(job_id: JobId, caller: CurrentCaller, controls: CurrentControls, request: Request) -> OgcJob:
    """Dismiss a job: it is cancelled. One that has ended stays as it is."""
    cancelled = await controls.cancel(job_id, DISMISSED, caller.name)
    log.info("job.cancelled", job=cancelled.job.job_id, reason=DISMISSED)
    return build_status(cancelled, Links(request), None)


@router.get(
    "/jobs/{job_id}/results",
    dependencies=[READ],
    response_class=JSONResponse,
    responses={200: {"description": '`{"result": …}`, or the result alone'}, **problems(*JOB_CODES, *RESULT_CODES)},
)
async def show_results(job_id: JobId, reads: CurrentReads, response: Form = None) -> JsonValue:
    """The results of a job that is successful."""
    job = (await reads.job(job_id)).job
    name = f"job {job.job_id[:12]}"
    if job.state is JobState.FAILED:
        reason = f": {job.error.code}: {job.error.message}" if job.error else ""
        raise AnabranchError("results.failed", f"{name} failed{reason}")
    if job.state is JobState.CANCELLED:
        raise NotFound("results.dismissed", f"{name} was dismissed")
    if job.state is not JobState.COMPLETED:
        raise Unavailable("results.not_ready", f"{name} is {job.state}")
    return job.result if response == "raw" else {"result": job.result}


def _check_execution(given: JsonObject, process_id: str, gateway: Gateway) -> None:
    wanted = check_body(ExecuteRequest, given)
    gateway.declaration(process_id).check(read_inputs(wanted.inputs))
