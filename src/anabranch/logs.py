"""Structured logs: JSON lines, or readable ones on a terminal; always on stderr."""

import logging
import sys

import structlog

__all__ = ["configure_logs"]

# Local variables hold database URLs and parameters: a traceback shows where, never what (S5).
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure_logs(level: str, form: str) -> None:
    """Send every log line of this process to stderr in one form; `auto` asks whether a person is looking."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    readable = form == "console" or (form == "auto" and sys.stderr.isatty())
    renderer: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if readable
        else [_TRACEBACKS, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=shared + renderer,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer]
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
