"""Why attempts, nodes and jobs fail: from an exception to the failure that is stored, and to the next attempt."""

import errno
import math
import random
import re
import traceback
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from types import CodeType
from typing import Any

from anabranch.canonical import Json, encode
from anabranch.engine.entry_points import FOLDER_PREFIX
from anabranch.errors import AnabranchError, ContractViolationError, TaskError, Throttled
from anabranch.redaction import hide_secrets
from anabranch.workflows.work import Backoff, Retry

__all__ = ["CRASH_LIMIT", "Failure", "describe_error", "next_delay", "spell_place"]

CRASH_LIMIT = 3
_DEFAULT_ATTEMPTS = {"transient": 3, "throttled": 5, "resource": 2}
_NEVER_RETRIED = ("permanent", "bug")
_MAX_MESSAGE_CHARS = 4_000
_MAX_NAME_CHARS = 200
_MAX_DELAY = timedelta(days=30)
_EXHAUSTED_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
_TOO_MANY_REQUESTS = 429
_THROTTLED = re.compile(
    r"rate limit|too many requests|\b(?:http(?:/[0-9.]{1,3})?|status)[ _-]?(?:error|status|code)?['\"]?\W{0,3}429\b"
    r"|\b429 client error",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why an attempt, a node or a job failed. `cause` is why the job failed that ran for a task, `job_id` names it.

    The fields are in the order of the keys in jsonb, so that a failure that was read is shown as it is stored.
    """

    code: str
    node: str | None = None
    type: str | None = None
    cause: "Failure | None" = None
    where: str | None = None
    job_id: str | None = None
    remedy: str | None = None
    message: str
    category: str | None = None
    retry_after_seconds: float | None = None

    @classmethod
    def read(cls, stored: Any) -> "Failure | None":  # JSON of a row, perhaps of another release
        """The failure that a row has, if it has one."""
        if stored is None:
            return None
        known = {one.name: stored[one.name] for one in fields(cls) if one.name in stored}
        return cls(**{"code": "unknown", "message": "", **known, "cause": cls.read(known.get("cause"))})

    def to_json(self) -> dict[str, Json]:
        """The failure as it is stored and shown."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return {**known, "cause": self.cause.to_json()} if self.cause else known

    def to_text(self) -> str:
        """The same as JSON text."""
        return encode(self.to_json())


def describe_error(error: BaseException) -> Failure:
    """The failure to store for an exception."""
    message = _message(error)
    category = _category(error, message)
    retry_after = error.retry_after if isinstance(error, Throttled) else None
    return Failure(
        code=_storable(_code(error, category), _MAX_NAME_CHARS),
        type=_storable(type(error).__name__, _MAX_NAME_CHARS),
        where=_find_place(error),
        remedy=_storable(error.remedy) if isinstance(error, AnabranchError) and error.remedy else None,
        message=_storable(message),
        category=category,
        retry_after_seconds=None if retry_after is None else _in_seconds(retry_after),
    )


def spell_place(code: CodeType, line: int, module: str) -> str:
    """A line of code, with its file below the folder that its package is in: readers need no path of a server."""
    package = code.co_filename.endswith("__init__.py")
    names = module.count(".") + 1 + package - module.startswith(FOLDER_PREFIX)  # a folder is a package without a name
    return f"{Path(*Path(code.co_filename).parts[-names:])}:{line} in {code.co_name}"


def next_delay(retry: Retry, failures: int, failure: Failure) -> timedelta | None:
    """How long to wait before the next attempt, with jitter; None when this failure was the last (E9)."""
    allowed = _DEFAULT_ATTEMPTS.get(failure.category or "", 1) if retry.max_attempts is None else retry.max_attempts
    if failure.category in _NEVER_RETRIED or failures + 1 >= allowed:
        return None
    if failure.retry_after_seconds is not None:
        return timedelta(seconds=min(failure.retry_after_seconds, _MAX_DELAY.total_seconds()))
    growth = {Backoff.FIXED: 1, Backoff.LINEAR: failures + 1}.get(retry.backoff, 2.0 ** min(failures, 30))
    longest = min(retry.initial_delay.total_seconds() * growth, retry.max_delay.total_seconds())
    return timedelta(seconds=longest * random.uniform(0.8, 1.0))  # noqa: S311  # spread, not secrecy


def _find_place(error: BaseException) -> str | None:
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return None
    frame, line = frames[-1]
    return _storable(spell_place(frame.f_code, line, str(frame.f_globals.get("__name__", ""))))


def _message(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the handler called sys.exit({'' if error.code is None else repr(error.code)})"
    if not isinstance(error, Exception):
        return f"the handler raised {type(error).__name__}"
    try:
        return str(error) or type(error).__name__
    except BaseException:  # noqa: BLE001  # a handler's own exception may do anything when it is asked for its text
        return type(error).__name__


def _in_seconds(time: timedelta | float) -> float:
    """Handlers may give a number of seconds, too."""
    seconds = time.total_seconds() if isinstance(time, timedelta) else float(time)
    return seconds if math.isfinite(seconds) and seconds >= 0 else 0.0


def _code(error: BaseException, category: str) -> str:
    if isinstance(error, AnabranchError) and error.category == category:
        return str(error.code)
    if isinstance(error, ContractViolationError):
        return "handler.contract"
    return f"handler.{category}" if isinstance(error, Exception) else "handler.exited"


def _category(error: BaseException, message: str) -> str:
    """An error of ours says what it is, unless it says no more than that the handler failed."""
    if isinstance(error, AnabranchError) and error.category != TaskError.category:
        return error.category
    if isinstance(error, ContractViolationError):
        return "bug"
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _EXHAUSTED_ERRNOS):
        return "resource"
    if not isinstance(error, Exception):
        return "error"
    if _THROTTLED.search(message[: 2 * _MAX_MESSAGE_CHARS]) or _has_status_429(error):
        return "throttled"
    return "transient" if isinstance(error, TimeoutError | ConnectionError) else "error"


def _has_status_429(error: Exception) -> bool:
    """Whether an exception of an HTTP client says so, as requests, httpx, aiohttp, urllib and cloud clients do."""
    try:
        sources = (error, getattr(error, "response", None))
        found = {getattr(each, name, None) for each in sources for name in ("status", "status_code", "code")}
        return not found.isdisjoint({_TOO_MANY_REQUESTS, str(_TOO_MANY_REQUESTS)})
    except BaseException:  # noqa: BLE001  # a handler's own exception may do anything when it is looked at
        return False


def _storable(text: str, longest: int = _MAX_MESSAGE_CHARS) -> str:
    """A text as the database takes it; cut before secrets are looked for, which takes time, and behind them again."""
    shown = hide_secrets(text[: 2 * _MAX_MESSAGE_CHARS])[:longest]
    return shown.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
