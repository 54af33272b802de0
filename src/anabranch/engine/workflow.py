"""Workflow: what a job runs, checked once, when loaded; pinned to its jobs by the hash of its content (E16)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cached_property

from pydantic import TypeAdapter

from anabranch.engine.canonical import Json, canonical, decode, sha256
from anabranch.engine.errors import DefinitionError
from anabranch.engine.inputs import Input

__all__ = ["DEFAULT_QUEUE", "DEFAULT_TIMEOUT", "Backoff", "Node", "OnFailure", "Retry", "Spread", "Workflow"]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DEFAULT_QUEUE = "default"
DEFAULT_TIMEOUT = timedelta(minutes=30)


class Spread(StrEnum):
    """How many tasks a node has, and where they come from."""

    SINGLE = "single"
    FIXED = "fixed"
    DYNAMIC = "dynamic"
    FAN_OUT = "fan_out"
    FAN_IN = "fan_in"
    MATCH_PREVIOUS = "match_previous"


class OnFailure(StrEnum):
    """What a failed task means for its node and its job."""

    FAIL = "fail"
    FINISH = "finish"
    CONTINUE = "continue"


class Backoff(StrEnum):
    """How the delay between attempts grows."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True)
class Retry:
    """How often a task is tried, and how long it waits in between; without `max_attempts` the error's kind decides."""

    max_attempts: int | None = None
    backoff: Backoff = Backoff.EXPONENTIAL
    initial_delay: timedelta = timedelta(seconds=5)
    max_delay: timedelta = timedelta(seconds=300)


@dataclass(frozen=True)
class Node:
    """One step of a workflow; queue, timeout and retry are the handler's where the node has none."""

    name: str
    handler: str
    after: tuple[str, ...] = ()
    spread: Spread = Spread.SINGLE
    count: int | None = None
    count_param: str | None = None
    planned: bool = False
    aggregated: bool = False
    lineage: bool = False
    queue: str | None = None
    max_running: int | None = None
    timeout: timedelta | None = None
    queue_timeout: timedelta | None = None
    heartbeat_timeout: timedelta | None = None
    total_timeout: timedelta | None = None
    retry: Retry | None = None
    on_failure: OnFailure = OnFailure.FAIL


@dataclass(frozen=True)
class Workflow:
    """A DAG of nodes, in an order that runs every node after those it waits for."""

    id: str
    nodes: tuple[Node, ...]
    description: str = ""
    version: int = 1
    priority: int = 5
    inputs: Mapping[str, Input] | None = field(default=None)

    def __post_init__(self) -> None:
        """Check the workflow; every mistake is reported at once."""
        if mistakes := list(_mistakes(self)):
            raise DefinitionError("workflow.invalid", f"workflow {self.id!r}: " + "; ".join(mistakes))

    def node(self, name: str) -> Node:
        """The node with this name."""
        return next(node for node in self.nodes if node.name == name)

    @cached_property
    def text(self) -> str:
        """The canonical text that jobs are pinned to."""
        return canonical(decode(_ADAPTER.dump_json(self)))

    @cached_property
    def hash(self) -> str:
        """The hash of its content."""
        return sha256(self.text)

    @classmethod
    def from_json(cls, definition: Json) -> "Workflow":
        """The workflow that a job was pinned to."""
        return _ADAPTER.validate_python(definition)


_ADAPTER = TypeAdapter(Workflow)


def _mistakes(workflow: Workflow) -> list[str]:
    names = [node.name for node in workflow.nodes]
    found = [] if names else ["it has no nodes"]
    found += [f"the name {name!r} stands twice" for name in sorted({n for n in names if names.count(n) > 1})]
    found += [
        f"{name!r} can't be a node's name: use letters, digits and _" for name in names if not NAME.fullmatch(name)
    ]
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", workflow.id):
        found.append("its id must be a word of letters, digits, _, . and -, at most 63 long")
    for position, node in enumerate(workflow.nodes):
        found += [f"{node.name}: {mistake}" for mistake in _node_mistakes(node, workflow, names[:position])]
    return found


def _node_mistakes(node: Node, workflow: Workflow, before: list[str]) -> list[str]:
    found = [f"it waits for {name!r}, which is not before it" for name in node.after if name not in before]
    if node.spread is Spread.FIXED and (node.count is None or node.count < 0) and not node.planned:
        found.append("fixed parallelism needs a count of 0 or more")
    if node.spread is Spread.DYNAMIC and node.count_param is None and not node.planned:
        found.append("dynamic parallelism needs a planner or count_param")
    if node.spread is Spread.FAN_OUT and not node.planned:
        found.append("fan_out needs a planner (create_tasks_for_stage)")
    if node.spread in (Spread.FAN_OUT, Spread.FAN_IN, Spread.MATCH_PREVIOUS) and len(node.after) != 1:
        found.append(f"{node.spread} needs one stage before it")
    if node.lineage and len(node.after) != 1:
        found.append("uses_lineage needs one stage before it")
    declared = workflow.inputs
    if node.count_param and declared is not None and node.count_param not in declared:
        found.append(f"count_param names {node.count_param!r}, which is not an input")
    if node.max_running is not None and node.max_running < 1:
        found.append("max_parallel_tasks must be at least 1")
    limits = (node.timeout, node.queue_timeout, node.heartbeat_timeout, node.total_timeout)
    if any(limit is not None and limit <= timedelta(0) for limit in limits):
        found.append("its timeouts must be positive")
    if node.retry and node.retry.max_attempts is not None and node.retry.max_attempts < 1:
        found.append("retry.max_attempts must be at least 1")
    return found
