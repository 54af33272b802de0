"""The output of a job's tasks while they run."""

from collections.abc import Iterator
from dataclasses import replace
from time import monotonic, sleep
from typing import TypedDict

from anabranch.client import Client, JobStatus, Log
from anabranch.client.operations import MAX_OUTAGE_SECONDS
from anabranch.errors import Unavailable

__all__ = ["LogFilter", "new_logs"]

POLL_SECONDS = 0.3
# Reading the logs of ended attempts takes at most this share of the time, however many there are.
MAX_READING_SHARE = 0.2
LEFT_OUT = "… some lines were left out …\n"
OVERLAP_CHARACTERS = 400


class LogFilter(TypedDict):
    """Which logs to show."""

    node: str | None
    index: str | None
    attempt: int | None
    status: str | None


class _Shown:
    """The output that was shown of each attempt."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], str] = {}
        self._lengths: dict[tuple[str, int], int] = {}
        self._done: set[tuple[str, int]] = set()

    def take_new(self, log: Log, *, running: bool) -> Log | None:
        """The log with its new lines; None if there is nothing new. Of a long log, lines may be missing."""
        key, text = (log.task_id, log.attempt), log.log or ""
        if key in self._done:
            return None
        if not running:
            self._done.add(key)
        new = self._cut(key, text)
        self._lengths[key], self._ends[key] = len(text), text[-OVERLAP_CHARACTERS:]
        if not new and (running or not log.metrics):
            return None
        return replace(log, log=new or None)

    def _cut(self, key: tuple[str, int], text: str) -> str:
        end, length = self._ends.get(key, ""), self._lengths.get(key, 0)
        if text[:length].endswith(end):
            return text[length:]
        place = text.rfind(end)
        return text[place + len(end) :] if place >= 0 else LEFT_OUT + text[len(text) // 2 :]


def new_logs(client: Client, job_id: str, wanted: LogFilter) -> Iterator[Log]:
    """The output of a job's tasks as they print it, until the job has ended: a log with the new lines each time."""
    shown, counted, pause_until = _Shown(), dict[str, object](), 0.0
    running = LogFilter(**{**wanted, "status": "running"})
    while True:
        job = _read_job(client, job_id)
        if wanted["status"] != "failed":
            for log in client.all_logs(job_id, **running):
                if new := shown.take_new(log, running=True):
                    yield new
        if job.ended or monotonic() >= pause_until:
            began = monotonic()
            for node in job.nodes:
                if job.ended or (node.opened_at and counted.get(node.name) != node.tasks):
                    yield from _ended_logs(client, job, node.name, wanted, shown)
            counted = {node.name: node.tasks for node in job.nodes}
            pause_until = monotonic() + (monotonic() - began) / MAX_READING_SHARE
        if job.ended:
            return
        sleep(POLL_SECONDS)


def _ended_logs(client: Client, job: JobStatus, node: str, wanted: LogFilter, shown: _Shown) -> Iterator[Log]:
    """What is new of a node's attempts that have ended."""
    if wanted["node"] not in (None, node):
        return
    chosen = LogFilter(**{**wanted, "node": node})
    running: set[tuple[str, int]] = set()
    if not job.ended:
        found = client.all_logs(job.job_id, **LogFilter(**{**chosen, "status": "running"}))
        running = {(log.task_id, log.attempt) for log in found}
    for log in client.all_logs(job.job_id, **chosen):
        if (log.task_id, log.attempt) not in running and (new := shown.take_new(log, running=False)):
            yield new


def _read_job(client: Client, job_id: str) -> JobStatus:
    """The job; an API that restarts is waited for."""
    end = monotonic() + MAX_OUTAGE_SECONDS
    while True:
        try:
            return client.job(job_id)
        except Unavailable:
            if monotonic() > end:
                raise
        sleep(POLL_SECONDS)
