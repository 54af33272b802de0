"""Traces and durations over OTLP, by the SDK of OpenTelemetry; standard variables configure all of it."""

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from threading import Lock, Thread

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from anabranch.engine import ports

__all__ = ["OtelTracer"]

NAME = "anabranch"
CLOSE_SECONDS = 5.0
# From short tasks to jobs' longest.
BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
# Of a flood of short tasks these are shown and measured, and the rest is only counted.
MAX_SPANS_PER_SECOND = 100
TRACE_CONTEXT = TraceContextTextMapPropagator()
SCOPE = InstrumentationScope(NAME)
SAMPLED = TraceFlags(TraceFlags.SAMPLED)
OK, FAILED = Status(StatusCode.UNSET), Status(StatusCode.ERROR)
KINDS = {"consumer": SpanKind.CONSUMER, "client": SpanKind.CLIENT}


class OtelTracer:
    """Exports spans and how long they took, in the background."""

    def __init__(self, role: str, *, spans: bool = True, metrics: bool = True) -> None:
        """For a process in this role; nothing is exported of what is left out."""
        resource = Resource.create({"service.version": version(NAME), "anabranch.role": role})
        if "unknown_service" in str(resource.attributes["service.name"]):
            resource = resource.merge(Resource({"service.name": NAME}))
        self._resource = resource
        self._spans = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._exporting = BatchSpanProcessor(OTLPSpanExporter()) if spans else None
        if self._exporting:
            self._spans.add_span_processor(self._exporting)
        self._tracer = self._spans.get_tracer(NAME)
        readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if metrics else []
        self._metrics = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        meter = self._metrics.get_meter(NAME)
        self._durations = meter.create_histogram(
            "anabranch.span.duration",
            unit="s",
            description="How long requests, attempts of tasks and webhooks took, of at most 100 a second.",
            explicit_bucket_boundaries_advisory=BOUNDS_SECONDS,
        )
        meter.create_observable_counter(
            "anabranch.span.count", [self._count], description="Requests, attempts of tasks and webhooks that ended."
        )
        self._ended: Counter[tuple[str, str]] = Counter()
        self._counting = Lock()
        self._second, self._made = 0, 0

    @contextmanager
    def span(
        self, name: str, kind: ports.SpanKind, parent: str | None, attributes: ports.SpanAttributes
    ) -> Iterator[ports.Span]:
        """A span. Only a request begins a trace; what has no parent, or comes too often, is only counted."""
        is_shown = kind == "server" or self._has_room()
        made = self._start(name, kind, parent, attributes) if is_shown else _Unseen(name, parent)
        began = time.perf_counter()
        try:
            yield made
        except Exception as error:  # one that is cancelled did not fail
            made.fail(type(error).__name__)
            raise
        finally:
            made.end()
            with self._counting:
                self._ended[made.name, made.failed] += 1
            if is_shown:  # one costs several times as much as to count
                self._durations.record(time.perf_counter() - began, _label(made.name, made.failed))

    def close(self) -> None:
        """Send what is left; a collector that does not answer is left after some seconds."""
        closing = Thread(target=self._close, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)

    def _start(
        self, name: str, kind: ports.SpanKind, parent: str | None, attributes: ports.SpanAttributes
    ) -> "_Unseen":
        if self._exporting is None:
            return _Unseen(name, parent)
        if kind == "server":
            context = TRACE_CONTEXT.extract({"traceparent": parent}) if parent else None
            return _Request(name, self._tracer.start_span(name, context, SpanKind.SERVER, dict(attributes())))
        if parent is None or not int(parent[-1], 16) & TraceFlags.SAMPLED:
            return _Unseen(name, parent)
        return _Step(name, KINDS[kind], parent, attributes(), self._resource, self._exporting)

    def _count(self, _: CallbackOptions) -> Iterator[Observation]:
        with self._counting:
            ended = dict(self._ended)
        yield from (Observation(count, _label(*labels)) for labels, count in ended.items())

    def _has_room(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._made = second, 0
        self._made += 1
        return self._made <= MAX_SPANS_PER_SECOND

    def _close(self) -> None:
        self._spans.shutdown()
        self._metrics.shutdown()


class _Unseen:
    """What is only counted; the trace of its parent goes on."""

    def __init__(self, name: str, traceparent: str | None) -> None:
        self.name = name
        self.traceparent = traceparent
        self.failed = ""

    def rename(self, name: str) -> None:
        self.name = name

    def note(self, name: str, value: str) -> None:
        """Nobody sees it."""

    def fail(self, code: str) -> None:
        self.failed = code

    def end(self) -> None:
        """Nobody sees it."""


class _Request(_Unseen):
    """A span of the SDK, whose sampler decides whether there is a trace."""

    def __init__(self, name: str, span: Span) -> None:
        made = span.get_span_context()
        super().__init__(name, _write(made.trace_id, made.span_id, made.trace_flags))
        self._span = span

    def note(self, name: str, value: str) -> None:
        self._span.set_attribute(name, value)

    def end(self) -> None:
        self._span.update_name(self.name)
        if self.failed:
            self._span.set_attribute("error.type", self.failed)
            self._span.set_status(FAILED)
        self._span.end()


class _Step(_Unseen):
    """A span in a trace that was decided on: made when it ends, which costs a fraction of the SDK's own."""

    def __init__(
        self,
        name: str,
        kind: SpanKind,
        parent: str,
        attributes: Mapping[str, str | int],
        resource: Resource,
        exporting: BatchSpanProcessor,
    ) -> None:
        self._trace, self._parent, self._id = int(parent[3:35], 16), int(parent[36:52], 16), _draw_id()
        super().__init__(name, _write(self._trace, self._id, SAMPLED))
        self._kind, self._attributes, self._resource, self._exporting = kind, attributes, resource, exporting
        self._began = time.time_ns()

    def note(self, name: str, value: str) -> None:
        self._attributes = {**self._attributes, name: value}

    def end(self) -> None:
        self._exporting.on_end(
            ReadableSpan(
                self.name,
                SpanContext(self._trace, self._id, is_remote=False, trace_flags=SAMPLED),
                SpanContext(self._trace, self._parent, is_remote=True, trace_flags=SAMPLED),
                self._resource,
                {**self._attributes, "error.type": self.failed} if self.failed else self._attributes,
                kind=self._kind,
                status=FAILED if self.failed else OK,
                start_time=self._began,
                end_time=time.time_ns(),
                instrumentation_scope=SCOPE,
            )
        )


def _label(name: str, failed: str) -> dict[str, str]:
    return {"span.name": name, "error.type": failed} if failed else {"span.name": name}


def _draw_id() -> int:
    return random.getrandbits(64) or 1  # never zero


def _write(trace: int, span: int, flags: int) -> str:
    return f"00-{trace:032x}-{span:016x}-{flags:02x}"
