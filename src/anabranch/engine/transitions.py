"""What the evaluator gets to know of a job, and what it answers: facts and events in, transitions or needs out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.canonical import Json, JsonObject
from anabranch.engine.failure import Failure
from anabranch.engine.items import Items
from anabranch.engine.lanes import KeepLane, OpenLane
from anabranch.engine.model import JobState, NodeState, Purpose
from anabranch.workflows.expressions import Reference

__all__ = [
    "ABSENT",
    "MOST_ITEMS",
    "MOST_LOOKED_INTO",
    "Absent",
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


MOST_LOOKED_INTO = 16_000_000
MOST_ITEMS = 1_000_000


class Absent:
    """What a value is that was looked for and is not there."""


@dataclass(frozen=True)
class TooLarge:
    """What a value is that is in an output with more bytes than expressions may look into."""

    size: int


ABSENT = Absent()
Value = Json | Absent | TooLarge | Items
Values = Mapping[tuple[str | int, ...], Value]


@dataclass(frozen=True)
class Facts:
    """What is known of a job: the branches its conditionals took, and why it fails if it already does.

    `kept` are the nodes that were retried and go on with the results they have.
    """

    job_id: str
    parameters: Mapping[str, Json]
    states: Mapping[str, NodeState]
    taken: Mapping[str, int] = field(default_factory=dict)
    failure: Failure | None = None
    state: JobState = field(kw_only=True)
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Started:
    """The job was submitted, or is to be tried again."""


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
    """A wait is over, or a gate waited for as long as it may."""

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
    """Wait for a signal, for so many seconds, or until a time; the store knows the time."""

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
class Needs:
    """The parts of nodes' outputs that must be known before anything can be said; sources of fan-outs may be Items."""

    references: frozenset[Reference]
    sources: frozenset[Reference] = field(default=frozenset(), compare=False)


Transition = OpenLane | KeepLane | OpenWait | SetNode | SetJob
