"""Workflows and handlers."""

from collections.abc import Iterator
from dataclasses import field

from anabranch.contract.answer import Answer, JsonObject, answer

__all__ = [
    "Handler",
    "HandlerRetry",
    "Refusal",
    "Reloaded",
    "Verdict",
    "Workflow",
    "WorkflowFields",
    "WorkflowLinks",
    "WorkflowMistake",
    "WorkflowSummary",
    "Workflows",
]


@answer
class Refusal(Answer):
    """A workflow, file or plugin that can't be used, and why."""

    name: str
    """A workflow's id, its file, or a plugin."""
    reason: str


@answer
class WorkflowLinks(Answer):
    """The paths of a workflow."""

    self: str
    inputs: str
    graph: str
    submit: str


@answer
class WorkflowFields(Answer):
    """What is said of a workflow wherever it is shown."""

    workflow_id: str
    name: str = field(repr=False)
    version: int
    description: str
    nodes: int = field(repr=False)
    origin: str = field(repr=False)
    """The module that declares it, or the name of its file."""
    hash: str
    """The hash of its definition: jobs are pinned to it."""


@answer
class WorkflowSummary(WorkflowFields):
    """A workflow in a list."""

    links: WorkflowLinks = field(repr=False)

    @property
    def inputs(self) -> None:
        """Only a single workflow has its inputs."""

    @property
    def definition(self) -> None:
        """Only a single workflow has its definition."""


@answer
class Workflow(WorkflowFields):
    """A workflow with its definition."""

    links: WorkflowLinks = field(repr=False)
    inputs: JsonObject
    """The JSON Schema of its inputs."""
    definition: JsonObject
    """The canonical definition, without default values."""


@answer
class Workflows(Answer):
    """The workflows by name, and those that were refused."""

    items: tuple[WorkflowSummary, ...]
    refusals: tuple[Refusal, ...] = field(metadata={"alias": "refused"})

    def __iter__(self) -> Iterator[WorkflowSummary]:
        return iter(self.items)

    @property
    def refused(self) -> dict[str, str]:
        """The reasons by name."""
        return {one.name: one.reason for one in self.refusals}


@answer
class WorkflowMistake(Answer):
    """A mistake and its position in the text, counted from 1."""

    line: int
    column: int
    message: str
    hint: str


@answer
class Verdict(Answer):
    """Whether a workflow is valid, and every mistake if it isn't."""

    valid: bool
    mistakes: tuple[WorkflowMistake, ...]


@answer
class Reloaded(Answer):
    """The result of reading the workflow files again."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    """Gone, and still served: a file that may have held them is refused."""
    refusals: tuple[Refusal, ...] = field(metadata={"alias": "refused"})

    @property
    def refused(self) -> dict[str, str]:
        """The reasons by name."""
        return {one.name: one.reason for one in self.refusals}


@answer
class HandlerRetry(Answer):
    """How often a task is tried; without `max_attempts` the error's kind decides."""

    max_attempts: int | None
    backoff: str
    initial_delay_seconds: float
    max_delay_seconds: float


@answer
class Handler(Answer):
    """A handler that tasks can call."""

    name: str
    version: str
    summary: str
    queue: str
    timeout_seconds: float
    retry: HandlerRetry
    runs: str
    """Where it runs."""
    parameters: JsonObject | None
    """The JSON Schema of its parameters; null if it takes any."""
    result: JsonObject | None
