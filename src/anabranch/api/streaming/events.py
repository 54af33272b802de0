"""The events of a job as server-sent events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import structlog
from fastapi import Response
from starlette.types import Receive, Scope, Send

from anabranch.api.answers.build import build_event, to_json
from anabranch.api.openapi.declare import Responses
from anabranch.api.streaming.job_watcher import JobWatcher, WatchedJob
from anabranch.contract.jobs import JobProgress
from anabranch.engine.read_models import JobHead
from anabranch.errors import AnabranchError

__all__ = ["STREAM_RESPONSES", "EventStream"]

log = structlog.get_logger()
MEDIA_TYPE = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
PROGRESS_SECONDS = 1.0
SEND_TIMEOUT_SECONDS = 60.0
MAX_STREAM_SECONDS = 300.0  # then the client connects again, with a key that must still be valid (S1)
RETRY_FIELD = b"retry: 1000\n\n"
HEARTBEAT = b": still here\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
# One message: OpenAPI 3.1 has no word for what comes bit by bit, 3.2 has `itemSchema`.
MESSAGE_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The `seq` of an event."},
        "event": {"type": "string", "description": "The kind of an event, `progress` or `end`."},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
STREAM_RESPONSES: Responses = {
    200: {
        "description": (
            "The events, each with its `seq` as `id`, its kind as `event`, and in `data` what the list of events has; "
            "`progress`, without an id, with the counts of tasks; a comment after 15 seconds of silence; and `end`, "
            "with the job's status, when it has ended and every event was sent."
        ),
        "content": {MEDIA_TYPE: {"itemSchema": MESSAGE_SCHEMA}},
    }
}


class EventStream(Response):
    """Streams the events of a job until it ends, the caller disconnects or the process stops.

    It reads more only when the caller has received what it read before, and disconnects a caller that does not read.
    """

    def __init__(self, job_watcher: JobWatcher, head: JobHead, after: int) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers({**HEADERS, "Content-Type": MEDIA_TYPE})
        self._job_watcher = job_watcher
        self._head = head
        self._last = after
        self._until = time.monotonic() + MAX_STREAM_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        with self._job_watcher.watch(self._head) as watch:
            sending = asyncio.create_task(self._send(watch, send))
            leaving = asyncio.create_task(_leave(receive))
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
                leaving.cancel()
                ended = await asyncio.gather(sending, leaving, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                log.info("stream.broken", job=self._head.job, reason=str(error) or type(error).__name__)

    async def _send(self, watch: WatchedJob, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for message in self._messages(watch):
            async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                await send({"type": "http.response.body", "body": message, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _messages(self, watch: WatchedJob) -> AsyncIterator[bytes]:
        sent, sent_at, spoke_at = None, 0.0, time.monotonic()
        yield RETRY_FIELD
        while not watch.over and time.monotonic() < self._until:
            # Nothing is awaited between what is seen here and the wait below, so no change is missed.
            now = time.monotonic()
            if watch.head.last_event > self._last:
                async for message in self._events(watch):
                    yield message
                spoke_at = time.monotonic()
            elif watch.ended:
                yield _message("end", {"status": watch.head.state})
                return
            elif watch.tasks and watch.tasks != sent and now >= sent_at + PROGRESS_SECONDS:
                sent, sent_at, spoke_at = watch.tasks, now, now
                yield _message("progress", to_json(JobProgress(watch.head.state, sent)))
            elif now >= spoke_at + HEARTBEAT_SECONDS:
                spoke_at = now
                yield HEARTBEAT
            else:
                is_due = watch.tasks and watch.tasks != sent
                await watch.change((sent_at + PROGRESS_SECONDS if is_due else spoke_at + HEARTBEAT_SECONDS) - now)

    async def _events(self, watch: WatchedJob) -> AsyncIterator[bytes]:
        try:
            events = await self._job_watcher.events(watch.head.job, self._last)
        except AnabranchError as error:
            log.warning("stream.waiting", job=watch.head.job, reason=error.message)
            await watch.change(1.0)
            return
        for event in events:
            yield f"id: {event.seq}\n".encode() + _message(event.kind, to_json(build_event(event)))
            self._last = event.seq
        if not events:  # removed meanwhile: the next look says so
            await watch.change(1.0)


async def _leave(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _message(name: str, data: dict[str, object]) -> bytes:
    # In ASCII: some readers take other characters than those of the standard for the end of a line.
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
