"""An OTLP collector in this process: what was exported to it, over HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

__all__ = ["Collector", "SeenSpan", "open_collector"]


@dataclass(frozen=True)
class SeenSpan:
    """A span as it was exported, ids in hex."""

    role: str
    name: str
    kind: int
    trace: str
    id: str
    parent: str
    attributes: dict[str, str]
    failed: bool


@dataclass
class Collector:
    """What came so far."""

    url: str = ""
    spans: list[SeenSpan] = field(default_factory=list)
    counts: dict[tuple[str, str, str], int] = field(default_factory=dict)
    labels: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            self._take_spans(ExportTraceServiceRequest.FromString(body))
        else:
            self._take_metrics(ExportMetricsServiceRequest.FromString(body))

    def _take_spans(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            known = {one.key: one.value.string_value for one in resource.resource.attributes}
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                attributes = {a.key: a.value.string_value or str(a.value.int_value) for a in span.attributes}
                ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
                failed = span.status.code == 2
                role = known["anabranch.role"]
                self.spans.append(SeenSpan(role, span.name, span.kind, *ids, attributes, failed))

    def _take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        for resource in request.resource_metrics:
            known = {one.key: one.value.string_value for one in resource.resource.attributes}
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                points = [(point, point.count) for point in metric.histogram.data_points]
                for point, count in points or [(point, point.as_int) for point in metric.sum.data_points]:
                    labels = {a.key: a.value.string_value for a in point.attributes}
                    self.labels.append(labels)
                    self.counts[known["anabranch.role"], metric.name, labels["span.name"]] = count


@contextmanager
def open_collector(status: int = 200) -> Iterator[Collector]:
    """A collector on loopback; it answers with a status."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.headers.append({name.lower(): value for name, value in self.headers.items()})
            if status == 200:
                collector.take(self.path, body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """It is quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield collector
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
