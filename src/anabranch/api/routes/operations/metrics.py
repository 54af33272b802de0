"""Metrics for Prometheus."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nsmallest

from fastapi import APIRouter, Response

from anabranch.access import Scope
from anabranch.api.deps import CurrentMonitor, CurrentRequests, CurrentTick, needs
from anabranch.api.health.prometheus import CONTENT_TYPE, Sample, draw_histogram, expose
from anabranch.api.health.request_metrics import measure_process
from anabranch.api.openapi.declare import problems
from anabranch.engine.read_models import Gauges
from anabranch.errors import AnabranchError

__all__ = ["router"]

router = APIRouter(tags=["health"])
MAX_QUEUES = 200
OTHER_QUEUES = "other queues"
# Of each kind of duration: its metric, the labels of name and detail, and what many names share.
DURATIONS = {
    "job": ("anabranch_job_seconds", ("workflow", "status"), "other workflows"),
    "node": ("anabranch_node_seconds", ("workflow", "node"), "other workflows"),
    "task": ("anabranch_task_seconds", ("handler", "status"), "other handlers"),
    "wait": ("anabranch_queue_wait_seconds", ("queue",), OTHER_QUEUES),
}
METRICS_RESPONSE = {"description": "Metrics", "content": {"text/plain": {"schema": {"type": "string"}}}}


@router.get(
    "/metrics",
    dependencies=[needs(Scope.READ)],
    response_class=Response,
    responses={**problems(), 200: METRICS_RESPONSE},
)
async def show_metrics(monitor: CurrentMonitor, requests: CurrentRequests, tick: CurrentTick) -> Response:
    """Metrics in the Prometheus text format; while the database is down, only those of this process."""
    gauges, disks = await monitor.gauges(), await monitor.disks()
    samples = [
        *requests.samples(),
        *measure_process(),
        Sample("anabranch_loop_tick_age_seconds", {}, round(tick.age, 3)),
        *(Sample("anabranch_disk_free_bytes", {"folder": folder}, free) for folder, free in disks.items()),
        *_database_samples(gauges),
    ]
    text = await asyncio.to_thread(expose, samples)  # tens of thousands of lines where all series are there
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


def _database_samples(gauges: Gauges | AnabranchError) -> Iterator[Sample]:
    yield Sample("anabranch_database_up", {}, not isinstance(gauges, AnabranchError))
    if isinstance(gauges, AnabranchError):
        return
    for status in ("pending", "running", "waiting"):
        yield Sample("anabranch_jobs", {"status": status}, gauges.jobs.get(status, 0))
    yield from _duration_samples(gauges)
    shown = _shown_queues(gauges)
    for name, by_queue in (("ready", gauges.ready), ("running", gauges.running), ("due", gauges.due)):
        for queue, tasks in _by_queue(by_queue, shown):
            yield Sample("anabranch_tasks", {"queue": queue, "status": name}, tasks)
    for kind in ("api", "orchestrator", "worker"):
        yield Sample("anabranch_sessions", {"kind": kind}, gauges.sessions.get(kind, 0))
    yield from (
        Sample("anabranch_breaker_open", {"kind": kind, "name": name}, on) for kind, name, on in gauges.breakers
    )
    for duty, age in sorted(gauges.duties.items()):
        yield Sample("anabranch_duty_age_seconds", {"duty": duty}, age)
    yield from _table_samples(gauges.tables)
    yield Sample("anabranch_worker_slots", {}, gauges.slots)
    for queue, workers in _by_queue(gauges.served, shown, join=min):
        yield Sample("anabranch_queue_workers", {"queue": queue}, workers)
    yield Sample("anabranch_rights_untaken", {}, gauges.untaken_rights)
    yield Sample("anabranch_rights_oldest_seconds", {}, gauges.oldest_right_seconds)
    for status in ("waiting", "dead"):
        yield Sample("anabranch_webhook_deliveries", {"status": status}, gauges.deliveries[status])
    yield Sample("anabranch_webhook_deliveries_oldest_seconds", {}, gauges.deliveries["oldest_seconds"])
    yield Sample("anabranch_webhook_breakers_open", {}, gauges.deliveries["open_breakers"])
    yield Sample("anabranch_database_bytes", {}, gauges.database_bytes)
    yield Sample("anabranch_database_connections", {}, gauges.connections)
    yield Sample("anabranch_database_connections_limit", {}, gauges.max_connections)
    yield Sample("anabranch_database_horizon_seconds", {}, gauges.horizon_seconds)
    yield Sample("anabranch_database_oldest_transaction_seconds", {}, gauges.oldest_transaction_seconds)


def _shown_queues(gauges: Gauges) -> frozenset[str]:
    """The queues that have series of their own: those without workers first, then those with the most tasks."""
    tasks = Counter(gauges.ready) + Counter(gauges.running) + Counter(gauges.due)
    names = {*tasks, *gauges.served}
    return frozenset(nsmallest(MAX_QUEUES, names, key=lambda name: (gauges.served.get(name) != 0, -tasks[name], name)))


def _by_queue(
    counts: Mapping[str, int], shown: frozenset[str], join: Callable[[Iterable[int]], int] = sum
) -> Iterator[tuple[str, int]]:
    """Each shown queue with its count, in order, and all others as one."""
    yield from sorted((queue, count) for queue, count in counts.items() if queue in shown)
    if rest := [count for queue, count in counts.items() if queue not in shown]:
        yield OTHER_QUEUES, join(rest)


def _duration_samples(gauges: Gauges) -> Iterator[Sample]:
    for kind, name, detail, buckets, seconds in gauges.durations:
        metric, names, others = DURATIONS[kind]
        labels = dict(zip(names, (name or others, detail), strict=False))
        counts = [buckets.get(str(bucket), 0) for bucket in range(len(gauges.duration_bounds) + 1)]
        yield from draw_histogram(metric, labels, gauges.duration_bounds, counts, seconds)


def _table_samples(tables: dict[str, dict[str, int]]) -> Iterator[Sample]:
    for table, counts in sorted(tables.items()):
        for state in ("live", "dead"):
            yield Sample("anabranch_table_rows", {"table": table, "state": state}, counts[state])
    totals = {"jobs": "jobs_submitted", "outcomes": "tasks_ended", "attempts": "attempts_repeated"}
    for table, name in totals.items():
        yield Sample(f"anabranch_{name}_total", {}, tables.get(table, {}).get("inserted", 0))
