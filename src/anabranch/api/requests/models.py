"""Query parameters and bodies of requests; unknown keys are refused."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from anabranch.access import DEFAULT_PLATFORM, PLATFORM_PATTERN, KeyRequest, Scope
from anabranch.api.requests.labels import LabelPairs, Labels
from anabranch.api.requests.webhooks import CallbackRequest
from anabranch.api.security.outer_middleware import CORRELATION_ID
from anabranch.contract.jobs import TaskStatus
from anabranch.engine.model import JobState
from anabranch.strict_model import StrictModel

__all__ = [
    "LIMIT_DESCRIPTION",
    "CancelRequest",
    "ConfirmQuery",
    "DeadLettersQuery",
    "EventsQuery",
    "HistoryQuery",
    "ItemActionRequest",
    "ItemsQuery",
    "JobRequest",
    "JobsQuery",
    "KeysQuery",
    "Labelled",
    "LimitRequest",
    "LogsQuery",
    "MakeKeyRequest",
    "Name",
    "PauseRequest",
    "ReplaceRequest",
    "ReplayRequest",
    "RetryRequest",
    "RollbackRequest",
    "StreamQuery",
    "SubmitQuery",
    "TaskRowsQuery",
    "TasksQuery",
    "UnpublishRequest",
    "UploadQuery",
]

JsonValue = Any  # JSON of any shape, checked when the body was parsed
PRIORITY = "1 is the most urgent; without one, the workflow's own."
LIMIT_DESCRIPTION = "The size of the page."
TaskCursor = Annotated[
    str | None, Field(pattern=r"^[0-9]{1,18}\.[0-9]{1,9}$", description="The `next` of the previous page.")
]
Priority = Annotated[int, Field(ge=1, le=9)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]
PlatformId = Annotated[str, Field(pattern=f"^{PLATFORM_PATTERN.pattern}$")]
ExpectedNumber = Annotated[
    int | None,
    Field(
        ge=1,
        lt=2**31,
        description="The number that the caller saw last, as `If-Match`; 409 if another has acted since.",
    ),
]


class Labelled(StrictModel):
    """Labels in a query."""

    label: LabelPairs = Field(default_factory=list, description="`NAME=VALUE`; may be repeated.")

    @property
    def labels(self) -> dict[str, str]:
        """The labels by name."""
        return dict(pair.split("=", 1) for pair in self.label)


class SubmitQuery(Labelled):
    """How to submit the parameters in the body."""

    rerun: bool = Field(False, description="Create a new job even if one with the same parameters exists.")
    priority: Priority | None = Field(None, description=PRIORITY)


class JobRequest(StrictModel):
    """A job to submit."""

    model_config = ConfigDict(
        strict=True,
        json_schema_extra={
            "examples": [{"workflow": "hello_world", "parameters": {"n": 3}, "labels": {"team": "maps"}}]
        },
    )
    workflow: Name = Field(description="The id of a workflow.")
    parameters: dict[str, JsonValue] = Field(
        default_factory=dict, description="Validated against the workflow's schema."
    )
    priority: Priority | None = Field(None, description=PRIORITY)
    rerun: bool = Field(False, description="Create a new job even if one with the same parameters exists.")
    labels: Labels = Field(
        default_factory=dict, description="Of a new job, to find it by; one that exists keeps its own."
    )
    correlation_id: str | None = Field(
        None, pattern=f"^{CORRELATION_ID}$", description="Overrides the header `X-Correlation-ID`."
    )
    callbacks: list[CallbackRequest] | None = Field(
        None, max_length=20, description="Who is called when the job ends; no part of its identity."
    )


class CancelRequest(StrictModel):
    """Why a job is cancelled."""

    model_config = ConfigDict(strict=True, json_schema_extra={"examples": [{"reason": "The source was wrong."}]})
    reason: str = Field("it was cancelled on request", max_length=1000, description="Stored as the job's error.")


class ItemActionRequest(StrictModel):
    """Why an item is changed, and what of it the caller has seen."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"examples": [{"reason": "It shows the wrong area.", "dry_run": True}]}
    )
    reason: str = Field(min_length=1, max_length=1000, description="Stored in the item's history.")
    expected: ExpectedNumber = None
    dry_run: bool = Field(False, description="Check everything and show what would be done.")


class UnpublishRequest(ItemActionRequest):
    """The same, with a confirmation."""

    confirm: str = Field("", max_length=10, description="Must be `yes`, unless it is a dry run.")


class RollbackRequest(ItemActionRequest):
    """The same, with the number to roll back to."""

    number: int | None = Field(None, ge=1, lt=2**31, description="Without one, what was shown before.")


class ReplaceRequest(StrictModel):
    """New content for an item: the workflow that makes it, and its parameters."""

    model_config = ConfigDict(
        strict=True,
        json_schema_extra={
            "examples": [{"reason": "A better scan.", "parameters": {"source": "bronze://uploads/1a/scan.tif"}}]
        },
    )
    reason: str = Field(min_length=1, max_length=1000, description="Stored in the item's history.")
    workflow: Name | None = Field(
        None,
        description="A workflow with the inputs collection, item_id and reason; without it, process_vector for the "
        "item of a vector layer, and process_raster for others.",
    )
    parameters: dict[str, JsonValue] = Field(description="Its other inputs; the route gives those, and `expected`.")
    expected: ExpectedNumber = None


class ConfirmQuery(StrictModel):
    """The confirmation of what destroys."""

    confirm: str = Field("", description="Must be `yes`.")


class RetryRequest(StrictModel):
    """What to run again; without a choice, the failed tasks."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"examples": [{"dry_run": True}, {"nodes": ["cogs"]}, {"from_node": "catalog"}]}
    )
    nodes: list[Name] = Field(default_factory=list, max_length=1000, description="Only failed tasks of these nodes.")
    from_node: Name | None = Field(None, description="Run this whole node and all nodes after it.")
    dry_run: bool = Field(False, description="Only return what would run.")


class LimitRequest(StrictModel):
    """How many tasks may run at once."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"examples": [{"most": 4, "reason": "The server is small."}]}
    )
    most: int = Field(ge=1, lt=2**31, description="How many may run at once.")
    reason: str = Field("", max_length=1000, description="Shown with the limit.")


class PauseRequest(StrictModel):
    """Why something is paused."""

    model_config = ConfigDict(strict=True, json_schema_extra={"examples": [{"reason": "The server is moved."}]})
    reason: str = Field(
        "", max_length=1000, description="Shown with the pause, and in the status of jobs that wait for it to end."
    )


class DeadLetterChoice(StrictModel):
    """Which dead letters are meant."""

    workflow: Name | None = Field(None, description="Only of this workflow.")
    handler: Name | None = Field(None, description="Only of this handler.")
    code: Name | None = Field(None, description="The code of the error.")


class DeadLettersQuery(DeadLetterChoice):
    """Which dead letters to list."""

    limit: int = Field(50, ge=1, le=500, description=LIMIT_DESCRIPTION)
    after: TaskCursor = None


class ReplayRequest(DeadLetterChoice):
    """Which dead letters to replay; at least one choice is needed."""

    model_config = ConfigDict(
        strict=True,
        json_schema_extra={"examples": [{"code": "task.timed_out"}, {"workflow": "hello_world", "limit": 100}]},
    )
    jobs: list[Name] = Field(
        default_factory=list, max_length=1000, description="Ids of jobs, or unique prefixes of them."
    )
    limit: int = Field(1000, ge=1, le=10_000, description="The maximum number of dead letters.")


class JobsQuery(Labelled):
    """Which jobs to list."""

    limit: int = Field(50, ge=1, le=500, description=LIMIT_DESCRIPTION)
    before: int | None = Field(None, ge=1, lt=2**63, description="The `next` of the previous page.")
    status: JobState | None = Field(None, description="Only jobs with this status.")
    workflow: Name | None = Field(None, description="Only of this workflow.")
    parent: Name | None = Field(None, description="Only child jobs of this job.")


class TasksQuery(StrictModel):
    """Which tasks to list."""

    limit: int = Field(100, ge=1, le=1000, description=LIMIT_DESCRIPTION)
    after: TaskCursor = None
    node: Name | None = Field(None, description="Only of this node.")
    status: TaskStatus | None = Field(None, description="Only tasks with this status.")


class EventsQuery(StrictModel):
    """Which events to list."""

    limit: int = Field(100, ge=1, le=1000, description=LIMIT_DESCRIPTION)
    after: int = Field(0, ge=0, lt=2**31, description="The `next` of the previous page, or any `seq`.")


class StreamQuery(StrictModel):
    """Where a stream begins."""

    after: int = Field(0, ge=0, lt=2**31, description="The `seq` of the last event that the caller has.")


class UploadQuery(StrictModel):
    """The name of an uploaded file."""

    name: str = Field(description="One segment of a path: no slash, printable, at most 255 bytes.")


class CompleteUploadQuery(UploadQuery):
    """What a file is called, and how many parts it has."""

    parts: int = Field(ge=1, le=1_000_000, description="How many parts were sent.")


class LogsQuery(StrictModel):
    """Which logs to list."""

    limit: int = Field(50, ge=1, le=200, description=LIMIT_DESCRIPTION)
    after: str | None = Field(
        None, pattern=r"^[0-9]{1,18}(\.[0-9]{1,9}){2}$", description="The `next` of the previous page."
    )
    node: Name | None = Field(None, description="Only of this node.")
    index: Name | None = Field(None, description="The index of a task: a number or a name.")
    attempt: int | None = Field(None, ge=1, lt=2**31, description="Only of this attempt of each task.")
    status: Literal["running", "failed"] | None = Field(
        None, description="Only of attempts that run now, or of those that did not complete their task."
    )


class ItemsQuery(StrictModel):
    """Which published items to list."""

    limit: int = Field(100, ge=1, le=1000, description=LIMIT_DESCRIPTION)
    after: Name | None = Field(None, description="The `next` of the previous page.")
    collection: Name | None = Field(None, description="Only of this collection.")
    job_id: Name | None = Field(None, description="Only those that this job published, by its whole id.")
    made_by: Name | None = Field(None, description="Only those that this handler took part in.")
    older_than: Name | None = Field(None, description="Only by versions of that handler before this one.")


class HistoryQuery(StrictModel):
    """Which publications of an item to list."""

    limit: int = Field(100, ge=1, le=1000, description=LIMIT_DESCRIPTION)
    after: int | None = Field(None, ge=1, lt=2**31, description="The `next` of the previous page.")


class TaskRowsQuery(StrictModel):
    """Which tasks to list."""

    limit: int = Field(100, ge=1, le=1000, description=LIMIT_DESCRIPTION)
    after: TaskCursor = None


class MakeKeyRequest(StrictModel):
    """A key to create."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ci", "scope": "submit", "platform": "ddh"}]})
    name: Name = Field(description="A name for people: who or what uses the key.")
    scope: Scope = Field(description="What the key may do; each scope includes the previous ones.")
    platform: PlatformId = Field(
        DEFAULT_PLATFORM, description="The platform that it belongs to; keys of one platform share their jobs."
    )
    expires_in_seconds: int | None = Field(
        None, ge=1, le=3650 * 86_400, strict=True, description="Without it, the key is valid until it is revoked."
    )

    def wanted(self) -> KeyRequest:
        """The request for the key store."""
        seconds = self.expires_in_seconds
        return KeyRequest(self.name, self.scope, self.platform, None if seconds is None else timedelta(seconds=seconds))


class KeysQuery(StrictModel):
    """Which keys to list."""

    limit: int = Field(100, ge=1, le=1000, description=LIMIT_DESCRIPTION)
    before: int | None = Field(None, ge=1, lt=2**63, description="The `next` of the previous page.")
