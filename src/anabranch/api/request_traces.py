"""Shows requests that may change something to the tracing system, and lets what they submit go on with their trace."""

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.access import ANONYMOUS
from anabranch.api.health.request_metrics import METHODS, find_route
from anabranch.engine.ports import Tracer
from anabranch.engine.submitting.submission import CURRENT_TRACE

__all__ = ["RequestTraces", "read_traceparent"]

READING = frozenset({"GET", "HEAD", "OPTIONS"})
SERVER_ERROR = 500
TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class RequestTraces:
    """A span for each request but those that only read, under the caller's `traceparent`.

    Callers who are not known make none: they would choose what is sampled, and the ids of others' traces.
    """

    def __init__(self, app: ASGIApp, *, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] in READING or not _is_known(scope):
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in METHODS else "other"
        parent = read_traceparent(Headers(scope=scope).get("traceparent"))
        with self._tracer.span(method, "server", parent, lambda: {"http.request.method": method}) as span:

            async def send_noted(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] >= SERVER_ERROR:
                    span.fail(str(message["status"]))
                await send(message)

            before = CURRENT_TRACE.set(span.traceparent)
            try:
                await self._app(scope, receive, send_noted)
            finally:
                CURRENT_TRACE.reset(before)
                span.rename(f"{method} {find_route(scope)}")


def _is_known(scope: Scope) -> bool:
    return scope["state"]["principal"] not in (None, ANONYMOUS)


def read_traceparent(text: str | None) -> str | None:
    """The header of a caller, if it is one that can be continued; else there was none."""
    return text if text is not None and TRACEPARENT.fullmatch(text) else None
