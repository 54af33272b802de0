"""Workflow: what a job runs. A plain value that the validator checks; jobs are pinned to its hash (E16)."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

from pydantic import TypeAdapter

from anabranch.canonical import Json, canonical, decode, sha256
from anabranch.workflows.bounds import MAX_ATTEMPTS, find_seconds_mistake, find_whole_mistake
from anabranch.workflows.expressions import Condition, Template, parse_condition, read_template
from anabranch.workflows.inputs import Input

__all__ = [
    "DEFAULT_QUEUE",
    "DEFAULT_TIMEOUT",
    "Backoff",
    "Branch",
    "Fold",
    "Folding",
    "Kind",
    "Node",
    "OnFailure",
    "Retry",
    "Spread",
    "Tolerance",
    "Workflow",
    "find_retry_mistakes",
]

DEFAULT_QUEUE = "default"
DEFAULT_TIMEOUT = timedelta(minutes=30)


class Kind(StrEnum):
    """What a node is. Those without tasks are settled as soon as they are reached."""

    TASK = "task"
    START = "start"
    END = "end"
    CONDITIONAL = "conditional"
    FAN_OUT = "fan_out"
    FAN_IN = "fan_in"
    GATE = "gate"
    WAIT = "wait"
    WORKFLOW = "workflow"

    @property
    def has_tasks(self) -> bool:
        """Whether workers have anything to do for it."""
        return self in (Kind.TASK, Kind.FAN_OUT, Kind.FAN_IN, Kind.WORKFLOW)

    @property
    def waits(self) -> bool:
        """Whether it stays open for a signal or a time, without any task."""
        return self in (Kind.GATE, Kind.WAIT)


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


def find_retry_mistakes(retry: Retry) -> Iterator[str]:
    """What of it is out of bounds; a definition that was stored before there were bounds is read all the same."""
    found = [
        "" if retry.max_attempts is None else find_whole_mistake("max_attempts", retry.max_attempts, 1, MAX_ATTEMPTS),
        find_seconds_mistake("initial_delay_seconds", retry.initial_delay.total_seconds(), zero=True),
        find_seconds_mistake("max_delay_seconds", retry.max_delay.total_seconds(), zero=True),
    ]
    return (f"retry.{mistake}" for mistake in found if mistake)


@dataclass(frozen=True)
class Branch:
    """A way out of a conditional: the first whose condition holds is taken; the default has none."""

    next: tuple[str, ...]
    condition: Json = None
    is_default: bool = False

    @cached_property
    def test(self) -> Condition:
        """The condition, parsed."""
        return parse_condition(self.condition, has_subject=True)


class Fold(StrEnum):
    """How a fan-in makes one value of many."""

    COLLECT = "collect"
    CONCAT = "concat"
    SUM = "sum"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True)
class Folding:
    """One member of a fan-in's output: a fold over the results, or over a part of each."""

    name: str
    fold: Fold
    field: str = ""


@dataclass(frozen=True)
class Tolerance:
    """How many tasks of a fan-out may fail."""

    count: int = 0
    percent: float = 0

    def of(self, width: int) -> int:
        """How many that are of so many tasks."""
        return max(self.count, int(Fraction(str(self.percent)) * width / 100)) if self.percent else self.count


@dataclass(frozen=True)
class Node:
    """One step of a workflow; queue, timeout and retry are the handler's where the node has none.

    It waits for all of `after`, and for one of `after_any`. A node with `params` fills them in for each task; without,
    a task gets the job's parameters and what a planner gave it. A node with `workflow` runs a job of that workflow for
    each task: of the definition with the hash, which is known once all workflows are. A gate's timeout is how long it
    waits for its signal; a wait has a duration or an end. `limit` names a key whose tasks are limited together.
    """

    name: str
    handler: str = ""
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
    kind: Kind = Kind.TASK
    after_any: tuple[str, ...] = ()
    params: dict[str, Json] | None = None
    when: Json = None
    subject: Json = None
    branches: tuple[Branch, ...] = ()
    source: Json = None
    max_items: int | None = None
    batch_size: int | None = None
    tolerate: Tolerance = Tolerance()
    folding: tuple[Folding, ...] = ()
    output: dict[str, Json] | None = None
    priority: int | None = None
    description: str = ""
    workflow: str = ""
    workflow_hash: str = ""
    duration_seconds: Json = None
    until: Json = None
    limit: Json = None

    @property
    def parents(self) -> tuple[str, ...]:
        """Every node it waits for."""
        return (*self.after, *self.after_any)

    @cached_property
    def template(self) -> Template | None:
        """The parameters, parsed."""
        return None if self.params is None else read_template(self.params)

    @cached_property
    def condition(self) -> Condition | None:
        """Its `when`, parsed."""
        return None if self.when is None else parse_condition(self.when, has_subject=False)

    @cached_property
    def subject_template(self) -> Template | None:
        """What a conditional's short conditions are about, parsed."""
        return None if self.subject is None else read_template(self.subject)

    @cached_property
    def source_template(self) -> Template | None:
        """What a fan-out has a task for each item of, parsed."""
        return None if self.source is None else read_template(self.source)

    @cached_property
    def limit_template(self) -> Template | None:
        """The key of its limit, parsed."""
        return None if self.limit is None else read_template(self.limit)

    @cached_property
    def time_template(self) -> Template | None:
        """How long a wait lasts, or when it ends, parsed."""
        time = self.duration_seconds if self.until is None else self.until
        return None if time is None else read_template(time)

    @cached_property
    def output_template(self) -> Template | None:
        """The output of an end, parsed."""
        return None if self.output is None else read_template(self.output)


@dataclass(frozen=True)
class Workflow:
    """A DAG of nodes, in an order that runs every node after those it waits for."""

    id: str
    nodes: tuple[Node, ...]
    description: str = ""
    version: int = 1
    priority: int = 5
    inputs: Mapping[str, Input] | None = field(default=None)
    name: str = ""
    output: dict[str, Json] | None = None

    def node(self, name: str) -> Node:
        """The node with this name."""
        return self._by_name[name]

    @cached_property
    def names(self) -> list[str]:
        """The names of its nodes, in order."""
        return list(self._by_name)

    @cached_property
    def parts(self) -> frozenset[str]:
        """The hashes of the workflows that it runs jobs of."""
        return frozenset(node.workflow_hash for node in self.nodes if node.workflow_hash)

    def behind(self, names: Collection[str]) -> set[str]:
        """The nodes that come after any of these, however far."""
        found: set[str] = set()
        for node in self.nodes:
            if not found.isdisjoint(node.parents) or not set(names).isdisjoint(node.parents):
                found.add(node.name)
        return found

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def text(self) -> str:
        """The canonical text that jobs are pinned to."""
        return canonical(decode(_ADAPTER.dump_json(self, exclude_defaults=True)))

    @cached_property
    def hash(self) -> str:
        """The hash of its content."""
        return sha256(self.text)

    @cached_property
    def output_template(self) -> Template | None:
        """The job's result, parsed."""
        return None if self.output is None else read_template(self.output)

    @classmethod
    def from_json(cls, definition: Json) -> "Workflow":
        """The workflow that a job was pinned to."""
        return _ADAPTER.validate_python(definition)


_ADAPTER = TypeAdapter(Workflow)
