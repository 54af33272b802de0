"""The API's answers about the control of jobs, queues and workers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from anabranch.client.answers import JobError

__all__ = ["DeadLetter", "Limit", "NodeAgain", "Paused", "Queue", "Replay", "Retry"]

Raw = dict[str, Any]  # a JSON object of the API


def _known(model: type, raw: Raw) -> Raw:
    """The keys of an answer that the model knows; a later API may return more."""
    return {name: raw[name] for name in model.__annotations__ if name in raw}


@dataclass(frozen=True)
class NodeAgain:
    """A node that runs again: completely, or only its failed tasks."""

    name: str
    runs: str
    tasks: int | None
    kept: int


@dataclass(frozen=True)
class Retry:
    """The nodes that a retry runs, or would run."""

    job_id: str
    generation: int
    dry_run: bool
    nodes: Sequence[NodeAgain]
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Retry":
        """Read an answer."""
        nodes = tuple(NodeAgain(**_known(NodeAgain, node)) for node in raw["nodes"])
        return cls(raw["job_id"], raw["generation"], raw["dry_run"], nodes, raw)


@dataclass(frozen=True)
class Queue:
    """A queue with its numbers of waiting and running tasks."""

    name: str
    ready: int
    running: int
    held: int
    workers: int
    most: int | None
    paused: bool
    reason: str
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Queue":
        """Read a queue."""
        return cls(**_known(cls, raw), raw=raw)


@dataclass(frozen=True)
class Limit:
    """How many tasks of something may run at once; none while it is paused."""

    kind: str
    name: str
    most: int | None
    paused: bool
    reason: str
    set_by: str
    set_at: datetime
    raw: Raw = field(repr=False)
    warning: str | None = None

    @classmethod
    def of(cls, raw: Raw) -> "Limit":
        """Read a limit."""
        return cls(**{**_known(cls, raw), "set_at": datetime.fromisoformat(raw["set_at"])}, raw=raw)


@dataclass(frozen=True)
class Paused:
    """Whether a queue or a workflow is paused; the warning says that the name is not known yet."""

    kind: str
    name: str
    paused: bool
    reason: str
    raw: Raw = field(repr=False)
    warning: str | None = None

    @classmethod
    def of(cls, raw: Raw) -> "Paused":
        """Read an answer."""
        return cls(**_known(cls, raw), raw=raw)


@dataclass(frozen=True)
class DeadLetter:
    """A task that failed permanently."""

    job_id: str
    workflow: str
    job_status: str
    task_id: str
    node: str
    index: int | str
    handler: str
    attempts: int
    error: JobError | None
    finished_at: datetime
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "DeadLetter":
        """Read a dead letter."""
        known = {
            **_known(cls, raw),
            "error": JobError.of(raw["error"]),
            "finished_at": datetime.fromisoformat(raw["finished_at"]),
        }
        return cls(**known, raw=raw)


@dataclass(frozen=True)
class Replay:
    """The result of a replay for one job; `error` says why it was not replayed."""

    job_id: str
    nodes: Sequence[str]
    replayed: bool
    error: JobError | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Replay":
        """Read a replay."""
        return cls(raw["job_id"], tuple(raw["nodes"]), raw["replayed"], JobError.of(raw["error"]), raw)
