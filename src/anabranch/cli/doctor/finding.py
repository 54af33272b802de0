"""The result of a check of `doctor`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from anabranch.errors import AnabranchError

__all__ = ["Finding", "Status", "report_errors"]

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """The result of one check, and what to do about it."""

    check: str
    status: Status
    message: str
    remedy: str = ""


def report_errors(name: str, check: Callable[[], Finding]) -> Iterator[Finding]:
    """The finding of a check; one of our errors becomes a failed finding."""
    try:
        yield check()
    except AnabranchError as error:
        yield Finding(name, "fail", error.message, error.remedy)
