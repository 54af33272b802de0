"""OGC API - Processes 1.0: workflows as processes, and jobs, in the standard's own form."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Literal

from anabranch.contract.answer import Answer, JsonObject, answer

__all__ = [
    "Conformance",
    "Link",
    "OgcJob",
    "OgcJobs",
    "OgcLanding",
    "OgcStatus",
    "Process",
    "ProcessInput",
    "ProcessList",
    "ProcessOutput",
    "ProcessSummary",
]

OgcStatus = Literal["accepted", "running", "successful", "failed", "dismissed"]


@answer
class Link(Answer):
    """A link to another resource."""

    href: str
    rel: str
    type: str
    title: str


@answer
class OgcLanding(Answer):
    """The landing page: where everything else is."""

    title: str
    description: str
    links: tuple[Link, ...]


@answer
class Conformance(Answer):
    """The requirements classes that are met."""

    conforms_to: tuple[str, ...] = field(metadata={"alias": "conformsTo"})


@answer
class ProcessSummary(Answer):
    """A workflow in a list."""

    id: str
    title: str
    description: str
    version: str
    job_control_options: tuple[str, ...] = field(metadata={"alias": "jobControlOptions"})
    output_transmission: tuple[str, ...] = field(metadata={"alias": "outputTransmission"})
    links: tuple[Link, ...]


@answer
class ProcessInput(Answer):
    """An input of a workflow."""

    title: str
    description: str
    min_occurs: int = field(metadata={"alias": "minOccurs"})
    schema_: JsonObject = field(metadata={"alias": "schema"})


@answer
class ProcessOutput(Answer):
    """The result of a job."""

    title: str
    description: str
    schema_: JsonObject = field(metadata={"alias": "schema"})


@answer
class Process(ProcessSummary):
    """A workflow with its inputs and its output."""

    inputs: Mapping[str, ProcessInput]
    outputs: Mapping[str, ProcessOutput]


@answer
class ProcessList(Answer):
    """A page of the workflows, by name."""

    processes: tuple[ProcessSummary, ...]
    links: tuple[Link, ...]


@answer
class OgcJob(Answer):
    """Where a job stands."""

    process_id: str = field(metadata={"alias": "processID"})
    type: Literal["process"]
    job_id: str = field(metadata={"alias": "jobID"})
    status: OgcStatus
    message: str
    """Why it failed, or what it waits for; otherwise empty."""
    created: datetime
    updated: datetime
    links: tuple[Link, ...]
    started: datetime | None = None
    finished: datetime | None = None
    progress: int | None = field(default=None, metadata={"ge": 0, "le": 100})
    """In percent; in a list only that of jobs that are successful."""


@answer
class OgcJobs(Answer):
    """A page of the jobs, the newest first."""

    jobs: tuple[OgcJob, ...]
    links: tuple[Link, ...]
