"""New events and logs of a job, as they arrive."""

from collections.abc import Iterator
from time import monotonic, sleep
from typing import TypedDict

from anabranch.cli.exit_codes import UsageError
from anabranch.client import Client, Event, JobProgress, Log, Node

__all__ = ["LogFilter", "new_events", "new_logs"]

# Reading takes at most this share of the time, however many logs there are; pauses have an upper limit.
MAX_READING_SHARE = 0.2
MAX_PAUSE_SECONDS = 30.0


class LogFilter(TypedDict):
    """Which logs to show."""

    node: str | None
    index: str | None
    attempt: int | None


def new_events(client: Client, job_id: str, after: str | None) -> Iterator[Event]:
    """The events of a job as they happen, until it has ended."""
    if after and not after.isdecimal():
        raise UsageError("usage", f"{after!r} is not an event number", remedy="Give the `seq` of an event.")
    return (update for update in client.stream(job_id, after=int(after or 0)) if isinstance(update, Event))


def new_logs(client: Client, job_id: str, wanted: LogFilter) -> Iterator[Log]:
    """The logs of a job as they appear, until it has ended.

    A log appears when its attempt ends, and is listed in the order of its task: a late one comes among those already
    shown. So the logs of a node are read again when its task counts have changed, and all of them at the end.
    """
    shown: set[tuple[str, int]] = set()
    for nodes in _changed_nodes(client, job_id):
        began = monotonic()
        for node in nodes:
            if wanted["node"] in (None, node.name):
                for log in client.all_logs(job_id, node=node.name, index=wanted["index"], attempt=wanted["attempt"]):
                    if (log.task_id, log.attempt) not in shown:
                        shown.add((log.task_id, log.attempt))
                        yield log
        sleep(min((monotonic() - began) / MAX_READING_SHARE, MAX_PAUSE_SECONDS))


def _changed_nodes(client: Client, job_id: str) -> Iterator[list[Node]]:
    """The nodes whose task counts have changed, after each change; at the end, all nodes."""
    counted: dict[str, object] = {}
    for update in client.stream(job_id):
        if isinstance(update, JobProgress):
            nodes = client.job(job_id).nodes
            yield [node for node in nodes if node.opened_at and counted.get(node.name) != node.tasks]
            counted = {node.name: node.tasks for node in nodes}
    yield list(client.job(job_id).nodes)
