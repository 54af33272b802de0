"""Structured logs: JSON lines, or readable ones on a terminal; always on stderr."""

import logging
import os
import sys
from contextlib import suppress

import structlog

from anabranch.access import redact
from anabranch.engine.worker.context import ids_of_task

__all__ = ["configure_logs"]

STDERR = 2
# Local variables hold database URLs and parameters: a traceback shows where, never what (S5).
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


class Lossy:
    """A descriptor to write lines to. One that can't be written is lost: a full disk of logs must stop no work."""

    def __init__(self, descriptor: int) -> None:
        """Nothing is buffered, so nothing piles up."""
        self._descriptor = descriptor

    def write(self, text: str) -> None:
        """Write a line, or lose it; a key in it loses its secret (S5)."""
        with suppress(OSError):
            os.write(self._descriptor, redact(text).encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        """Nothing waits."""


def _add_ids_of_task(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """What a handler that runs in this process logs, by whatever logger, carries the ids of its task (O3)."""
    return {**ids_of_task(), **event}


def configure_logs(level: str, form: str) -> None:
    """Send every log line of this process to stderr in one form; `auto` asks whether a person is looking."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_ids_of_task,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    readable = form == "console" or (form == "auto" and sys.stderr.isatty())
    renderer: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if readable
        else [_TRACEBACKS, structlog.processors.JSONRenderer()]
    )
    lines = Lossy(STDERR)
    structlog.configure(
        processors=shared + renderer,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(lines),  # type: ignore[arg-type]  # it only writes and flushes
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(lines)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer]
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
