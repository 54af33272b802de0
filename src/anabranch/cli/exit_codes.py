"""The exit code of a command, and the error message for it."""

import json
import sys

from anabranch.cli.terminal.output import escape
from anabranch.codes import code_of, find_remedy
from anabranch.errors import AnabranchError, Kind

__all__ = [
    "INTERRUPTED",
    "JobFailed",
    "RelayedError",
    "UsageError",
    "exit_code",
    "parse_relayed_error",
    "print_error",
]

INTERRUPTED = 130


class UsageError(AnabranchError):
    """The command was called with wrong arguments."""

    kind = Kind.USAGE


class JobFailed(AnabranchError):
    """The job that a command waited for did not complete."""

    kind = Kind.TASK


class RelayedError(AnabranchError):
    """An error that another Anabranch process reported before it ended with this exit code."""

    def __init__(self, code: str, message: str, *, remedy: str, exit_code: int) -> None:
        super().__init__(code, message, remedy=remedy)
        self.exit_code = exit_code


def exit_code(error: AnabranchError) -> int:
    """The exit code of an error; a failed job has its own, whatever the code of the job's error is."""
    if isinstance(error, RelayedError):
        return error.exit_code
    return (error.kind if isinstance(error, JobFailed) else code_of(error)).exit_code


def print_error(error: AnabranchError, *, as_json: bool) -> None:
    """Print an error and its remedy to stderr."""
    remedy = find_remedy(error.code, error.remedy)
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
