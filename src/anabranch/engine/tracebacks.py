"""Where a handler's exception came from, as text for the log of its attempt."""

import asyncio
import os
import re
from pathlib import Path
from traceback import TracebackException
from types import TracebackType

__all__ = ["hide_secrets", "tell_traceback"]

FRAMES = 20
LONGEST_LINE = 500
LONGEST = 4_000
ABOVE = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parent, Path(asyncio.__file__).parent))
# Keys of ours, and passwords in URLs, such as drivers put into their messages.
SECRETS = re.compile(r"(anb_[0-9a-f]{12}_)[0-9a-f]{64}|(://[^\s/:@]*:)[^\s/@]+(?=@)")


def tell_traceback(error: BaseException) -> str | None:
    """The last frames of an exception in the handler's own code, and its causes; None where it was not raised there.

    It shows where, never what: no values of variables, and no secrets in messages (S5).
    """
    own = _below_engine(error.__traceback__)
    if own is None:
        return None
    try:
        told = TracebackException(type(error), error, own, limit=-FRAMES)
        return _bound("".join(_cut(part) for part in told.format()))
    except Exception:  # noqa: BLE001  # a handler's own exception may do anything when it is asked for its text
        return None


def hide_secrets(text: str) -> str:
    """The text without the secrets of keys and the passwords of URLs (S5)."""
    return SECRETS.sub(lambda found: f"{found[1] or found[2]}***", text)


def _below_engine(frame: TracebackType | None) -> TracebackType | None:
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(ABOVE):
        frame = frame.tb_next
    return frame


def _cut(part: str) -> str:
    part = hide_secrets(part)
    return part if len(part) <= LONGEST_LINE else f"{part[:LONGEST_LINE]}…\n"


def _bound(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    if len(text) <= LONGEST:
        return text
    return "…\n" + text[-LONGEST:].partition("\n")[2]
