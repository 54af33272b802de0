"""The work of nodes: what their tasks run, how often they are tried, and the handlers that they call."""

import dataclasses
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BaseModel, Field, ValidationInfo, model_validator
from pydantic.dataclasses import dataclass
from pydantic.json_schema import SkipJsonSchema

from anabranch.canonical import Json, JsonObject
from anabranch.workflows import values
from anabranch.workflows.expressions import Template, read_template
from anabranch.workflows.mistakes import refuse
from anabranch.workflows.rules import (
    DECLARED,
    MAX_ATTEMPTS,
    MAX_WHOLE,
    PRIORITIES,
    Check,
    Model,
    Seconds,
    Whole,
    declared,
    filled,
)

__all__ = [
    "DEFAULT_QUEUE",
    "DEFAULT_TIMEOUT",
    "Backoff",
    "Breaker",
    "Handler",
    "HandlerWork",
    "Mapped",
    "Retry",
    "Runs",
    "Text",
    "Time",
    "Timeouts",
    "Work",
    "WorkflowWork",
]

DEFAULT_QUEUE = "default"
DEFAULT_TIMEOUT = timedelta(minutes=30)

Text = Annotated[str | None, Check(values.read_text, {"type": "string", "minLength": 1})]
Mapped = Annotated[JsonObject | None, Check(values.read_any, {"type": "object"})]
Time = Annotated[timedelta | None, Seconds()]


class Backoff(StrEnum):
    """How the delay between attempts grows."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class Timeouts(NamedTuple):
    """The timeouts that a task may have besides that of one attempt."""

    queue: timedelta | None = None
    heartbeat: timedelta | None = None
    total: timedelta | None = None


@dataclass(frozen=True)
class Retry(Model):
    """How often a task is tried, and how long it waits in between; without `max_attempts` the error's kind decides."""

    max_attempts: Annotated[int | None, Whole(1, MAX_ATTEMPTS)] = declared(
        None, "How many attempts there are: 1 is no retry.", examples=[3]
    )
    backoff: Backoff = declared(Backoff.EXPONENTIAL, "How the delay grows.")
    initial_delay: Annotated[timedelta, Seconds(zero=True)] = declared(
        timedelta(seconds=5), "The delay before the second attempt.", "initial_delay_seconds"
    )
    max_delay: Annotated[timedelta, Seconds(zero=True)] = declared(
        timedelta(seconds=300), "The longest delay.", "max_delay_seconds"
    )

    @model_validator(mode="before")
    @classmethod
    def _check_delays(cls, given: Any, info: ValidationInfo) -> Any:  # whatever is validated
        if info.context is DECLARED and isinstance(given, dict):
            first, longest = given.get("initial_delay_seconds"), given.get("max_delay_seconds")
            if isinstance(first, int | float) and isinstance(longest, int | float) and 0 <= longest < first:
                raise refuse("max_delay_seconds is less than initial_delay_seconds", "", "max_delay_seconds")
        return given


@dataclass(frozen=True, kw_only=True)
class Breaker(Model):
    """Stops all tasks of a handler or a queue for a time, when so many attempts failed for what is outside."""

    failures: Annotated[int, Whole(1, MAX_ATTEMPTS)] = Field(description="How many such failures open it.")
    window_seconds: Annotated[float, Seconds()] = Field(description="The time in which they count together.")
    open_seconds: Annotated[float, Seconds()] = Field(description="How long nothing begins; then one task tries.")


@dataclass(frozen=True, kw_only=True)
class Work(Model):
    """What the tasks of a node do. One with `params` fills them in; without, a task gets the job's parameters."""

    assumed: ClassVar[Mapping[str, Json]] = {"params": {}}

    params: Mapped = declared(
        None, "The parameters; text in them may hold expressions.", examples=[{"size": "{{ inputs.size }}"}]
    )
    retry: Retry | None = declared(
        None, "How often a task is tried, in place of the handler's.", examples=[{"max_attempts": 3}]
    )
    priority: Annotated[int | None, Whole(*PRIORITIES)] = declared(
        None, "How urgent its tasks are, in place of the workflow's: 1 comes first."
    )
    limit: Annotated[Json, Check(values.read_limit, {"type": "string", "minLength": 1})] = declared(
        None, "A key whose tasks are limited together, by `anabranch limits`; it may be an expression."
    )

    @cached_property
    def template(self) -> Template | None:
        """The parameters, parsed."""
        return None if self.params is None else read_template(self.params)

    @cached_property
    def limit_template(self) -> Template | None:
        """The key of its limit, parsed."""
        return None if self.limit is None else read_template(self.limit)


@dataclass(frozen=True, kw_only=True)
class HandlerWork(Work):
    """A task that calls a handler; queue, timeout and retry are the handler's where it has none."""

    handler: Annotated[str, Check(values.read_text, {"type": "string", "minLength": 1})] = Field(
        description="The handler that does the work.", examples=["echo"]
    )
    handler_version: Annotated[int | None, Whole(0, MAX_WHOLE)] = declared(
        None, "The major version of the handler that its tasks need: 2 is any 2.x; without it, any worker's will do."
    )
    queue: Text = declared(None, "The queue of its tasks, in place of the handler's.")
    timeout: Time = declared(None, "How long one attempt may run, in place of the handler's.", "timeout_seconds")
    queue_timeout: Time = declared(None, "How long a task may wait for a worker, in seconds.", "queue_timeout_seconds")
    heartbeat_timeout: Time = declared(
        None, "How long a handler that reports progress may be silent, in seconds.", "heartbeat_timeout_seconds"
    )
    total_timeout: Time = declared(
        None, "How long all attempts of a task together may take, in seconds.", "total_timeout_seconds"
    )

    @property
    def runs(self) -> str:
        """The name of what is run."""
        return self.handler

    @property
    def timeouts(self) -> Timeouts:
        """The timeouts besides that of one attempt."""
        return Timeouts(self.queue_timeout, self.heartbeat_timeout, self.total_timeout)


@dataclass(frozen=True, kw_only=True)
class WorkflowWork(Work):
    """A task that runs a job of another workflow: of the definition with the hash, known once all workflows are."""

    workflow: Annotated[str, Check(values.read_workflow_id, {"type": "string", "pattern": values.ID_PATTERN})] = Field(
        description="The id of the workflow that is run.", examples=["process_raster"]
    )
    workflow_hash: SkipJsonSchema[str] = filled("workflow_hash", "")

    @property
    def runs(self) -> str:
        """The name of what is run."""
        return self.workflow


class Runs(StrEnum):
    """Where a handler runs."""

    IN_LOOP = "in the worker's loop"
    QUICKLY = "in the worker's thread for short ones"
    IN_CHILD = "in a child that is kept"
    HEAVILY = "in a fresh child with limits"


@dataclasses.dataclass(frozen=True)
class Handler:
    """A function that tasks call, under the name that workflows use."""

    name: str
    function: Callable[..., Any]  # called with what `arguments` names
    arguments: tuple[str, ...]
    model: type[BaseModel] | None
    queue: str = DEFAULT_QUEUE
    timeout: timedelta = DEFAULT_TIMEOUT
    retry: Retry = dataclasses.field(default_factory=Retry)
    runs: Runs = Runs.IN_CHILD
    summary: str = ""
    result: type[BaseModel] | None = None
    version: str | None = None
    breaker: Breaker | None = None
