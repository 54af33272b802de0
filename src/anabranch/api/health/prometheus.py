"""The Prometheus text format, and the list of all metrics."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

__all__ = ["CONTENT_TYPE", "METRICS", "Metric", "Sample", "draw_histogram", "expose"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metric(NamedTuple):
    """A metric: its name, its type, its labels and what it means."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    meaning: str


class Sample(NamedTuple):
    """One value of a metric; the suffix is for histograms, whose labels are written once for all buckets."""

    metric: str
    labels: Mapping[str, str] | str
    value: float
    suffix: str = ""


# Sorted by name; `make reference` writes docs/reference/metrics.md from it.
# fmt: off
METRICS: tuple[Metric, ...] = (
    Metric("anabranch_attempts_repeated_total", "counter", (), "Attempts that did not end their task, in the whole database."),
    Metric("anabranch_breaker_open", "gauge", ("kind", "name"), "1 while the breaker of a queue or handler lets nothing begin, or one task tries."),
    Metric("anabranch_database_bytes", "gauge", (), "Size of the database."),
    Metric("anabranch_database_connections", "gauge", (), "Connections to the database, of all processes."),
    Metric("anabranch_database_connections_limit", "gauge", (), "Connections that the server allows."),
    Metric("anabranch_database_horizon_seconds", "gauge", (), "How long a transaction, standby or replication slot has kept dead rows from being vacuumed; alarm above an hour."),
    Metric("anabranch_database_oldest_transaction_seconds", "gauge", (), "Age of the oldest transaction of our database user, or of any user if ours is a superuser."),
    Metric("anabranch_database_up", "gauge", (), "1 when the database answered in time, else 0, and metrics from the database are left out."),
    Metric("anabranch_disk_free_bytes", "gauge", ("folder",), "Free space where the API runs, of the home and of its scratch."),
    Metric("anabranch_duty_age_seconds", "gauge", ("duty",), "Time since the last round of a background duty."),
    Metric("anabranch_http_request_seconds", "histogram", ("route", "method"), "Time from a request to the beginning of its response, in this process."),
    Metric("anabranch_http_requests_in_flight", "gauge", (), "Requests that this process is answering."),
    Metric("anabranch_http_requests_total", "counter", ("route", "method", "status"), "Requests that this process answered, by the template of their route."),
    Metric("anabranch_job_seconds", "histogram", ("workflow", "status"), "Time from the submission of a job, or its last retry, to its end; its count is that of jobs that ended, and one that is retried and ends again counts again."),
    Metric("anabranch_jobs", "gauge", ("status",), "Jobs that have not ended, by status."),
    Metric("anabranch_jobs_submitted_total", "counter", (), "Jobs submitted to the database since it was created."),
    Metric("anabranch_loop_tick_age_seconds", "gauge", (), "Time since this process's event loop last ticked."),
    Metric("anabranch_node_seconds", "histogram", ("workflow", "node"), "Time from the opening of a node to its end."),
    Metric("anabranch_queue_wait_seconds", "histogram", ("queue",), "Time from the opening of a task's node to the start of its first attempt."),
    Metric("anabranch_queue_workers", "gauge", ("queue",), "Live workers that serve a queue; 0 if it has tasks and no worker."),
    Metric("anabranch_rights_oldest_seconds", "gauge", (), "Age of the oldest step of a job that no process has taken yet."),
    Metric("anabranch_rights_untaken", "gauge", (), "Steps of jobs that no process has taken yet; at most 1,000 are counted."),
    Metric("anabranch_sessions", "gauge", ("kind",), "Live processes, by kind."),
    Metric("anabranch_table_rows", "gauge", ("table", "state"), "Rows of a table, live and dead, as the server estimates them."),
    Metric("anabranch_task_seconds", "histogram", ("handler", "status"), "Time from the start of a handler to the end of its attempt; `repeated` did not end their task."),
    Metric("anabranch_tasks", "gauge", ("queue", "status"), "Tasks by queue: ready to be claimed, running, or due for another attempt."),
    Metric("anabranch_tasks_ended_total", "counter", (), "Tasks ended in the database since it was created."),
    Metric("anabranch_webhook_breakers_open", "gauge", (), "Endpoints of webhooks and callbacks that failed so often that they are only probed now."),
    Metric("anabranch_webhook_deliveries", "gauge", ("status",), "Deliveries of webhooks that wait for a call, and dead letters; at most 100,000 of each are counted."),
    Metric("anabranch_webhook_deliveries_oldest_seconds", "gauge", (), "Time since the oldest delivery that waits was announced or replayed."),
    Metric("anabranch_worker_slots", "gauge", (), "Handlers that the live workers can run at once."),
    Metric("process_cpu_seconds_total", "counter", (), "CPU time of this process."),
    Metric("process_open_fds", "gauge", (), "Open files of this process."),
    Metric("process_resident_memory_bytes", "gauge", (), "Memory of this process."),
    Metric("process_start_time_seconds", "gauge", (), "When this process began, in seconds since 1970."),
)
# fmt: on


def expose(samples: list[Sample]) -> str:
    """The samples as text, each metric with its type and help; a metric without samples is left out."""
    by_metric: dict[str, list[Sample]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric, []).append(sample)
    return "".join(line + "\n" for metric in METRICS for line in _lines(metric, by_metric.get(metric.name, [])))


def draw_histogram(
    metric: str, labels: Mapping[str, str], bounds: Sequence[float], counts: Sequence[int], total: float
) -> Iterator[Sample]:
    """The samples of a histogram, from the counts of its buckets; the last of them has no bound."""
    upto, own = 0, _write(labels)
    before = f"{own}," if own else ""
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        upto += count
        yield Sample(metric, f'{before}le="{bound}"', upto, "_bucket")
    yield Sample(metric, own, total, "_sum")
    yield Sample(metric, own, upto, "_count")


def _lines(metric: Metric, own: list[Sample]) -> Iterator[str]:
    if own:
        yield f"# HELP {metric.name} {metric.meaning}"
        yield f"# TYPE {metric.name} {metric.kind}"
    for sample in own:
        labels = sample.labels if isinstance(sample.labels, str) else _write(sample.labels)
        yield f"{metric.name}{sample.suffix}" + (f"{{{labels}}}" if labels else "") + f" {_number(sample.value)}"


def _write(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) or value.is_integer() else repr(value)
