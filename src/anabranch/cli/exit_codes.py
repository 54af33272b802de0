"""The exit code of a command, and the error message for it."""

import json
import sys

from anabranch.cli.terminal.output import escape
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
    """The command was called with wrong arguments."""


class JobFailed(AnabranchError):
    """The job that a command waited for did not complete."""


class RelayedError(AnabranchError):
    """An error that another Anabranch process reported before it ended with this exit code."""

    def __init__(self, code: str, message: str, *, remedy: str, exit_code: int) -> None:
        super().__init__(code, message, remedy=remedy)
        self.exit_code = exit_code


def exit_code(error: AnabranchError) -> int:
    """The exit code of an error."""
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
    """Print an error and its remedy to stderr."""
    known = find_code(error.code)
    remedy = error.remedy or (known.remedy if known else "")
    if as_json:
        text = json.dumps({"code": error.code, "message": error.message, "remedy": remedy}, ensure_ascii=False)
    else:
        text = escape(f"error: {error.message}" + (f"\n{remedy}" if remedy else ""))
    sys.stderr.write(f"{text}\n")


def parse_relayed_error(output: str, exit_code: int) -> RelayedError | None:
    """The error in the last line that a process printed with `--json`; None if there is none."""
    try:
        error = json.loads(output.splitlines()[-1])
        return RelayedError(error["code"], error["message"], remedy=error["remedy"], exit_code=exit_code)
    except (IndexError, KeyError, TypeError, ValueError):
        return None
