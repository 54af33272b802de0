"""The typed client of the HTTP API."""

from anabranch.client.answers import (
    Component,
    Health,
    JobError,
    JobStatus,
    JobSummary,
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
from anabranch.client.async_client import AsyncClient
from anabranch.client.client import Client
from anabranch.client.errors import NotAllowed, TimedOut
from anabranch.client.files import Uploaded
from anabranch.client.follow import Progress
from anabranch.client.graph import Graph, GraphEdge, GraphNode
from anabranch.client.history import Event, Log

__all__ = [
    "AsyncClient",
    "Client",
    "Component",
    "Event",
    "Graph",
    "GraphEdge",
    "GraphNode",
    "Health",
    "JobError",
    "JobStatus",
    "JobSummary",
    "Log",
    "Node",
    "NotAllowed",
    "Page",
    "Progress",
    "Reloaded",
    "SubmittedJob",
    "Task",
    "TaskCounts",
    "TimedOut",
    "Uploaded",
    "Worker",
    "Workflow",
    "Workflows",
]
