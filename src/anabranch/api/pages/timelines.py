"""A timeline within a page: a row for each node and for the attempts of its first tasks, in percent of the whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from anabranch.contract.insight import AttemptTime, NodeTime, Timeline
from anabranch.durations import spell_duration

__all__ = ["Bar", "Row", "lay_out"]

MAX_TASK_ROWS = 8  # of a node; its tasks are all in their table


@dataclass(frozen=True)
class Bar:
    """A piece of a row: what it was, from where to where in percent of the whole, and the same in words."""

    kind: str
    start: float
    width: float
    words: str


@dataclass(frozen=True)
class Row:
    """A line of the timeline."""

    name: str
    node: str
    is_node: bool
    critical: bool
    status: str
    bars: tuple[Bar, ...]
    took: str


@dataclass(frozen=True)
class _Scale:
    start: datetime
    end: datetime

    def bar(self, kind: str, begun: datetime, ended: datetime | None) -> Bar:
        """A piece; one that goes on is drawn to the end."""
        whole = max((self.end - self.start).total_seconds(), 1e-6)
        until = ended or self.end
        seconds = max((until - begun).total_seconds(), 0.0)
        place = 100 * max((begun - self.start).total_seconds(), 0.0) / whole
        width = min(100 * seconds / whole, 100 - place)
        words = f"{kind} {spell_duration(round(seconds, 3))}" + ("" if ended else " so far")
        return Bar(kind, round(place, 3), round(max(width, 0.15), 3), words)


def lay_out(timeline: Timeline, now: datetime | None = None) -> list[Row]:
    """The rows of a timeline from its job's creation to its end, or until now."""
    scale = _Scale(timeline.created_at, timeline.finished_at or now or datetime.now(UTC))
    return [row for node in timeline.nodes if node.opened_at for row in _rows(node, scale)]


def _rows(node: NodeTime, scale: _Scale) -> Iterator[Row]:
    opened = node.opened_at or scale.start
    if node.tasks == 1 and len(node.attempts) == 1:
        bars, status = tuple(_pieces(node.attempts[0], scale)), node.attempts[0].status
        yield Row(node.name, node.name, True, node.critical, status, bars, _took(opened, node.finished_at, scale))
        return
    whole = scale.bar("open", opened, node.finished_at)
    yield Row(node.name, node.name, True, node.critical, node.status, (whole,), _took(opened, node.finished_at, scale))
    for attempt in node.attempts[:MAX_TASK_ROWS]:
        again = f", attempt {attempt.attempt}" if attempt.attempt > 1 else ""
        name = f"{attempt.index}{again}"
        took = _took(attempt.claimed_at, attempt.finished_at, scale)
        yield Row(name, node.name, False, False, attempt.status, tuple(_pieces(attempt, scale)), took)


def _pieces(attempt: AttemptTime, scale: _Scale) -> Iterator[Bar]:
    if attempt.claimed_at > attempt.ready_at:
        yield scale.bar("queued", attempt.ready_at, attempt.claimed_at)
    begun = attempt.started_at
    if begun is None:
        yield scale.bar("starting", attempt.claimed_at, attempt.finished_at)
        return
    if begun > attempt.claimed_at:
        yield scale.bar("starting", attempt.claimed_at, begun)
    yield scale.bar("running", begun, attempt.finished_at)


def _took(begun: datetime, ended: datetime | None, scale: _Scale) -> str:
    return spell_duration(round(max(((ended or scale.end) - begun).total_seconds(), 0.0), 2))
