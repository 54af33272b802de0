"""A job's event stream that survives interruptions: the next request to send, and the messages received."""

import json
from time import monotonic
from typing import Any

from anabranch.client.calls import Call
from anabranch.client.operations import FIRST_PAUSE_SECONDS, MAX_OUTAGE_SECONDS, MAX_PAUSE_SECONDS
from anabranch.client.paths import job_path
from anabranch.client.sse import Messages
from anabranch.contract.answer import JsonValue, read
from anabranch.contract.jobs import Event, JobProgress
from anabranch.errors import AnabranchError, Unavailable

__all__ = ["JobStream"]

MAX_SILENCE_SECONDS = 45.0  # three heartbeats


class JobStream:
    """Requests a job's events after the last one received, until the job has ended."""

    def __init__(self, job_id: str, after: int) -> None:
        """Makes no request yet."""
        self.ended = False
        self._path = f"{job_path(job_id)}/stream"
        self._last = after
        self._messages = Messages()
        self._pause = 0.0
        self._broke_at: float | None = None

    def call(self) -> Call[Any]:
        """The request that continues where the last one ended."""
        self._messages = Messages()
        headers = {"Last-Event-ID": str(self._last), "Accept": "text/event-stream"}
        return Call(lambda raw: raw, "GET", self._path, headers=headers, within=MAX_SILENCE_SECONDS, slow=True)

    def read_line(self, line: str) -> Event | JobProgress | None:
        """The message that a line completes, if it is new."""
        self._broke_at, self._pause = None, 0.0
        message = self._messages.read(line)
        if message is None:
            return None
        try:
            return self._take(message.name, json.loads(message.data))
        except (KeyError, TypeError, ValueError) as error:
            raise AnabranchError(
                "api.unreadable",
                "unexpected data in the stream",
                remedy="Check that the server is Anabranch, and of the same version.",
            ) from error

    def pause_seconds(self, error: Unavailable | None = None) -> float:
        """How long to wait before the next request; raises the error if the stream was unavailable for too long."""
        now = monotonic()
        self._broke_at = self._broke_at or now
        if now - self._broke_at > MAX_OUTAGE_SECONDS:
            raise error or Unavailable(
                "api.unreachable", "the stream of the job keeps ending", remedy="See the API's log."
            )
        pause, self._pause = self._pause, min(max(self._pause * 1.5, FIRST_PAUSE_SECONDS), MAX_PAUSE_SECONDS)
        return pause

    def _take(self, name: str, raw: JsonValue) -> Event | JobProgress | None:
        if name == "end":
            self.ended = True
            return None
        if name == "progress":
            return read(JobProgress, raw)
        event = read(Event, raw)
        if event.seq <= self._last:
            return None
        self._last = event.seq
        return event
