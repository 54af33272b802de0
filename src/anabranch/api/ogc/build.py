"""Builds the documents of the standard from workflows and jobs."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from fastapi import Request

from anabranch.api.answers.build import build_job
from anabranch.api.ogc.execution import ResponseForm
from anabranch.contract.answer import JsonObject
from anabranch.contract.processes import (
    Conformance,
    Link,
    OgcJob,
    OgcLanding,
    OgcStatus,
    Process,
    ProcessInput,
    ProcessOutput,
    ProcessSummary,
)
from anabranch.engine.model import Job, JobState
from anabranch.engine.read_models import JobDetail
from anabranch.workflows.stages import Declaration

__all__ = ["CONFORMANCE", "JOB_STATES", "Links", "build_listed_job", "build_process", "build_status", "build_summary"]

CLASSES = "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf"
RELATIONS = "http://www.opengis.net/def/rel/ogc/1.0"
CONFORMANCE = Conformance(tuple(f"{CLASSES}/{name}" for name in ("core", "ogc-process-description", "json", "dismiss")))
JSON_TYPE = "application/json"
OPENAPI_TYPE = "application/vnd.oai.openapi+json;version=3.1"
JOB_STATES: Mapping[OgcStatus, tuple[JobState, ...]] = {
    "accepted": (JobState.PENDING,),
    "running": (JobState.RUNNING, JobState.WAITING),
    "successful": (JobState.COMPLETED,),
    "failed": (JobState.FAILED,),
    "dismissed": (JobState.CANCELLED,),
}
STATUSES: Mapping[JobState, OgcStatus] = {state: status for status, states in JOB_STATES.items() for state in states}


class Links:
    """Links as the caller of a request has to follow them."""

    def __init__(self, request: Request) -> None:
        self._root = str(request.base_url).rstrip("/")
        self._ogc = f"{self._root}/ogc"
        self._query = request.query_params.multi_items()

    def landing(self) -> OgcLanding:
        """The landing page."""
        return OgcLanding(
            "Anabranch",
            "Durable geospatial workflows, as processes.",
            (
                self._make("self", "", "This page"),
                self._make(f"{RELATIONS}/conformance", "/conformance", "The requirements classes that are met"),
                self._make(f"{RELATIONS}/processes", "/processes", "The processes"),
                self._make(f"{RELATIONS}/job-list", "/jobs", "The jobs"),
                Link(f"{self._root}/openapi.json", "service-desc", OPENAPI_TYPE, "The description of the whole API"),
                Link(f"{self._root}/docs", "service-doc", "text/html", "The same, for people"),
            ),
        )

    def of_page(self, path: str, cursor: str, last: object | None) -> tuple[Link, ...]:
        """Those of a page of a list; the next begins after the last of this one, if there is a next."""
        found = [self._make("self", _add_query(path, self._query), "This page")]
        if last is not None:
            others = [(name, value) for name, value in self._query if name != cursor]
            found.append(self._make("next", _add_query(path, [*others, (cursor, str(last))]), "The next page"))
        return tuple(found)

    def of_process(self, name: str) -> tuple[Link, ...]:
        """Those of a process."""
        path = f"/processes/{quote(name)}"
        execute = self._make(f"{RELATIONS}/execute", f"{path}/execution", "Execute it")
        return self._make("self", path, "Its description"), execute

    def job(self, job_id: str, form: ResponseForm | None) -> Link:
        """The link to a job; its results have this form."""
        return self._make("self", _add_query(f"/jobs/{job_id}", _form(form)), "Its status")

    def of_job(self, job: Job, form: ResponseForm | None) -> tuple[Link, ...]:
        """Those of a job."""
        found = [
            self.job(job.job_id, form),
            self._make("up", f"/processes/{quote(job.workflow)}", "Its process"),
        ]
        if job.state is JobState.COMPLETED:
            path = _add_query(f"/jobs/{job.job_id}/results", _form(form))
            found.append(self._make(f"{RELATIONS}/results", path, "Its results"))
        return tuple(found)

    def _make(self, relation: str, path: str, title: str) -> Link:
        return Link(f"{self._ogc}{path}", relation, JSON_TYPE, title)


def build_summary(declared: Declaration, links: Links) -> ProcessSummary:
    """A process in a list."""
    return ProcessSummary(*_summary(declared, links))


def build_process(declared: Declaration, links: Links) -> Process:
    """A process with its inputs and its output."""
    return Process(*_summary(declared, links), _inputs(declared.inputs_schema), {"result": _output(declared)})


def build_status(detail: JobDetail, links: Links, form: ResponseForm | None) -> OgcJob:
    """A job."""
    shown = build_job(detail)
    waits = "; ".join(detail.waiting_for)
    return _job(detail.job, links, form, shown.error.in_words if shown.error else waits, int(shown.progress * 100))


def build_listed_job(job: Job, links: Links) -> OgcJob:
    """A job in a list, which knows nothing of its nodes."""
    progress = 100 if job.state is JobState.COMPLETED else None
    return _job(job, links, None, job.error.message if job.error else "", progress)


def _form(form: ResponseForm | None) -> list[tuple[str, str]]:
    return [("response", form)] if form else []


def _add_query(path: str, query: Sequence[tuple[str, str]]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _summary(
    declared: Declaration, links: Links
) -> tuple[str, str, str, str, tuple[str, ...], tuple[str, ...], tuple[Link, ...]]:
    workflow = declared.workflow
    control, transmission = ("async-execute", "dismiss"), ("value",)
    title = workflow.name or workflow.id
    about = (workflow.id, title, workflow.description, str(workflow.version))
    return *about, control, transmission, links.of_process(workflow.id)


def _inputs(schema: JsonObject) -> dict[str, ProcessInput]:
    properties, required, definitions = schema.get("properties", {}), schema.get("required", []), schema.get("$defs")
    found = {}
    for name, given in properties.items():
        whole = {**given, "$defs": definitions} if definitions else given
        about = (str(given.get("title", name)), str(given.get("description", "")))
        found[name] = ProcessInput(*about, int(name in required), whole)
    return found


def _output(declared: Declaration) -> ProcessOutput:
    names = list(declared.workflow.output or ())
    known: JsonObject = {"type": "object", "required": names, "properties": {name: {} for name in names}}
    return ProcessOutput("Result", "The result of the job.", known if names else {})


def _job(job: Job, links: Links, form: ResponseForm | None, message: str, progress: int | None) -> OgcJob:
    updated = job.finished_at or job.started_at or job.created_at
    return OgcJob(
        job.workflow,
        "process",
        job.job_id,
        STATUSES[job.state],
        message,
        job.created_at,
        updated,
        links.of_job(job, form),
        job.started_at,
        job.finished_at,
        progress,
    )
