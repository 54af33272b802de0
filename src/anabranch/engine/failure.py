"""From an exception to an error that is kept, and from that to the next attempt."""

import errno
import math
import random
import traceback
from collections.abc import Mapping
from datetime import timedelta

from anabranch.engine.canonical import Json
from anabranch.engine.errors import AnabranchError, ContractViolationError, Throttled
from anabranch.engine.secrecy import hide_secrets
from anabranch.engine.workflow import Backoff

__all__ = ["CRASH_LIMIT", "describe_error", "next_delay"]

CRASH_LIMIT = 3
_ATTEMPTS = {"transient": 3, "throttled": 5, "resource": 2}
_MAX_MESSAGE = 4_000
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM}


def describe_error(error: BaseException) -> dict[str, Json]:
    """What is kept of a handler's failure: code, message, category, remedy and where it was raised."""
    described: dict[str, Json] = {
        "code": _code(error),
        "message": _storable(_said(error)),
        "category": _category(error),
        "type": type(error).__name__,
    }
    if isinstance(error, AnabranchError) and error.remedy:
        described["remedy"] = _storable(error.remedy)
    if isinstance(error, Throttled) and error.retry_after is not None:
        described["retry_after_seconds"] = _in_seconds(error.retry_after)
    if frames := traceback.extract_tb(error.__traceback__):
        described["where"] = _storable(f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}")
    return described


def next_delay(policy: Mapping[str, Json], failures: int, error: Mapping[str, Json]) -> timedelta | None:
    """How long to wait before the next attempt, with jitter; None when this failure was the last (E9)."""
    category = str(error.get("category"))
    declared = policy.get("max_attempts")
    allowed = declared if isinstance(declared, int) else _ATTEMPTS.get(category, 1)
    if category in ("permanent", "bug") or failures + 1 >= allowed:
        return None
    asked = error.get("retry_after_seconds")
    if isinstance(asked, int | float):
        return timedelta(seconds=asked)
    first, longest = _number(policy, "initial_delay_seconds", 5), _number(policy, "max_delay_seconds", 300)
    growth = {Backoff.FIXED: 1, Backoff.LINEAR: failures + 1}.get(
        Backoff(str(policy.get("backoff", Backoff.EXPONENTIAL))), 2.0 ** min(failures, 30)
    )
    return timedelta(seconds=min(first * growth, longest) * random.uniform(0.8, 1.0))  # noqa: S311  # spread, not secrecy


def _said(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001  # a handler's own exception may do anything when it is asked for its text
        return type(error).__name__


def _in_seconds(time: timedelta | float) -> float:
    """Handlers may give a number of seconds, too."""
    seconds = time.total_seconds() if isinstance(time, timedelta) else float(time)
    return seconds if math.isfinite(seconds) and seconds >= 0 else 0.0


def _number(policy: Mapping[str, Json], key: str, default: float) -> float:
    value = policy.get(key, default)
    return value if isinstance(value, int | float) else default


def _code(error: BaseException) -> str:
    if isinstance(error, AnabranchError):
        return error.code
    return "handler.contract" if isinstance(error, ContractViolationError) else f"handler.{_category(error)}"


def _category(error: BaseException) -> str:
    if isinstance(error, AnabranchError):
        return error.category
    if isinstance(error, ContractViolationError):
        return "bug"
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _FULL):
        return "resource"
    return "transient" if isinstance(error, TimeoutError | ConnectionError) else "permanent"


def _storable(text: str) -> str:
    shown = hide_secrets(text[: 2 * _MAX_MESSAGE])[:_MAX_MESSAGE]
    return shown.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
