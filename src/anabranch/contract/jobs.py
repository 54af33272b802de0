"""Jobs, their nodes and tasks, and their history."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from anabranch.contract.answer import Answer, JsonObject, JsonValue, answer
from anabranch.enums import JobState, NodeStatus

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

__all__ = [
    "Event",
    "Graph",
    "GraphEdge",
    "GraphNode",
    "JobError",
    "JobLinks",
    "JobProgress",
    "JobStatus",
    "JobSummary",
    "Log",
    "Node",
    "Progress",
    "SavedCheckpoint",
    "StageResult",
    "SubmittedJob",
    "Task",
    "TaskCounts",
    "TaskStatus",
    "UploadState",
    "Uploaded",
    "UploadedPart",
]

TaskStatus = Literal["ready", "running", "due", "completed", "failed", "cancelled"]
ENDED_STATES = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})


@answer
class JobLinks(Answer):
    """The paths of a job."""

    self: str
    status: str
    tasks: str
    events: str
    logs: str
    graph: str
    stream: str
    bundle: str
    workflow: str | None
    items: str | None
    """What it published."""


@answer
class CheckedJob(Answer):
    """A job that can be submitted: its parameters with defaults applied, and its priority."""

    job_type: str
    parameters: JsonObject
    priority: int


@answer
class SubmittedJob(Answer):
    """The job of a submission; `created` is false if the job already existed."""

    job_id: str
    job_type: str
    status: JobState
    created: bool
    links: JobLinks = field(repr=False)
    failed_before: str | None = None
    """The job with the same parameters that failed before this one was created; `retry` would have kept its work."""


@answer
class JobError(Answer):
    """Why a job, a node or a task failed."""

    __pydantic_config__: ClassVar[Mapping[str, object]] = {"extra": "allow"}
    code: str
    message: str
    remedy: str
    node: str | None = None

    @property
    def in_words(self) -> str:
        """The message, with the exception's type if the handler's own code raised it."""
        kind = self.raw.get("type") if self.code == "handler.error" else None
        return f"{kind}: {self.message}" if kind else self.message

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> Any:  # pydantic's own types
        """The API sends all that is stored of an error, and not only the fields."""
        from pydantic_core import core_schema

        schema = handler(source)
        whole = core_schema.wrap_serializer_function_ser_schema(lambda error, dump: {**dump(error), **error.raw})
        return {**schema, "serialization": whole}


@answer
class JobSummary(Answer):
    """A job in a list."""

    job_id: str
    job_type: str
    status: JobState
    ending: JobState | None
    """How it ends once its cleanup nodes have ended, if only these are left."""
    priority: int
    platform: str
    labels: Mapping[str, str]
    error: JobError | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime | None = field(repr=False)
    """When its last event happened."""
    idle_seconds: float = field(repr=False)
    """The time between its ends and its retries, in which nothing of it ran."""
    correlation_id: str
    links: JobLinks = field(repr=False)

    @property
    def ended(self) -> bool:
        """Whether the job has ended, in any way."""
        return self.status in ENDED_STATES

    @property
    def succeeded(self) -> bool:
        """Whether it completed."""
        return self.status == JobState.COMPLETED


@answer
class TaskCounts(Answer):
    """Tasks by status, as far as they are known: a node has none before it opens."""

    total: int
    ready: int
    running: int
    due: int
    completed: int
    failed: int
    cancelled: int


@answer
class Progress(Answer):
    """The progress that a handler reported for its running task."""

    done: int | float
    total: int | float | None
    message: str
    at: datetime


@answer
class Node(Answer):
    """A node of a job."""

    name: str
    status: NodeStatus
    tasks: TaskCounts
    done: float
    """How many of its tasks have ended, with the parts of those that run and report their progress."""
    progress: Progress | None
    """The progress of its task, if it has one that runs and reports it."""
    answer: JsonObject | None
    """The JSON Schema of the answer that it waits for, if it is a gate that declares one."""
    command: str | None
    """The command that answers it, if it is a gate that waits."""
    error: JobError | None
    opened_at: datetime | None
    finished_at: datetime | None


@answer
class StageResult(Answer):
    """The status of a finished node."""

    node: str
    status: NodeStatus
    tasks: TaskCounts
    output: JsonValue
    """The result of its only task, or what was made of the results of its tasks; null if it is large."""


@answer
class JobStatus(JobSummary):
    """A job with its nodes, its progress and its result."""

    generation: int = field(repr=False)
    """How often it was retried."""
    parent: str | None = field(repr=False)
    """The job that runs it, if one does."""
    stage: int
    """The number of the node that runs, or ran last; from 1."""
    total_stages: int
    nodes: tuple[Node, ...]
    waiting_for: tuple[str, ...]
    """What keeps it from going on: a limit, a queue that nobody serves, an error of the database."""
    progress: float = field(metadata={"ge": 0, "le": 1})
    """The share of the known tasks that have ended, with the parts of running ones."""
    tasks: TaskCounts
    stage_results: Mapping[str, StageResult] = field(repr=False)
    """The finished nodes, by number."""
    parameters: JsonObject
    result: JsonValue
    result_data: JsonValue = field(repr=False)
    """The same as `result`."""

    def __str__(self) -> str:
        after = f", {self.ending} after its cleanup" if self.ending else ""
        lines = [f"{self.job_type} {self.job_id[:12]}: {self.status}{after}", f"  {self._spell_tasks()}"]
        lines += [f"  waits: {reason}" for reason in self.waiting_for]
        if self.error:
            lines += [f"  error: {self.error.in_words}", *([f"  {self.error.remedy}"] if self.error.remedy else [])]
        return "\n".join(lines)

    def _spell_tasks(self) -> str:
        failed = f", {self.tasks.failed} failed" if self.tasks.failed else ""
        return f"{self.tasks.completed} of {self.tasks.total} tasks completed{failed}"

    def _repr_html_(self) -> str:
        """The job in a notebook: where it stands, and a line for each node."""
        rows = "".join(
            f"<tr><td>{escape(node.name)}</td><td>{escape(node.status)}</td>"
            f"<td>{node.tasks.completed} of {node.tasks.total}</td></tr>"
            for node in self.nodes
        )
        reason = f"<br>{escape(self.error.in_words)}" if self.error else ""
        head = f"<b>{escape(self.job_type)}</b> {self.job_id[:12]}: {escape(self.status)}{reason}"
        return f"{head}<table><tr><th>node</th><th>status</th><th>tasks</th></tr>{rows}</table>"


@answer
class SavedCheckpoint(Answer):
    """The phase from which the next attempt of a task would go on, and the attempt that saved it."""

    phase: str
    attempt: int
    at: datetime


@answer
class Task(Answer):
    """A task with its parameters and its result or error."""

    task_id: str
    node: str
    index: int | str
    status: TaskStatus
    handler: str
    handler_version: str | None
    """The version of the handler in the worker of its last attempt; null before, and once that worker is forgotten."""
    parameters: JsonObject
    attempts: int
    failures: int
    crashes: int
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    due_at: datetime | None
    progress: Progress | None
    """How far it is, if it runs and reports it."""
    metadata: JsonObject | None
    """What the planner of its stage noted of it, if it did."""
    checkpoint: SavedCheckpoint | None
    """The newest checkpoint that its handler saved, if it did."""
    result: JsonValue
    error: JobError | None


@answer
class Event(Answer):
    """An event of a job."""

    seq: int
    """From 1, without gaps."""
    at: datetime
    kind: str
    """`job.` or `node.` and its new status, or `job.submitted`, `job.ending`, `job.retried`, `gate.signalled`,
    `tasks.repeated`."""
    node: str | None
    by: str | None
    """The principal of the request that caused it, if one did."""
    data: JsonValue
    """The error or the output that came with it; {} if neither did."""


@answer
class JobProgress(Answer):
    """The progress of a job, as its stream reports it."""

    status: JobState
    tasks: TaskCounts


@answer
class Log(Answer):
    """The output and the metrics of one attempt of a task."""

    task_id: str
    node: str
    index: int | str
    attempt: int
    log: str | None
    """Its beginning and its end, if it is long."""
    metrics: JsonObject | None


@answer
class GraphNode(Answer):
    """A node of a job's graph and the rectangle it fills, from its top left corner, in pixels."""

    id: str
    label: str
    kind: str
    """`task`, `conditional`, `fan_out`, `fan_in`, `gate`, `wait` or `workflow`: it chooses the shape."""
    note: str
    """A second line: its handler or workflow, what it compares, how it folds, how long it waits."""
    status: NodeStatus
    x: float = field(repr=False)
    y: float = field(repr=False)
    width: float = field(repr=False)
    height: float = field(repr=False)


@answer
class GraphEdge(Answer):
    """An edge of a job's graph and its points from top to bottom."""

    tail: str
    head: str
    label: str
    """The condition of a branch; `any` if one edge of several is enough."""
    points: tuple[tuple[float, float], ...] = field(repr=False)


@answer
class Graph(Answer):
    """The workflow that a job was pinned to, laid out, with the status of each node."""

    job_id: str = field(repr=False)
    status: JobState = field(repr=False)
    width: float = field(repr=False)
    height: float = field(repr=False)
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    svg: str = field(repr=False)
    """The path of the drawing."""


@answer
class Uploaded(Answer):
    """An uploaded file."""

    address: str
    """What a job takes as a parameter: `bronze://uploads/{sha256}/{name}`."""
    sha256: str
    size: int


@answer
class UploadState(Answer):
    """What is there of a file that is uploaded in parts."""

    uploaded: Uploaded | None
    """The file, if all of it is there."""
    part_bytes: int
    """The size of every part but the last."""
    parts: tuple[int, ...]
    """The numbers of the parts that are there, from 0."""


@answer
class UploadedPart(Answer):
    """A part of a file that is kept."""

    number: int
    size: int
