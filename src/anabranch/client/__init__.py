"""The typed client of the HTTP API."""

from anabranch.client.admin import Admin, AsyncAdmin
from anabranch.client.async_client import AsyncClient
from anabranch.client.client import Client
from anabranch.client.errors import NotAllowed, TimedOut
from anabranch.client.operations import BulkAnswer
from anabranch.contract.answer import Page
from anabranch.contract.catalog import Item, ItemChange, Publication, PublishedItem
from anabranch.contract.control import DeadLetter, Limit, NodeAgain, Paused, Queue, Replay, Retry, SetLimit, Worker
from anabranch.contract.jobs import (
    CheckedJob,
    Event,
    Graph,
    GraphEdge,
    GraphNode,
    JobError,
    JobProgress,
    JobStatus,
    JobSummary,
    Log,
    Node,
    Progress,
    SubmittedJob,
    Task,
    TaskCounts,
    Uploaded,
)
from anabranch.contract.schedules import Backfill, BackfillTick, Schedule, ScheduleRun, ScheduleTick
from anabranch.contract.stack import CheckedFunctions, Component, Health, Key, NewKey, Statistics, TableSize, TaskRow
from anabranch.contract.webhooks import Delivery, DeliveryAttempt, DeliveryDetail, NewWebhook, Replayed, Webhook
from anabranch.contract.workflows import Reloaded, Workflow, Workflows, WorkflowSummary
from anabranch.webhook_signature import verify_webhook

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncClient",
    "Backfill",
    "BackfillTick",
    "BulkAnswer",
    "CheckedFunctions",
    "CheckedJob",
    "Client",
    "Component",
    "DeadLetter",
    "Delivery",
    "DeliveryAttempt",
    "DeliveryDetail",
    "Event",
    "Graph",
    "GraphEdge",
    "GraphNode",
    "Health",
    "Item",
    "ItemChange",
    "JobError",
    "JobProgress",
    "JobStatus",
    "JobSummary",
    "Key",
    "Limit",
    "Log",
    "NewKey",
    "NewWebhook",
    "Node",
    "NodeAgain",
    "NotAllowed",
    "Page",
    "Paused",
    "Progress",
    "Publication",
    "PublishedItem",
    "Queue",
    "Reloaded",
    "Replay",
    "Replayed",
    "Retry",
    "Schedule",
    "ScheduleRun",
    "ScheduleTick",
    "SetLimit",
    "Statistics",
    "SubmittedJob",
    "TableSize",
    "Task",
    "TaskCounts",
    "TaskRow",
    "TimedOut",
    "Uploaded",
    "Webhook",
    "Worker",
    "Workflow",
    "WorkflowSummary",
    "Workflows",
    "verify_webhook",
]
