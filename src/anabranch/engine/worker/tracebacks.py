"""Where a handler's exception came from, as text for the log of its attempt."""

import asyncio
import os
from collections import deque
from pathlib import Path
from traceback import TracebackException
from types import TracebackType

from anabranch.redaction import hide_secrets

__all__ = ["tell_traceback"]

FRAMES = 20
PARTS = 200
LONGEST_LINE = 500
LONGEST = 4_000
ABOVE = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(asyncio.__file__).parent))


def tell_traceback(error: BaseException) -> str | None:
    """The last frames of an exception in the handler's own code, and its causes; None where it was not raised there.

    It shows where, never what: no values of variables, and no secrets of known shapes (S5).
    """
    own = _below_engine(error.__traceback__)
    if own is None:
        return None
    try:
        found = TracebackException(type(error), error, own, limit=-FRAMES)
        return _bound("".join(_cut(part) for part in deque(found.format(), maxlen=PARTS)))
    except Exception:  # noqa: BLE001  # a handler's own exception may do anything when it is asked for its text
        return None


def _below_engine(frame: TracebackType | None) -> TracebackType | None:
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(ABOVE):
        frame = frame.tb_next
    return frame


def _cut(part: str) -> str:
    """A part of bounded length; cut before secrets are looked for, which takes time, and behind them again."""
    part = hide_secrets(part[: 2 * LONGEST])
    return part if len(part) <= LONGEST_LINE else f"{part[:LONGEST_LINE]}…\n"


def _bound(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    if len(text) <= LONGEST:
        return text
    return "…\n" + text[-LONGEST:].partition("\n")[2]
