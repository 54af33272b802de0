"""HTTP/1.1 connections with limits: their number, and how long a caller may take to send or to read."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import h11
import structlog
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from anabranch.api.answers.errors import respond
from anabranch.errors import AnabranchError
from anabranch.settings import Settings

__all__ = ["BoundedProtocol", "Bounds"]

log = structlog.get_logger()

# What has come or was answered just now may have a request on its way.
SETTLED_SECONDS = 1.0


@dataclass(frozen=True)
class Bounds:
    """The limits of the connections of one process."""

    connections: int
    header_seconds: float
    body_seconds: float
    body_bytes_per_second: int

    @classmethod
    def of(cls, settings: Settings) -> "Bounds":
        """The configured limits."""
        return cls(
            settings.max_connections, settings.header_seconds, settings.body_seconds, settings.body_bytes_per_second
        )


class TimedFlow(FlowControl):
    """Measures how long reading was paused by us; callers are not charged for that time."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._paused_at = 0.0
        self._paused = 0.0

    def pause_reading(self) -> None:
        """Stop reading."""
        if not self.read_paused:
            self._paused_at = time.monotonic()
        super().pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._paused = self.paused_seconds
        super().resume_reading()

    @property
    def paused_seconds(self) -> float:
        """How long reading was paused, in total."""
        return self._paused + (time.monotonic() - self._paused_at if self.read_paused else 0.0)


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol with timeouts for headers and bodies, and a maximum number of connections.

    The bounds are in the state that the application's lifespan yields, under `bounds`.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._bounds: Bounds = self.app_state["bounds"]
        self._waiting_since = time.monotonic()
        self._head_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._has_sent = False
        self._body_began = 0.0
        self._body_heard = 0.0
        self._body_paused = 0.0
        self._body_bytes = 0

    @property
    def is_idle(self) -> bool:
        """Whether no request has arrived for a while."""
        settled = time.monotonic() - self._waiting_since > SETTLED_SECONDS
        return settled and not self._is_answering and not self.transport.is_closing()

    @property
    def _is_answering(self) -> bool:
        # uvicorn has no cycle before the first request, whatever its types say.
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        """Accept a connection; if there are too many, close the one that was idle longest."""
        super().connection_made(transport)
        self.flow = TimedFlow(transport)
        self._head_timer = self.loop.call_later(self._bounds.header_seconds, self._end_head)
        if len(self.connections) > self._bounds.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        for timer in (self._head_timer, self._body_timer, self._send_timer):
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass data on, and restart the timers."""
        self._has_sent = True
        super().data_received(data)
        self._follow_head()
        self._follow_body(len(data))

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        if not (self._is_answering and self.cycle.response_started):
            self._tell(AnabranchError("request.malformed", "the request is not HTTP"))
        self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._waiting_since, self._has_sent = time.monotonic(), False
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for a slow reader, up to the limit."""
        super().pause_writing()
        self._send_timer = self._send_timer or self.loop.call_later(self._bounds.body_seconds, self._end_sending)

    def resume_writing(self) -> None:
        """Write again."""
        super().resume_writing()
        if self._send_timer:
            self._send_timer.cancel()
            self._send_timer = None

    def _follow_head(self) -> None:
        is_partial = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
        if is_partial and self._head_timer is None:
            self._head_timer = self.loop.call_later(self._bounds.header_seconds, self._end_head)
        elif not is_partial and self._head_timer:
            self._head_timer.cancel()
            self._head_timer = None

    def _follow_body(self, received: int) -> None:
        is_partial = self.conn.their_state is h11.SEND_BODY
        if is_partial and self._body_timer is None:
            self._body_began, self._body_bytes = time.monotonic(), 0
            self._body_paused = self._flow.paused_seconds
            self._body_heard = self._body_began - self._body_paused
            self._body_timer = self.loop.call_later(self._bounds.body_seconds, self._check_body)
        elif not is_partial and self._body_timer:
            self._body_timer.cancel()
            self._body_timer = None
        self._body_bytes += received
        if received:
            self._body_heard = time.monotonic() - self._flow.paused_seconds

    def _check_body(self) -> None:
        """Close a connection whose body is too slow; time in which we paused reading does not count."""
        now, bounds = time.monotonic() - self._flow.paused_seconds, self._bounds
        taken = now - self._body_began + self._body_paused
        earned = bounds.body_seconds + self._body_bytes / bounds.body_bytes_per_second - taken
        left = min(earned, self._body_heard + bounds.body_seconds - now)
        if self.flow.read_paused or left > 0:
            wait = max(left, 0.05) if not self.flow.read_paused else self._bounds.body_seconds
            self._body_timer = self.loop.call_later(wait, self._check_body)
            return
        self._end("the body of the request did not come in time", "body")

    def _end_head(self) -> None:
        self._end("the head of the request did not come in time", "head")

    def _end_sending(self) -> None:
        log.info("connection.client_not_reading", client=self.client)
        self.transport.abort()

    def _end(self, why: str, what: str) -> None:
        if self.transport.is_closing():
            return
        log.info("connection.timed_out", waited_for=what, client=self.client)
        is_answering = self._is_answering
        if self._has_sent and not (is_answering and self.cycle.response_started):
            self._tell(AnabranchError("request.timeout", why))
        if is_answering:  # the reader of the body learns that no more will come
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _make_room(self) -> None:
        others = (one for one in self.connections if one is not self and isinstance(one, BoundedProtocol))
        idle = min((one for one in others if one.is_idle), key=lambda one: one._waiting_since, default=None)
        if idle:
            log.info("connection.dropped", client=idle.client)
            idle.transport.close()
            return
        log.warning("connection.refused", most=self._bounds.connections, client=self.client)
        self._tell(AnabranchError("api.connections", f"all {self._bounds.connections} connections are in use"))
        self.transport.close()

    def _tell(self, error: AnabranchError) -> None:
        answer = respond(error, path="/", correlation_id=uuid4().hex)
        answer.headers["Connection"] = "close"
        lines = b"".join(b"%s: %s\r\n" % header for header in answer.raw_headers)
        self.transport.write(b"HTTP/1.1 %d \r\n%s\r\n%s" % (answer.status_code, lines, answer.body))

    @property
    def _flow(self) -> TimedFlow:
        assert isinstance(self.flow, TimedFlow)  # noqa: S101  # for the types
        return self.flow
