"""What happened to a job, and the reducer that replays it into the states of the job and its nodes (E17)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anabranch.engine.model import Event, JobState, NodeState

__all__ = ["Replayed", "replay"]


@dataclass(frozen=True)
class Replayed:
    """Where a job and its nodes stand after some events."""

    state: JobState
    nodes: dict[str, NodeState]


def replay(events: Iterable[Event], nodes: Sequence[str]) -> Replayed:
    """The states that a job's events make, in their order; ValueError when one is missing or out of place."""
    state, states = JobState.PENDING, dict.fromkeys(nodes, NodeState.PENDING)
    for place, event in enumerate(events, 1):
        if event.seq != place:
            raise ValueError(f"event {place} of the job is missing: the next is {event.seq}")
        subject, _, what = event.kind.partition(".")
        if event.kind == "job.retried":
            state = JobState.PENDING
            states |= dict.fromkeys(_names(event), NodeState.PENDING)
        elif subject == "node" and event.node in states:
            states[event.node] = NodeState(what)
        elif event.kind == "job.ending":
            state = JobState.RUNNING
        elif event.kind != "job.submitted" and subject == "job":
            state = JobState(what)
    return Replayed(state, states)


def _names(event: Event) -> list[str]:
    names = event.data.get("nodes")
    return [str(name) for name in names] if isinstance(names, list) else []
