"""What callers send, checked once: frozen, and unknown keys are refused."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from anabranch.access import LOCAL, KeyRequest, Scope
from anabranch.api.security.admission import CORRELATION_ID
from anabranch.contract.jobs import TaskStatus
from anabranch.engine.model import JobState
from anabranch.strict_model import StrictModel

__all__ = [
    "CancelRequest",
    "DeadLettersQuery",
    "EventsQuery",
    "JobRequest",
    "JobsQuery",
    "KeysQuery",
    "LimitRequest",
    "LogsQuery",
    "MakeKeyRequest",
    "PauseRequest",
    "RedeployQuery",
    "ReplayRequest",
    "RetryRequest",
    "StreamQuery",
    "SubmitQuery",
    "TaskRowsQuery",
    "TasksQuery",
    "UploadQuery",
]

JsonValue = Any  # JSON of any shape, checked when the body was parsed
PRIORITY = "1 is the most urgent; without one, the workflow's own."
LIMIT_DESCRIPTION = "How many at most."
Priority = Annotated[int, Field(ge=1, le=9)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]


class SubmitQuery(StrictModel):
    """How to submit the parameters in the body."""

    rerun: bool = Field(False, description="Make a new job even if one of the same parameters exists.")
    priority: Priority | None = Field(None, description=PRIORITY)


class JobRequest(StrictModel):
    """A job to submit."""

    model_config = ConfigDict(
        strict=True,
        json_schema_extra={"examples": [{"workflow": "hello_world", "parameters": {"n": 3}, "priority": 2}]},
    )
    workflow: Name = Field(description="The id of a workflow.")
    parameters: dict[str, JsonValue] = Field(default_factory=dict, description="As the workflow's schema says.")
    priority: Priority | None = Field(None, description=PRIORITY)
    rerun: bool = Field(False, description="Make a new job even if one of the same parameters exists.")
    correlation_id: str | None = Field(None, pattern=f"^{CORRELATION_ID}$", description="Stands above the header's.")
    callbacks: None = Field(None, description="Not built yet.")

    @field_validator("callbacks", mode="before")
    @classmethod
    def _refuse_callbacks(cls, given: object) -> None:
        if given is not None:
            raise PydanticCustomError("not_built", "Callbacks are not built yet; ask for the job's status instead")


class CancelRequest(StrictModel):
    """Why a job is cancelled."""

    model_config = ConfigDict(strict=True, json_schema_extra={"examples": [{"reason": "The source was wrong."}]})
    reason: str = Field("it was cancelled on request", max_length=1000, description="Kept as the job's error.")


class RetryRequest(StrictModel):
    """What to run again; without a choice, what failed the job."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"examples": [{"dry_run": True}, {"nodes": ["cogs"]}, {"from_node": "catalog"}]}
    )
    nodes: list[Name] = Field(default_factory=list, max_length=1000, description="Only failed tasks of these nodes.")
    from_node: Name | None = Field(None, description="Run this node whole, and all that is behind it.")
    dry_run: bool = Field(False, description="Only return what would run.")


class LimitRequest(StrictModel):
    """How many tasks may run at once."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"examples": [{"most": 4, "reason": "The server is small."}]}
    )
    most: int = Field(ge=1, lt=2**31, description="How many at once.")
    reason: str = Field("", max_length=1000, description="Shown with the limit.")


class PauseRequest(StrictModel):
    """Why something is paused."""

    model_config = ConfigDict(strict=True, json_schema_extra={"examples": [{"reason": "The server is moved."}]})
    reason: str = Field(
        "", max_length=1000, description="Shown with the pause, and in the status of jobs that wait for its end."
    )


class DeadLettersQuery(StrictModel):
    """Which dead letters to list."""

    limit: int = Field(50, ge=1, le=500, description=LIMIT_DESCRIPTION)
    after: str | None = Field(None, pattern=r"^[0-9]{1,18}\.[0-9]{1,9}$", description="The `next` of the page before.")
    workflow: Name | None = Field(None, description="Only of this workflow.")
    handler: Name | None = Field(None, description="Only of this handler.")
    code: Name | None = Field(None, description="The code of the error.")


class ReplayRequest(StrictModel):
    """Which dead letters to replay; at least one choice is needed."""

    model_config = ConfigDict(
        strict=True,
        json_schema_extra={"examples": [{"code": "task.timed_out"}, {"workflow": "hello_world", "limit": 100}]},
    )
    jobs: list[Name] = Field(default_factory=list, max_length=1000, description="Ids of jobs, or starts of them.")
    workflow: Name | None = Field(None, description="Only of this workflow.")
    handler: Name | None = Field(None, description="Only of this handler.")
    code: Name | None = Field(None, description="The code of the error.")
    limit: int = Field(1000, ge=1, le=10_000, description="How many dead letters to look at.")


class JobsQuery(StrictModel):
    """Which jobs to list."""

    limit: int = Field(50, ge=1, le=500, description=LIMIT_DESCRIPTION)
    before: int | None = Field(None, ge=1, lt=2**63, description="The `next` of the page before.")
    status: JobState | None = Field(None, description="Only jobs with this status.")
    workflow: Name | None = Field(None, description="Only of this workflow.")
    parent: Name | None = Field(None, description="Only jobs that run for this one.")


class TasksQuery(StrictModel):
    """Which tasks to list."""

    limit: int = Field(100, ge=1, le=1000, description=LIMIT_DESCRIPTION)
    after: str | None = Field(None, pattern=r"^[0-9]{1,18}\.[0-9]{1,9}$", description="The `next` of the page before.")
    node: Name | None = Field(None, description="Only of this node.")
    status: TaskStatus | None = Field(None, description="Only tasks with this status.")


class EventsQuery(StrictModel):
    """Which events to list."""

    limit: int = Field(100, ge=1, le=1000, description=LIMIT_DESCRIPTION)
    after: int = Field(0, ge=0, lt=2**31, description="The `next` of the page before, or any `seq`.")


class StreamQuery(StrictModel):
    """Where a stream begins."""

    after: int = Field(0, ge=0, lt=2**31, description="The `seq` of the last event that is known.")


class UploadQuery(StrictModel):
    """What a file is called."""

    name: str = Field(description="One segment of a path: no slash, nothing that can't be shown, at most 255 bytes.")


class LogsQuery(StrictModel):
    """Whose output to list."""

    limit: int = Field(50, ge=1, le=200, description=LIMIT_DESCRIPTION)
    after: str | None = Field(
        None, pattern=r"^[0-9]{1,18}(\.[0-9]{1,9}){2}$", description="The `next` of the page before."
    )
    node: Name | None = Field(None, description="Only of this node.")
    index: Name | None = Field(None, description="The index of a task: a number or a name.")
    attempt: int | None = Field(None, ge=1, lt=2**31, description="Only of this attempt of each task.")


class TaskRowsQuery(StrictModel):
    """Which tasks to list."""

    limit: int = Field(100, ge=1, le=1000, description="How many at most.")
    after: str | None = Field(None, pattern=r"^[0-9]{1,18}\.[0-9]{1,9}$", description="The `next` of the page before.")


class RedeployQuery(StrictModel):
    """Whether to redeploy indeed."""

    confirm: str = Field("", description="`yes`")


class MakeKeyRequest(StrictModel):
    """A key to make."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ci", "scope": "submit", "owner": "acme"}]})
    name: Name = Field(description="For people: what or who uses it.")
    scope: Scope = Field(description="What it may do; each includes those before it.")
    owner: Name = Field(LOCAL.owner, description="Whose jobs it submits; keys of one owner share them.")
    expires_in_seconds: int | None = Field(
        None, ge=1, le=3650 * 86_400, strict=True, description="Without it, the key lasts until it is revoked."
    )

    def wanted(self) -> KeyRequest:
        """The request as the store takes it."""
        seconds = self.expires_in_seconds
        return KeyRequest(self.name, self.scope, self.owner, None if seconds is None else timedelta(seconds=seconds))


class KeysQuery(StrictModel):
    """Which keys to list."""

    limit: int = Field(100, ge=1, le=1000, description="How many at most.")
    before: int | None = Field(None, ge=1, lt=2**63, description="The `next` of the page before.")
