"""What a handler knows about its task, and what it may say while it runs."""

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from anabranch.engine.canonical import Json, encode
from anabranch.engine.errors import ContractViolationError, Permanent

__all__ = ["CURRENT", "Context", "Silence", "TaskFacts", "Voice", "ids_of_task"]

MOST_HANDED = 64_000


@dataclass(slots=True)
class TaskFacts:
    """A task as its handler sees it; it travels to the process that runs it."""

    job_id: str
    task_id: str
    node_id: str
    index: int | str
    attempt: int
    params: dict[str, Json]
    correlation_id: str
    predecessor: list[Json] | None
    scratch: str


# The task whose handler runs here now. Setting it costs next to nothing; what a log line needs of it is found when one
# is written (O3).
CURRENT: ContextVar[TaskFacts | None] = ContextVar("anabranch_task", default=None)


def ids_of_task() -> dict[str, str | int]:
    """What every log line of the task that runs here carries; nothing where none does."""
    task = CURRENT.get()
    if task is None:
        return {}
    return {
        "job": task.job_id, "task": task.task_id, "attempt": task.attempt, "correlation_id": task.correlation_id
    }  # fmt: skip


class Voice(Protocol):
    """The line between a handler and its worker."""

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled."""

    @property
    def stopping(self) -> bool:
        """Whether the worker is about to stop."""

    def progress(self, progress: dict[str, Json]) -> None:
        """Say how far the task is."""


class Silence:
    """The line of a handler that is too short to say or hear anything."""

    cancelled = False
    stopping = False

    def progress(self, progress: dict[str, Json]) -> None:
        """Nobody listens."""


class Context:
    """What a handler knows about its task, and what it may say while it runs."""

    __slots__ = ("_facts", "_voice", "handed", "has_scratch", "metrics")

    def __init__(self, facts: TaskFacts, voice: Voice) -> None:
        """Made by the engine for each attempt."""
        self._facts = facts
        self._voice = voice
        self.metrics: dict[str, Json] = {}
        self.handed: dict[str, Json] = {}
        self.has_scratch = False

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._facts.job_id

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self._facts.task_id

    @property
    def node_id(self) -> str:
        """The node's name."""
        return self._facts.node_id

    @property
    def index(self) -> int | str:
        """The task's index in its node."""
        return self._facts.index

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._facts.attempt

    @property
    def params(self) -> Mapping[str, Json]:
        """The task's parameters."""
        return self._facts.params

    @property
    def correlation_id(self) -> str:
        """The id that ties log lines, events and answers of a job together."""
        return self._facts.correlation_id

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines are kept with the attempt, or in the worker's log where the handler runs in it."""
        return logging.LoggerAdapter(logging.getLogger("anabranch.task"), {"task": self._facts.task_id})

    @property
    def scratch(self) -> Path:
        """A folder of this attempt's own, removed after it (W6)."""
        self.has_scratch = True
        folder = Path(self._facts.scratch)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def cancelled(self) -> bool:
        """Whether the job was cancelled: stop soon, or be killed after the grace."""
        return self._voice.cancelled

    @property
    def stopping(self) -> bool:
        """Whether the worker is about to stop: save what you can within the grace."""
        return self._voice.stopping

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far the task is; a node with a heartbeat timeout must hear this in time."""
        said: dict[str, Json] = {"done": done, "total": total, "message": message}
        try:
            encode(said)
        except ValueError as error:
            raise ContractViolationError(f"ctx.progress was told what can't be stored: {error}") from error
        self._voice.progress(said)

    def hand_over(self, **params: Json) -> None:
        """Give parameters to the task of the same index of the next stage; they count if this attempt's result does."""
        handed = {**self.handed, **params}
        try:
            size = len(encode(handed))
        except ValueError as error:
            raise ContractViolationError(f"ctx.hand_over was given what can't be stored: {error}") from error
        if size > MOST_HANDED:
            raise ContractViolationError(f"ctx.hand_over was given {size} characters; at most {MOST_HANDED} are kept")
        self.handed = handed

    def predecessor(self) -> Any:  # as the handler of the stage before returned it
        """The result of the task with the same index in the stage before."""
        if not self._facts.predecessor:
            raise Permanent(
                f"task {self.task_id} has no predecessor",
                code="task.no_predecessor",
                remedy="Declare uses_lineage on the stage, and give both stages the same indexes.",
            )
        return self._facts.predecessor[0]

    def has_predecessor(self) -> bool:
        """Whether the stage before has a result with the same index."""
        return bool(self._facts.predecessor)

    get_predecessor_result = predecessor
