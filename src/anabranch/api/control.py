"""What callers get who control jobs, queues and workers."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import Field

from anabranch.api.schemas import ErrorView, View
from anabranch.controls import NodeAgain, Replayed, RetryPlan
from anabranch.engine.model import JobState, Limit, LimitKind
from anabranch.engine.views import DeadLetter, QueueDetail

__all__ = [
    "DeadLetterView",
    "LimitView",
    "PausedView",
    "QueueView",
    "ReplayView",
    "RetryView",
    "SetLimitView",
    "SignalView",
    "WorkerDrainView",
]


class NodeAgainView(View):
    """A node that runs again."""

    name: str
    runs: Literal["failed tasks", "whole"]
    tasks: int | None = Field(description="How many tasks run, where that is known.")
    kept: int = Field(description="How many results are kept.")

    @classmethod
    def of(cls, node: NodeAgain) -> Self:
        """The view of a node."""
        return cls(name=node.name, runs="whole" if node.is_whole else "failed tasks", tasks=node.tasks, kept=node.kept)


class RetryView(View):
    """What a retry runs."""

    job_id: str
    generation: int
    dry_run: bool
    nodes: list[NodeAgainView]

    @classmethod
    def of(cls, plan: RetryPlan, *, dry_run: bool) -> Self:
        """The view of a plan."""
        nodes = [NodeAgainView.of(node) for node in plan.nodes]
        return cls(job_id=plan.job.job_id, generation=plan.job.generation + 1, dry_run=dry_run, nodes=nodes)


class SignalView(View):
    """What became of a signal."""

    job_id: str
    node: str
    accepted: bool = Field(description="False: the gate was already signalled with the same payload.")


class LimitView(View):
    """How many tasks of something may run at once; none while it is paused."""

    kind: LimitKind
    name: str
    most: int | None
    paused: bool
    reason: str
    set_by: str
    set_at: datetime

    @classmethod
    def of(cls, limit: Limit) -> Self:
        """The view of a limit."""
        return cls(**vars(limit))


class SetLimitView(LimitView):
    """A limit that was set."""

    warning: str | None = Field(None, description="Where nothing has this name yet, says so.")

    @classmethod
    def of(cls, limit: Limit, warning: str | None = None) -> Self:
        """The view of a limit."""
        return cls(**vars(limit), warning=warning)


class PausedView(View):
    """Whether a queue or a workflow is paused."""

    kind: LimitKind
    name: str
    paused: bool
    reason: str
    warning: str | None = Field(None, description="Where nothing has this name yet, says so.")


class QueueView(View):
    """A queue: how many tasks wait and run, how many lanes a limit holds back, and how many workers serve it."""

    name: str
    ready: int
    running: int
    held: int
    workers: int
    most: int | None
    paused: bool
    reason: str

    @classmethod
    def of(cls, queue: QueueDetail) -> Self:
        """The view of a queue."""
        return cls(**vars(queue))


class WorkerDrainView(View):
    """Whether a worker takes nothing more."""

    id: int
    draining: bool


class DeadLetterView(View):
    """A task that failed for good."""

    job_id: str
    workflow: str
    job_status: JobState
    task_id: str
    node: str
    index: int | str
    handler: str
    attempts: int
    error: ErrorView | None
    finished_at: datetime

    @classmethod
    def of(cls, letter: DeadLetter) -> Self:
        """The view of a dead letter."""
        known: dict[str, Any] = {name: value for name, value in vars(letter).items() if name in cls.model_fields}
        return cls(**{**known, "job_status": letter.job_state, "error": ErrorView.of(letter.error)})


class ReplayView(View):
    """What became of the dead letters of one job; `error` says why they were left."""

    job_id: str
    nodes: list[str]
    replayed: bool
    error: ErrorView | None

    @classmethod
    def of(cls, replayed: Replayed) -> Self:
        """The view of a replay."""
        error = replayed.error
        said = None if error is None else {"code": error.code, "message": error.message, "remedy": error.remedy or ""}
        return cls(job_id=replayed.job_id, nodes=list(replayed.nodes), replayed=error is None, error=ErrorView.of(said))
