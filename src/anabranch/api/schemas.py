"""What callers get: views built from the engine's values."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from anabranch.api.security.root_path import at_root
from anabranch.engine.model import Event, Job, JobState, NodeState, SessionKind
from anabranch.engine.ports import Submitted
from anabranch.engine.views import JobDetail, NodeDetail, SessionDetail, TaskDetail, Trace

__all__ = [
    "EventView",
    "JobSummary",
    "JobView",
    "LogView",
    "Page",
    "SubmittedView",
    "TaskStatus",
    "TaskView",
    "UploadView",
    "WorkerView",
]

JsonValue = Any  # JSON of any shape, checked when it was stored
Item = TypeVar("Item")
TaskStatus = Literal["ready", "running", "due", "completed", "failed", "cancelled"]
ENDED_NODE = frozenset(NodeState) - {NodeState.PENDING, NodeState.RUNNING}


class View(BaseModel):
    """What a caller gets."""

    model_config = ConfigDict(frozen=True)


class Page(View, Generic[Item]):
    """Some of a list, and the cursor of the next page; null is the end."""

    items: list[Item]
    next: str | None


class Links(View):
    """Where to go from a job."""

    self: str
    status: str
    tasks: str
    events: str
    logs: str
    graph: str
    stream: str
    bundle: str

    @classmethod
    def of(cls, job_id: str) -> Self:
        """The links of a job."""
        path = at_root(f"/api/jobs/{job_id}")
        parts = {name: f"{path}/{name}" for name in ("tasks", "events", "logs", "graph", "stream", "bundle")}
        return cls(self=path, status=at_root(f"/api/jobs/status/{job_id}"), **parts)


class SubmittedView(View):
    """The job of a submission; `created` is false when the same request made it before."""

    job_id: str
    job_type: str
    status: JobState
    created: bool
    links: Links

    @classmethod
    def of(cls, job_type: str, submitted: Submitted) -> Self:
        """The view of what became of a submission."""
        return cls(
            job_id=submitted.job_id,
            job_type=job_type,
            status=submitted.state,
            created=submitted.created,
            links=Links.of(submitted.job_id),
        )


class ErrorView(View):
    """Why a job, a node or a task failed."""

    model_config = ConfigDict(extra="allow")
    code: str
    message: str
    remedy: str
    node: str | None = None

    @classmethod
    def of(cls, error: Mapping[str, JsonValue] | None) -> Self | None:
        """The view of a stored error, if there is one."""
        return None if error is None else cls.model_validate({"code": "unknown", "message": "", "remedy": "", **error})


class JobFields(View):
    """What every view of a job shows."""

    job_id: str
    job_type: str
    status: JobState
    priority: int
    error: ErrorView | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    correlation_id: str
    links: Links


class JobSummary(JobFields):
    """A job in a list."""

    @classmethod
    def of(cls, job: Job) -> Self:
        """The view of a job."""
        return cls(**_fields(job))


class TaskCounts(View):
    """Tasks by status, as far as they are known: a node has none before it opens."""

    total: int
    ready: int
    running: int
    due: int
    completed: int
    failed: int
    cancelled: int

    @classmethod
    def of(cls, *nodes: NodeDetail) -> Self:
        """The counts over nodes."""
        return cls(**{name: sum(getattr(node, name) for node in nodes) for name in cls.model_fields})


class ProgressView(View):
    """How far a handler says that its running task is."""

    done: int | float
    total: int | float | None
    message: str
    at: datetime

    @classmethod
    def of(cls, said: Mapping[str, JsonValue] | None) -> Self | None:
        """The view of what was said, if anything was."""
        return None if said is None else cls.model_validate(said)

    @property
    def share(self) -> float:
        """The share that is done, if it is known."""
        return min(max(self.done / self.total, 0.0), 1.0) if self.total else 0.0


class NodeView(View):
    """A node of a job."""

    name: str
    state: NodeState
    tasks: TaskCounts
    progress: ProgressView | None = Field(description="How far its task is, where it has one that runs and says so.")
    error: ErrorView | None
    opened_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, node: NodeDetail) -> Self:
        """The view of a node."""
        return cls(
            name=node.name,
            state=node.state,
            tasks=TaskCounts.of(node),
            progress=ProgressView.of(node.said[0] if node.said and node.total == 1 else None),
            error=ErrorView.of(node.error),
            opened_at=node.opened_at,
            finished_at=node.finished_at,
        )


class StageResult(View):
    """What became of a finished node."""

    node: str
    state: NodeState
    tasks: TaskCounts


class JobView(JobFields):
    """A job with its nodes, its progress and its result."""

    generation: int = Field(description="How often it was retried.")
    parent: str | None = Field(description="The job that runs it, if one does.")
    stage: int = Field(description="The number of the node that runs, or ran last; from 1.")
    total_stages: int
    nodes: list[NodeView]
    waiting_for: list[str] = Field(
        description="What keeps it from going on: a limit, a queue that nobody serves, an error of the database."
    )
    progress: float = Field(
        ge=0, le=1, description="The share of the known tasks that have ended, with the parts of running ones."
    )
    tasks: TaskCounts
    stage_results: dict[str, StageResult] = Field(description="The finished nodes, by number.")
    parameters: dict[str, JsonValue]
    result: JsonValue
    result_data: JsonValue = Field(description="The same as `result`.")

    @classmethod
    def of(cls, detail: JobDetail) -> Self:
        """The view of a job and its nodes."""
        nodes = [NodeView.of(node) for node in detail.nodes]
        tasks = TaskCounts.of(*detail.nodes)
        return cls(
            **_fields(detail.job),
            generation=detail.job.generation,
            parent=detail.parent_id,
            stage=_stage(detail),
            total_stages=len(nodes),
            nodes=nodes,
            waiting_for=list(detail.waiting_for),
            progress=_progress(detail, tasks),
            tasks=tasks,
            stage_results={
                str(number): StageResult(node=node.name, state=node.state, tasks=node.tasks)
                for number, node in enumerate(nodes, 1)
                if node.state in ENDED_NODE
            },
            parameters=detail.job.parameters,
            result=detail.job.result,
            result_data=detail.job.result,
        )


class TaskView(View):
    """A task with its parameters and what became of it."""

    task_id: str
    node: str
    index: int | str
    status: TaskStatus
    handler: str
    parameters: dict[str, JsonValue]
    attempts: int
    failures: int
    crashes: int
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    due_at: datetime | None
    progress: ProgressView | None = Field(description="How far it is, where it runs and says so.")
    result: JsonValue
    error: ErrorView | None

    @classmethod
    def of(cls, task: TaskDetail) -> Self:
        """The view of a task."""
        known = {name: getattr(task, name) for name in cls.model_fields}
        return cls(**{**known, "progress": ProgressView.of(task.progress), "error": ErrorView.of(task.error)})


class EventView(View):
    """One thing that happened to a job."""

    seq: int = Field(description="From 1, without gaps.")
    at: datetime
    kind: str = Field(
        description="`job.` or `node.` and the state it went to, or `job.submitted`, `job.retried`, "
        "`gate.signalled`, `tasks.repeated`."
    )
    node: str | None
    by: str | None = Field(description="Who did it, where a caller did: the principal of the request.")
    data: JsonValue = Field(description="The error or the output that came with it; {} where neither did.")

    @classmethod
    def of(cls, event: Event) -> Self:
        """The view of an event."""
        data = {key: value for key, value in event.data.items() if key != "by" or event.by is None}
        return cls(seq=event.seq, at=event.at, kind=event.kind, node=event.node, by=event.by, data=data)


class LogView(View):
    """What one attempt of a task printed and measured."""

    task_id: str
    node: str
    index: int | str
    attempt: int
    log: str | None = Field(description="Its beginning and its end, where it is long.")
    metrics: dict[str, JsonValue] | None

    @classmethod
    def of(cls, trace: Trace) -> Self:
        """The view of a trace."""
        return cls(**{name: getattr(trace, name) for name in cls.model_fields})


class UploadView(View):
    """A file that is kept."""

    address: str = Field(description="What a job takes as a parameter: `bronze://uploads/{sha256}/{name}`.")
    sha256: str
    size: int


class WorkerView(View):
    """A process of the stack while it lives."""

    id: int
    kind: SessionKind
    host: str
    pid: int
    queues: list[str]
    slots: int
    draining: bool = Field(description="Whether it takes nothing more.")
    running: int = Field(description="Tasks in hand, at most one for each slot.")
    waiting: int = Field(description="Tasks taken ahead, which wait in the worker for a slot.")
    began_at: datetime
    last_beat: datetime

    @classmethod
    def of(cls, session: SessionDetail) -> Self:
        """The view of a session."""
        return cls(
            id=session.id,
            kind=session.kind,
            host=session.host,
            pid=session.pid,
            queues=session.queues,
            slots=session.slots,
            running=session.running,
            draining=session.draining,
            waiting=session.waiting,
            began_at=session.began_at,
            last_beat=session.beat_at,
        )


def _fields(job: Job) -> dict[str, Any]:  # the fields of JobFields
    return {
        "job_id": job.job_id,
        "job_type": job.workflow,
        "status": job.state,
        "priority": job.priority,
        "error": ErrorView.of(job.error),
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "correlation_id": job.correlation_id,
        "links": Links.of(job.job_id),
    }


def _stage(detail: JobDetail) -> int:
    numbered = list(enumerate(detail.nodes, 1))
    running = [number for number, node in numbered if node.state is NodeState.RUNNING]
    opened = [number for number, node in numbered if node.opened_at is not None]
    return running[0] if running else max(opened, default=1)


def _progress(detail: JobDetail, tasks: TaskCounts) -> float:
    state = detail.job.state
    if state is JobState.COMPLETED or not tasks.total:
        return float(state is JobState.COMPLETED)
    parts = sum(ProgressView.model_validate(said).share for node in detail.nodes for said in node.said or ())
    return min((tasks.completed + tasks.failed + parts) / tasks.total, 1.0)
