"""The API's answers as frozen values; `raw` has the original JSON."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from anabranch.client.errors import error_of
from anabranch.errors import AnabranchError

__all__ = [
    "BulkAnswer",
    "Component",
    "Health",
    "JobError",
    "JobStatus",
    "JobSummary",
    "Node",
    "Page",
    "Progress",
    "Reloaded",
    "SubmittedJob",
    "Task",
    "TaskCounts",
    "Worker",
    "Workflow",
    "Workflows",
]

Raw = dict[str, Any]  # a JSON object of the API
JsonValue = Any  # JSON of any shape
Item = TypeVar("Item")
ENDED_STATUSES = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True)
class SubmittedJob:
    """The job of a submission; `created` is false if the job already existed."""

    job_id: str
    job_type: str
    status: str
    created: bool
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "SubmittedJob":
        """Read an answer."""
        return cls(raw["job_id"], raw["job_type"], raw["status"], raw["created"], raw)


@dataclass(frozen=True)
class BulkAnswer:
    """The result of one line of a bulk submission, numbered from 1: a job, or an error."""

    line: int
    job_id: str | None
    created: bool
    error: AnabranchError | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "BulkAnswer":
        """Read a line of the answer."""
        error = None if "job_id" in raw else error_of(raw["status"], raw)
        return cls(raw["line"], raw.get("job_id"), bool(raw.get("created")), error, raw)


@dataclass(frozen=True)
class JobError:
    """Why a job, a node or a task failed."""

    code: str
    message: str
    remedy: str
    node: str | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw | None) -> "JobError | None":
        """Read an error, if there is one."""
        return None if raw is None else cls(raw["code"], raw["message"], raw["remedy"], raw.get("node"), raw)


@dataclass(frozen=True)
class TaskCounts:
    """Tasks by status, as far as they are known."""

    total: int
    ready: int
    running: int
    due: int
    completed: int
    failed: int
    cancelled: int

    @classmethod
    def of(cls, raw: Raw) -> "TaskCounts":
        """Read counts."""
        return cls(**{name: raw[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Progress:
    """The progress that a handler reported for its running task."""

    done: float
    total: float | None
    message: str
    at: datetime

    @classmethod
    def of(cls, raw: Raw | None) -> "Progress | None":
        """Read the progress, if there is any."""
        if raw is None:
            return None
        return cls(raw["done"], raw["total"], raw["message"], datetime.fromisoformat(raw["at"]))


@dataclass(frozen=True)
class Node:
    """A node of a job."""

    name: str
    state: str
    tasks: TaskCounts
    progress: Progress | None
    error: JobError | None
    opened_at: datetime | None
    finished_at: datetime | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Node":
        """Read a node."""
        return cls(
            name=raw["name"],
            state=raw["state"],
            tasks=TaskCounts.of(raw["tasks"]),
            progress=Progress.of(raw.get("progress")),
            error=JobError.of(raw["error"]),
            opened_at=_moment(raw["opened_at"]),
            finished_at=_moment(raw["finished_at"]),
            raw=raw,
        )


@dataclass(frozen=True)
class JobSummary:
    """A job in a list."""

    job_id: str
    job_type: str
    status: str
    priority: int
    error: JobError | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    correlation_id: str
    raw: Raw = field(repr=False)

    @property
    def ended(self) -> bool:
        """Whether the job has ended, in any way."""
        return self.status in ENDED_STATUSES

    @property
    def succeeded(self) -> bool:
        """Whether it completed."""
        return self.status == "completed"

    @classmethod
    def of(cls, raw: Raw) -> "JobSummary":
        """Read a job."""
        return cls(**_job(raw))


@dataclass(frozen=True)
class JobStatus(JobSummary):
    """A job with its nodes, its progress and its result."""

    stage: int
    total_stages: int
    nodes: tuple[Node, ...]
    waiting_for: tuple[str, ...]
    progress: float
    tasks: TaskCounts
    parameters: Mapping[str, JsonValue]
    result: JsonValue

    @classmethod
    def of(cls, raw: Raw) -> "JobStatus":
        """Read a job's status."""
        return cls(
            **_job(raw),
            stage=raw["stage"],
            total_stages=raw["total_stages"],
            nodes=tuple(Node.of(node) for node in raw["nodes"]),
            waiting_for=tuple(raw.get("waiting_for", ())),
            progress=raw["progress"],
            tasks=TaskCounts.of(raw["tasks"]),
            parameters=raw["parameters"],
            result=raw["result"],
        )


@dataclass(frozen=True)
class Task:
    """A task with its parameters and its result or error."""

    task_id: str
    node: str
    index: int | str
    status: str
    handler: str
    parameters: Mapping[str, JsonValue]
    attempts: int
    failures: int
    crashes: int
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    due_at: datetime | None
    progress: Progress | None
    result: JsonValue
    error: JobError | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Task":
        """Read a task."""
        moments = {name: _moment(raw[name]) for name in ("claimed_at", "started_at", "finished_at", "due_at")}
        names = cls.__dataclass_fields__.keys() - {"progress", "raw"}
        parsed = {"progress": Progress.of(raw.get("progress")), "error": JobError.of(raw["error"])}
        return cls(**{name: raw[name] for name in names} | moments | parsed | {"raw": raw})


@dataclass(frozen=True)
class Worker:
    """A live process of the stack."""

    id: int
    kind: str
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    running: int
    draining: bool
    waiting: int
    began_at: datetime
    last_beat: datetime
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Worker":
        """Read a session."""
        return cls(
            id=raw["id"],
            kind=raw["kind"],
            host=raw["host"],
            pid=raw["pid"],
            queues=tuple(raw["queues"]),
            slots=raw["slots"],
            running=raw["running"],
            draining=raw["draining"],
            waiting=raw["waiting"],
            began_at=datetime.fromisoformat(raw["began_at"]),
            last_beat=datetime.fromisoformat(raw["last_beat"]),
            raw=raw,
        )


@dataclass(frozen=True)
class Component:
    """One part of the stack: ok, degraded or down, since when, and what to do."""

    status: str
    detail: str
    remedy: str | None
    since: datetime


@dataclass(frozen=True)
class Health:
    """The state of every part, and the number of waiting tasks by queue."""

    status: str
    components: Mapping[str, Component]
    queues: Mapping[str, int]
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Health":
        """Read the health."""
        parts = {
            name: Component(part["status"], part["detail"], part["remedy"], datetime.fromisoformat(part["since"]))
            for name, part in raw["components"].items()
        }
        return cls(raw["status"], parts, raw["queues"], raw)


@dataclass(frozen=True)
class Workflow:
    """A workflow; its inputs and definition are None in a list."""

    workflow_id: str
    version: int
    description: str
    hash: str
    inputs: Raw | None
    definition: Raw | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Workflow":
        """Read a workflow."""
        known = (raw["workflow_id"], raw["version"], raw["description"], raw["hash"])
        return cls(*known, raw.get("inputs"), raw.get("definition"), raw)


@dataclass(frozen=True)
class Workflows:
    """The workflows, and why others were refused."""

    items: tuple[Workflow, ...]
    refused: Mapping[str, str]
    raw: Raw = field(repr=False)

    def __iter__(self) -> Iterator[Workflow]:
        return iter(self.items)

    @classmethod
    def of(cls, raw: Raw) -> "Workflows":
        """Read the list."""
        return cls(tuple(map(Workflow.of, raw["items"])), _reasons(raw), raw)


@dataclass(frozen=True)
class Reloaded:
    """The result of a reload; `kept` workflows are still served although their files are gone."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    refused: Mapping[str, str]
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Reloaded":
        """Read an answer."""
        changes = {name: tuple(raw[name]) for name in ("added", "changed", "removed", "kept")}
        return cls(**changes, refused=_reasons(raw), raw=raw)


@dataclass(frozen=True)
class Page(Generic[Item]):
    """A page of a list, and the cursor of the next page; None at the end."""

    items: tuple[Item, ...]
    next: str | None
    raw: Raw = field(repr=False)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    @classmethod
    def of(cls, read: Callable[[Raw], Item], raw: Raw) -> "Page[Item]":
        """Read a page whose items `read` parses."""
        return cls(tuple(read(item) for item in raw["items"]), raw["next"], raw)


def _reasons(raw: Raw) -> dict[str, str]:
    return {one["name"]: one["reason"] for one in raw["refused"]}


def _job(raw: Raw) -> Raw:
    names = ("job_id", "job_type", "status", "priority", "correlation_id")
    moments = {name: _moment(raw[name]) for name in ("created_at", "started_at", "finished_at")}
    return {name: raw[name] for name in names} | moments | {"error": JobError.of(raw["error"]), "raw": raw}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
