"""The log lines of a process that runs handlers: kept with the attempt, each with the ids of its task (O3)."""

import logging

import structlog

from anabranch.engine.worker.context import ids_of_task

__all__ = ["hold_lines", "keep_lines"]

FORMAT = "%(asctime)s %(levelname)s [%(correlation_id)s] %(message)s"


def hold_lines() -> None:
    """Say nothing while plugins are loaded: the worker loads the same, and has said it in its own form."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)


def keep_lines() -> None:
    """Write what handlers log to stdout and stderr, which are kept."""
    structlog.configure(
        processors=[
            _add_ids,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    logging.disable(logging.NOTSET)
    logging.basicConfig(level=logging.INFO, format=FORMAT, force=True)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_mark)


def _add_ids(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {**ids_of_task(), **event}


def _mark(record: logging.LogRecord) -> bool:
    record.correlation_id = ids_of_task().get("correlation_id", "-")
    return True
