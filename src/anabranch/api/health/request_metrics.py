"""Metrics of this process: its requests, memory and CPU time."""

import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.api.health.prometheus import Sample, draw_histogram

__all__ = ["METHODS", "RequestCounts", "RequestMetrics", "find_route", "measure_process"]

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
STARTED_AT = time.time()


class RequestCounts:
    """Counts requests; labels come from a closed set, so no caller can create more of them."""

    def __init__(self) -> None:
        self.in_flight = 0
        self._answered: Counter[tuple[str, str, int]] = Counter()
        self._slower: dict[tuple[str, str], list[int]] = {}
        self._seconds: Counter[tuple[str, str]] = Counter()

    def note(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one response."""
        self._answered[route, method, status] += 1
        counts = self._slower.setdefault((route, method), [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[route, method] += seconds  # type: ignore[assignment]  # a Counter may sum what isn't whole

    def samples(self) -> Iterator[Sample]:
        """The counts as samples."""
        yield Sample("anabranch_http_requests_in_flight", {}, self.in_flight)
        for (route, method, status), count in sorted(self._answered.items()):
            labels = {"route": route, "method": method, "status": str(status)}
            yield Sample("anabranch_http_requests_total", labels, count)
        for (route, method), counts in sorted(self._slower.items()):
            labels, seconds = {"route": route, "method": method}, self._seconds[route, method]
            yield from draw_histogram("anabranch_http_request_seconds", labels, BUCKETS, counts, seconds)


class RequestMetrics:
    """Counts every request, and measures the time until its response begins."""

    def __init__(self, app: ASGIApp, *, requests: RequestCounts) -> None:
        """The outermost middleware, so that refused requests count, too."""
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in METHODS else "other"
                self._requests.note(find_route(scope), method, message["status"], time.perf_counter() - began)
            await send(message)

        self._requests.in_flight += 1
        try:
            await self._app(scope, receive, send_counted)
        finally:
            self._requests.in_flight -= 1


def measure_process() -> Iterator[Sample]:
    """Memory, time and files of this process."""
    yield Sample("process_cpu_seconds_total", {}, time.process_time())
    yield Sample("process_start_time_seconds", {}, round(STARTED_AT, 3))
    with suppress(OSError, ValueError):  # where there is no /proc
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        yield Sample("process_resident_memory_bytes", {}, pages * os.sysconf("SC_PAGE_SIZE"))
        yield Sample("process_open_fds", {}, sum(1 for _ in Path("/proc/self/fd").iterdir()))


def find_route(scope: Scope) -> str:
    """The template of the route, never the path; `none` if no route matched."""
    return str(getattr(scope.get("route"), "path", "none"))
