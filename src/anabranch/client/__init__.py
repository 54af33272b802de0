"""The typed client of the HTTP API."""

from anabranch.client.admin import CheckedFunctions, Key, NewKey, Statistics, TableSize, TaskRow
from anabranch.client.answers import (
    BulkAnswer,
    Component,
    Health,
    JobError,
    JobStatus,
    JobSummary,
    Node,
    Page,
    Progress,
    Reloaded,
    SubmittedJob,
    Task,
    TaskCounts,
    Worker,
    Workflow,
    Workflows,
)
from anabranch.client.async_client import AsyncAdmin, AsyncClient
from anabranch.client.client import Admin, Client
from anabranch.client.control_answers import DeadLetter, Limit, NodeAgain, Paused, Queue, Replay, Retry
from anabranch.client.errors import NotAllowed, TimedOut
from anabranch.client.files import Uploaded
from anabranch.client.graph import Graph, GraphEdge, GraphNode
from anabranch.client.history import Event, Log
from anabranch.client.job_stream import JobProgress

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncClient",
    "BulkAnswer",
    "CheckedFunctions",
    "Client",
    "Component",
    "DeadLetter",
    "Event",
    "Graph",
    "GraphEdge",
    "GraphNode",
    "Health",
    "JobError",
    "JobProgress",
    "JobStatus",
    "JobSummary",
    "Key",
    "Limit",
    "Log",
    "NewKey",
    "Node",
    "NodeAgain",
    "NotAllowed",
    "Page",
    "Paused",
    "Progress",
    "Queue",
    "Reloaded",
    "Replay",
    "Retry",
    "Statistics",
    "SubmittedJob",
    "TableSize",
    "Task",
    "TaskCounts",
    "TaskRow",
    "TimedOut",
    "Uploaded",
    "Worker",
    "Workflow",
    "Workflows",
]
