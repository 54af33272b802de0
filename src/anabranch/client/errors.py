"""Turns problem documents into errors, with the codes, messages and remedies of the API."""

from collections.abc import Mapping
from typing import Any

from anabranch.errors import AnabranchError, Conflict, InputError, Kind, NotFound, Unavailable

__all__ = ["THROTTLED", "NotAllowed", "TimedOut", "error_of"]

THROTTLED = 429


class NotAllowed(AnabranchError):
    """The caller may not do this."""

    kind = Kind.NOT_ALLOWED


class TimedOut(AnabranchError):
    """The job had not ended when the timeout expired."""

    kind = Kind.TIMED_OUT


ERROR_CLASSES: Mapping[int, type[AnabranchError]] = {
    **dict.fromkeys((400, 413, 415, 422), InputError),
    **dict.fromkeys((401, 403), NotAllowed),
    **dict.fromkeys((404, 410), NotFound),
    409: Conflict,
    **dict.fromkeys((408, THROTTLED, 502, 503, 504), Unavailable),
}


def error_of(status: int, problem: Mapping[str, Any]) -> AnabranchError:  # JSON of any shape: a proxy may have sent it
    """The error in an answer."""
    kind = ERROR_CLASSES.get(status, AnabranchError)
    code, message = problem.get("code") or f"http.{status}", problem.get("detail") or f"the API answered {status}"
    return kind(str(code), str(message), remedy=str(problem.get("remedy") or ""))
