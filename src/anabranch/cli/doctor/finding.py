"""What a check of `doctor` found."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from anabranch.errors import AnabranchError

__all__ = ["Finding", "Status", "report_errors"]

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """What one check found, and what to do about it."""

    check: str
    status: Status
    message: str
    remedy: str = ""


def report_errors(name: str, look: Callable[[], Finding]) -> Iterator[Finding]:
    """What a check found; an error of ours is a finding, too."""
    try:
        yield look()
    except AnabranchError as error:
        yield Finding(name, "fail", error.message, error.remedy)
