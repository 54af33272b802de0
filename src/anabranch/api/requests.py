"""What callers send, checked once: frozen, and unknown keys are refused."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from anabranch.api.edge import CORRELATION_ID
from anabranch.api.schemas import TaskStatus
from anabranch.engine.model import JobState

__all__ = [
    "CancelRequest",
    "EventsQuery",
    "JobRequest",
    "JobsQuery",
    "LogsQuery",
    "StreamQuery",
    "SubmitQuery",
    "TasksQuery",
    "UploadQuery",
]

JsonValue = Any  # JSON of any shape, checked when the body was parsed
Priority = Annotated[int, Field(ge=1, le=9, description="1 is the most urgent.")]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]


class Input(BaseModel):
    """What a caller sends."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SubmitQuery(Input):
    """How to submit the parameters in the body."""

    rerun: bool = Field(False, description="Make a new job even if one of the same parameters exists.")
    priority: Priority | None = None


class JobRequest(Input):
    """A job to submit."""

    model_config = ConfigDict(strict=True)
    workflow: Name
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    priority: Priority | None = None
    rerun: bool = Field(False, description="Make a new job even if one of the same parameters exists.")
    correlation_id: str | None = Field(None, pattern=f"^{CORRELATION_ID}$", description="Stands above the header's.")
    callbacks: None = Field(None, description="Not built yet.")

    @field_validator("callbacks", mode="before")
    @classmethod
    def _refuse_callbacks(cls, given: object) -> None:
        if given is not None:
            raise PydanticCustomError("not_built", "Callbacks are not built yet; ask for the job's status instead")


class CancelRequest(Input):
    """Why a job is cancelled."""

    model_config = ConfigDict(strict=True)
    reason: str = Field("it was cancelled on request", max_length=1000, description="Kept as the job's error.")


class JobsQuery(Input):
    """Which jobs to list."""

    limit: int = Field(50, ge=1, le=500)
    before: int | None = Field(None, ge=1, lt=2**63, description="The `next` of the page before.")
    state: JobState | None = None
    workflow: Name | None = None


class TasksQuery(Input):
    """Which tasks to list."""

    limit: int = Field(100, ge=1, le=1000)
    after: str | None = Field(None, pattern=r"^[0-9]{1,18}\.[0-9]{1,9}$", description="The `next` of the page before.")
    node: Name | None = None
    status: TaskStatus | None = None


class EventsQuery(Input):
    """Which events to list."""

    limit: int = Field(100, ge=1, le=1000)
    after: int = Field(0, ge=0, lt=2**31, description="The `next` of the page before, or any `seq`.")


class StreamQuery(Input):
    """Where a stream begins."""

    after: int = Field(0, ge=0, lt=2**31, description="The `seq` of the last event that is known.")


class UploadQuery(Input):
    """What a file is called."""

    name: str = Field(description="One segment of a path: no slash, nothing that can't be shown, at most 255 bytes.")


class LogsQuery(Input):
    """Whose output to list."""

    limit: int = Field(50, ge=1, le=200)
    after: str | None = Field(
        None, pattern=r"^[0-9]{1,18}(\.[0-9]{1,9}){2}$", description="The `next` of the page before."
    )
    node: Name | None = None
    index: Name | None = Field(None, description="The index of a task: a number or a name.")
    attempt: int | None = Field(None, ge=1, lt=2**31)
