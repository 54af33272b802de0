"""The typed client of the HTTP API."""

from anabranch.client.answers import (
    Component,
    Event,
    Health,
    JobError,
    JobStatus,
    JobSummary,
    Log,
    Node,
    Page,
    Reloaded,
    SubmittedJob,
    Task,
    TaskCounts,
    Worker,
    Workflow,
    Workflows,
)
from anabranch.client.client import Client
from anabranch.client.errors import NotAllowed, TimedOut

__all__ = [
    "Client",
    "Component",
    "Event",
    "Health",
    "JobError",
    "JobStatus",
    "JobSummary",
    "Log",
    "Node",
    "NotAllowed",
    "Page",
    "Reloaded",
    "SubmittedJob",
    "Task",
    "TaskCounts",
    "TimedOut",
    "Worker",
    "Workflow",
    "Workflows",
]
