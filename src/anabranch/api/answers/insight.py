"""Builds the answers about the time that the parts of a job took."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from anabranch.contract.insight import AttemptTime, NodeTime, Timeline
from anabranch.engine.model import Job
from anabranch.engine.read_models import NodeDetail
from anabranch.workflows.drawing import Layout

__all__ = ["MAX_ATTEMPTS", "build_timeline", "find_critical"]

MAX_ATTEMPTS = 20


def build_timeline(job: Job, nodes: Sequence[NodeDetail], layout: Layout, times: Sequence[AttemptTime]) -> Timeline:
    """The times of a job's nodes and of their first attempts."""
    by_node = {node: tuple(found) for node, found in groupby(times, key=lambda time: time.node)}
    critical = find_critical(nodes, [(route.edge.tail, route.edge.head) for route in layout.routes])
    shown = (
        NodeTime(
            node.name,
            node.status,
            node.opened_at,
            node.finished_at,
            node.name in critical,
            node.tasks.total,
            tuple(_order(by_node.get(node.name, ()))),
        )
        for node in nodes
    )
    return Timeline(job.job_id, job.state, job.created_at, job.finished_at, tuple(shown))


def find_critical(nodes: Collection[NodeDetail], edges: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The nodes that the end of the job waited for: from the last to end, back along the last that each waited for."""
    ended = {node.name: node.finished_at for node in nodes if node.opened_at and node.finished_at}
    running = [node.name for node in nodes if node.opened_at and not node.finished_at]
    before: dict[str, list[str]] = {}
    for tail, head in edges:
        before.setdefault(head, []).append(tail)

    def last(names: Iterable[str]) -> str | None:
        known = [name for name in names if name in ended]
        return max(known, key=lambda name: ended[name], default=None)

    at = running[-1] if running else last(ended)
    found: list[str] = []
    while at is not None and at not in found:
        found.append(at)
        at = last(before.get(at, ()))
    return frozenset(found)


def _order(times: Sequence[AttemptTime]) -> Iterable[AttemptTime]:
    """Attempts of the first tasks; one after another of its task could be claimed once that had ended."""
    wanted = list(dict.fromkeys(time.index for time in times))[:MAX_ATTEMPTS]
    ends: dict[int | str, datetime | None] = {}
    for time in times:
        if time.index in wanted:
            earlier = ends.get(time.index)
            yield replace(time, ready_at=earlier) if earlier else time
            ends[time.index] = time.finished_at
