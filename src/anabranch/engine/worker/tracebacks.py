"""Formats the traceback of a handler's exception for the log of its attempt."""

import asyncio
import os
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from traceback import TracebackException
from types import TracebackType

from anabranch.errors import AnabranchError
from anabranch.redaction import hide_secrets

__all__ = ["format_traceback"]

MAX_FRAMES = 20
MAX_PARTS = 200
MAX_LINE_CHARS = 500
MAX_TRACEBACK_CHARS = 4_000
OUR_FOLDER = Path(__file__).parents[2]
ENGINE_FOLDERS = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(asyncio.__file__).parent))


def format_traceback(error: BaseException) -> str | None:
    """The last frames of an exception in the handler's own code, and its causes; None where it was not raised there.

    It shows where, never what: no values of variables, and no secrets of known shapes (S5).
    """
    own = _below_engine(error.__traceback__)
    if own is None:
        return None
    if isinstance(error, AnabranchError) and error.category == "permanent" and _is_ours(own):
        return _bound(_format_refusal(error))
    try:
        found = TracebackException(type(error), error, own, limit=-MAX_FRAMES)
        return _bound("".join(_cut(part) for part in deque(found.format(), maxlen=MAX_PARTS)))
    except Exception:  # noqa: BLE001  # a handler's own exception may do anything when it is asked for its text
        return None


def _format_refusal(error: AnabranchError) -> str:
    """A line as `logging` would write it, with what to do below it."""
    said = _cut(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} ERROR [{error.code}] {error.message}")
    return f"{said}\n  {_cut(error.remedy)}" if error.remedy else said


def _is_ours(frame: TracebackType) -> bool:
    """Whether a handler is one of ours: what it refuses, it explains, and its code is of no use to a caller."""
    return frame.tb_frame.f_code.co_filename.startswith(f"{OUR_FOLDER}{os.sep}")


def _below_engine(frame: TracebackType | None) -> TracebackType | None:
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(ENGINE_FOLDERS):
        frame = frame.tb_next
    return frame


def _cut(part: str) -> str:
    """A part of bounded length; cut before secrets are looked for, which takes time, and behind them again."""
    part = hide_secrets(part[: 2 * MAX_TRACEBACK_CHARS])
    return part if len(part) <= MAX_LINE_CHARS else f"{part[:MAX_LINE_CHARS]}…\n"


def _bound(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    if len(text) <= MAX_TRACEBACK_CHARS:
        return text
    return "…\n" + text[-MAX_TRACEBACK_CHARS:].partition("\n")[2]
