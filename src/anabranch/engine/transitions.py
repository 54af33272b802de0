"""What the evaluator is told of a job, and what it answers: facts and events in, transitions or needs out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.engine.canonical import Json
from anabranch.engine.expressions import Reference
from anabranch.engine.lanes import KeepLane, OpenLane
from anabranch.engine.model import JobState, NodeState, Purpose

__all__ = [
    "ABSENT",
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
    "Transition",
    "Values",
]


class Absent:
    """What a value is that was looked for and is not there."""


ABSENT = Absent()
Values = Mapping[tuple[str | int, ...], Json | Absent]


@dataclass(frozen=True)
class Facts:
    """What is known of a job: the branches its conditionals took, and why it fails if it already does.

    `kept` are the nodes that were retried and go on with the results they have.
    """

    job_id: str
    parameters: Mapping[str, Json]
    states: Mapping[str, NodeState]
    taken: Mapping[str, int] = field(default_factory=dict)
    failure: dict[str, Json] | None = None
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
    error: dict[str, Json] | None = None
    width: int = 1


@dataclass(frozen=True)
class Signalled:
    """A gate was told what it waited for."""

    node: str
    payload: dict[str, Json]


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
    error: dict[str, Json] | None = None
    output: dict[str, Json] | None = None


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
    error: dict[str, Json] | None = None
    results_of: tuple[str, ...] = ()
    result: dict[str, Json] | None = None


@dataclass(frozen=True)
class Needs:
    """The parts of nodes' outputs that must be known before anything can be said."""

    references: frozenset[Reference]


Transition = OpenLane | KeepLane | OpenWait | SetNode | SetJob
