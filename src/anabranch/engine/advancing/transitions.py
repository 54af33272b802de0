"""The inputs and outputs of the evaluator: facts and events in, transitions or needs out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.canonical import Json, JsonObject
from anabranch.engine.advancing.json_array import Items
from anabranch.engine.advancing.lanes import KeepLane, OpenLane
from anabranch.engine.failure import Failure
from anabranch.engine.model import JobState, NodeState, Purpose
from anabranch.workflows.expressions import Reference

__all__ = [
    "ABSENT",
    "MAX_ITEMS",
    "MAX_OUTPUT_BYTES",
    "Absent",
    "BeginCleanup",
    "EndJob",
    "Event",
    "Facts",
    "LaneEnded",
    "Needs",
    "OpenWait",
    "SetJob",
    "SetNode",
    "Signalled",
    "Started",
    "TimeUp",
    "TooLarge",
    "Transition",
    "Value",
    "Values",
]


MAX_OUTPUT_BYTES = 16_000_000
MAX_ITEMS = 1_000_000


class Absent:
    """The value of a reference to something that does not exist."""


@dataclass(frozen=True)
class TooLarge:
    """The value of a reference into an output with more bytes than expressions may read."""

    size: int


ABSENT = Absent()
Value = Json | Absent | TooLarge | Items
Values = Mapping[tuple[str | int, ...], Value]


@dataclass(frozen=True)
class Facts:
    """A job as the evaluator sees it: the branches its conditionals took, and its failure, if it has one.

    `kept` are the nodes that were retried and go on with the results they have; `tick` has the times of the schedule
    that made the job; `ending` is how it ends once its cleanup nodes have ended.
    """

    job_id: str
    parameters: Mapping[str, Json]
    states: Mapping[str, NodeState]
    taken: Mapping[str, int] = field(default_factory=dict)
    failure: Failure | None = None
    state: JobState = field(kw_only=True)
    kept: frozenset[str] = frozenset()
    tick: Mapping[str, Json] | None = None
    ending: JobState | None = None


@dataclass(frozen=True)
class Started:
    """The job was submitted, or is to be tried again; or all of it but its cleanup is over."""


@dataclass(frozen=True)
class LaneEnded:
    """A lane's last task ended, or it failed beyond what it tolerates."""

    node: str
    purpose: Purpose
    failed: int
    error: Failure | None = None
    width: int = 1


@dataclass(frozen=True)
class Signalled:
    """A gate received the signal that it waited for."""

    node: str
    payload: JsonObject


@dataclass(frozen=True)
class TimeUp:
    """The time of a wait or a gate is up."""

    node: str


Event = Started | LaneEnded | Signalled | TimeUp


@dataclass(frozen=True)
class SetNode:
    """Move a node to a state; one without tasks has its output at once."""

    node: str
    state: NodeState
    error: Failure | None = None
    output: JsonObject | None = None


@dataclass(frozen=True)
class OpenWait:
    """Wait for a signal, for a number of seconds, or until a time."""

    node: str
    is_gate: bool
    seconds: float | None = None
    until: str | None = None


@dataclass(frozen=True)
class SetJob:
    """Move the job to a state; a completed job's result is given, or the outputs of the nodes named."""

    state: JobState
    error: Failure | None = None
    results_of: tuple[str, ...] = ()
    result: JsonObject | None = None


@dataclass(frozen=True)
class BeginCleanup:
    """Nothing is left but cleanup nodes: close all lanes, and note how the job ends after them."""

    end: SetJob


@dataclass(frozen=True)
class EndJob:
    """End the job as was noted when its cleanup began."""


@dataclass(frozen=True)
class Needs:
    """The parts of nodes' outputs that must be known before anything can be said; sources of fan-outs may be Items."""

    references: frozenset[Reference]
    sources: frozenset[Reference] = field(default=frozenset(), compare=False)


Transition = OpenLane | KeepLane | OpenWait | SetNode | SetJob | BeginCleanup | EndJob
