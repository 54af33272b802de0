"""Control of jobs, queues and workers."""

from datetime import datetime
from typing import Literal

from anabranch.contract.answer import Answer, answer
from anabranch.contract.jobs import JobError
from anabranch.enums import JobState, LimitKind, SessionKind

__all__ = [
    "DeadLetter",
    "Drained",
    "Limit",
    "NodeAgain",
    "Paused",
    "Queue",
    "Replay",
    "Retry",
    "SetLimit",
    "Signalled",
    "Worker",
]


@answer
class NodeAgain(Answer):
    """A node that runs again: completely, or only its failed tasks."""

    name: str
    runs: Literal["failed tasks", "whole"]
    tasks: int | None
    """How many tasks run, if that is known."""
    kept: int
    """How many results are kept."""


@answer
class Retry(Answer):
    """The nodes that a retry runs, or would run."""

    job_id: str
    generation: int
    dry_run: bool
    nodes: tuple[NodeAgain, ...]


@answer
class Signalled(Answer):
    """The result of a signal."""

    job_id: str
    node: str
    accepted: bool
    """False: the gate was already signalled with the same payload."""


@answer
class LimitFields(Answer):
    """What every answer about a limit has."""

    kind: LimitKind
    name: str
    most: int | None
    paused: bool
    reason: str
    set_by: str
    set_at: datetime


@answer
class Limit(LimitFields):
    """How many tasks of something may run at once; none while it is paused."""

    @property
    def warning(self) -> None:
        """Only a limit that was just set has a warning."""


@answer
class SetLimit(LimitFields):
    """A limit that was set."""

    warning: str | None = None
    """Says so if nothing has this name yet."""


@answer
class Paused(Answer):
    """Whether a queue or a workflow is paused."""

    kind: LimitKind
    name: str
    paused: bool
    reason: str
    warning: str | None = None
    """Says so if nothing has this name yet."""


@answer
class Queue(Answer):
    """A queue: how many tasks wait and run, how many lanes a limit holds back, and how many workers serve it."""

    name: str
    ready: int
    running: int
    held: int
    workers: int
    most: int | None
    paused: bool
    reason: str


@answer
class Worker(Answer):
    """A live process of the stack."""

    id: int
    kind: SessionKind
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    draining: bool
    """Whether it takes no more tasks."""
    running: int
    """Tasks in hand, at most one for each slot."""
    waiting: int
    """Tasks taken ahead, which wait in the worker for a slot."""
    began_at: datetime
    last_beat: datetime


@answer
class Drained(Answer):
    """Whether a worker takes no more tasks."""

    id: int
    draining: bool


@answer
class DeadLetter(Answer):
    """A task that failed permanently."""

    job_id: str
    workflow: str
    job_status: JobState
    task_id: str
    node: str
    index: int | str
    handler: str
    attempts: int
    error: JobError | None
    finished_at: datetime


@answer
class Replay(Answer):
    """The result of a replay for one job; `error` says why it was not replayed."""

    job_id: str
    nodes: tuple[str, ...]
    replayed: bool
    error: JobError | None
