"""The code a command exits with, and the words for it."""

import json
import sys

from anabranch.cli.show import escape
from anabranch.codes import find_code
from anabranch.errors import (
    AnabranchError,
    Conflict,
    DefinitionError,
    Denied,
    InputError,
    NotFound,
    Unavailable,
)

__all__ = [
    "INTERNAL",
    "INTERRUPTED",
    "UNAVAILABLE",
    "JobFailed",
    "RelayedError",
    "UsageError",
    "exit_code",
    "parse_relayed_error",
    "print_error",
]

INTERNAL = 1
UNAVAILABLE = 9
INTERRUPTED = 130


class UsageError(AnabranchError):
    """The command was called wrongly."""


class JobFailed(AnabranchError):
    """The job that was waited for did not complete."""


class RelayedError(AnabranchError):
    """What another process of ours told before it ended with this exit code."""

    def __init__(self, code: str, message: str, *, remedy: str, exit_code: int) -> None:
        super().__init__(code, message, remedy=remedy)
        self.exit_code = exit_code


def exit_code(error: AnabranchError) -> int:
    """The exit code that an error means."""
    from anabranch.client import NotAllowed, TimedOut

    codes: dict[type[AnabranchError], int] = {
        UsageError: 2,
        NotFound: 3,
        NotAllowed: 4,
        Denied: 4,
        InputError: 5,
        DefinitionError: 5,
        Conflict: 6,
        JobFailed: 7,
        TimedOut: 8,
        Unavailable: UNAVAILABLE,
    }
    if isinstance(error, RelayedError):
        return error.exit_code
    if error.code == "database.not_allowed":
        return codes[NotAllowed]
    return next((code for kind, code in codes.items() if isinstance(error, kind)), INTERNAL)


def print_error(error: AnabranchError, *, as_json: bool) -> None:
    """Say on stderr what went wrong and what to do."""
    known = find_code(error.code)
    remedy = error.remedy or (known.remedy if known else "")
    if as_json:
        text = json.dumps({"code": error.code, "message": error.message, "remedy": remedy}, ensure_ascii=False)
    else:
        text = escape(f"error: {error.message}" + (f"\n{remedy}" if remedy else ""))
    sys.stderr.write(f"{text}\n")


def parse_relayed_error(said: str, exit_code: int) -> RelayedError | None:
    """The error that a process with `--json` told in the last of its lines, if it is one."""
    try:
        told = json.loads(said.splitlines()[-1])
        return RelayedError(told["code"], told["message"], remedy=told["remedy"], exit_code=exit_code)
    except (IndexError, KeyError, TypeError, ValueError):
        return None
