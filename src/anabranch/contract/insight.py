"""Where time goes, what fails and what needs a person: of one job, of a workflow, and of all jobs."""

from collections.abc import Mapping
from datetime import datetime

from anabranch.contract.answer import Answer, answer
from anabranch.contract.jobs import JobError
from anabranch.enums import JobState, NodeStatus

__all__ = [
    "AttemptTime",
    "FailingWorkflow",
    "FailureGroup",
    "HourCount",
    "NodeTime",
    "Overview",
    "Timeline",
    "WaitingGate",
    "WaitingTasks",
    "WorkflowVersion",
]


@answer
class AttemptTime(Answer):
    """When an attempt of a task waited, started and ran."""

    node: str
    index: int | str
    attempt: int
    status: str
    """`running`, or how it ended."""
    ready_at: datetime
    """When it could be claimed: once its node had opened, or the attempt before it had ended."""
    claimed_at: datetime
    started_at: datetime | None
    """When its handler began; null if it never did."""
    finished_at: datetime | None


@answer
class NodeTime(Answer):
    """When a node was open, with the attempts of its first tasks."""

    name: str
    status: NodeStatus
    opened_at: datetime | None
    finished_at: datetime | None
    critical: bool
    """Whether the job took as long as it did because of it: the last of those that the next one waited for."""
    tasks: int
    attempts: tuple[AttemptTime, ...]
    """At most 20 tasks of each node; a list of tasks has them all."""


@answer
class Timeline(Answer):
    """When the parts of a job waited and ran."""

    job_id: str
    status: JobState
    created_at: datetime
    finished_at: datetime | None
    nodes: tuple[NodeTime, ...]


@answer
class FailureGroup(Answer):
    """Failed tasks of a job that failed in the same way."""

    fingerprint: str
    """Of the node, the code and the message without its numbers, ids and quoted names."""
    node: str
    handler: str
    tasks: int
    indexes: tuple[int | str, ...]
    """Of the first five tasks."""
    last_at: datetime
    error: JobError
    """That of the first task."""


@answer
class HourCount(Answer):
    """How many jobs ended in an hour."""

    hour: datetime
    state: JobState
    jobs: int


@answer
class FailingWorkflow(Answer):
    """A workflow of which jobs failed in the last day."""

    workflow: str
    failed: int
    ended: int
    """How many completed or failed."""
    job_id: str
    """The last that failed."""
    code: str | None
    failed_at: datetime


@answer
class WaitingTasks(Answer):
    """Tasks of a node that wait for a worker."""

    job_id: str
    workflow: str
    node: str
    queue: str
    since: datetime
    tasks: int


@answer
class WaitingGate(Answer):
    """A gate that waits for an answer."""

    job_id: str
    workflow: str
    node: str
    until: datetime | None
    """When its time is up."""
    since: datetime


@answer
class Overview(Answer):
    """What goes on, and what went wrong in the last day."""

    open_jobs: Mapping[str, int]
    """By state."""
    hours: tuple[HourCount, ...]
    """Jobs that ended in the last day, of the newest 10,000."""
    failing: tuple[FailingWorkflow, ...]
    """Of the same jobs, at most ten workflows."""
    oldest_waiting: tuple[WaitingTasks, ...]
    """The five that have waited longest."""
    gates: tuple[WaitingGate, ...]
    """The ten that have waited longest."""


@answer
class WorkflowVersion(Answer):
    """A definition of a workflow that jobs were pinned to."""

    hash: str
    version: int
    jobs: int
    """Of the newest 10,000 jobs of the workflow."""
    first_at: datetime
    last_at: datetime
