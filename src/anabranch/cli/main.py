"""The command line: its commands, and the one place that turns errors into messages and exit codes."""

import gc
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from anabranch.cli.commands import COMMANDS
from anabranch.cli.completion import COMPLETE_VARIABLE, complete
from anabranch.cli.exit_codes import INTERRUPTED, UsageError, exit_code, print_error
from anabranch.cli.lazy import LazyGroup, add_commands
from anabranch.cli.terminal.output import StdoutError, note, print_line
from anabranch.errors import AnabranchError, Kind

__all__ = ["build", "call", "main"]

BROKEN_PIPE_EXIT = 141  # of a program that SIGPIPE ended

cli = typer.Typer(
    name="anabranch",
    cls=LazyGroup,
    help="Durable geospatial workflows on PostgreSQL.",
    epilog="Settings come from ANABRANCH_* and anabranch.toml; `anabranch config show` lists them.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@cli.callback(invoke_without_command=True)
def root(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Durable geospatial workflows on PostgreSQL."""
    if version:
        from importlib.metadata import version as version_of

        print_line(f"anabranch {version_of('anabranch')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print_line(context.get_help())
        raise typer.Exit(2)


def build() -> TyperGroup:
    """The group of all commands."""
    group = typer.main.get_group(cli)
    add_commands(group, COMMANDS)
    return group


def main() -> None:
    """Run the command that this process was called with, and exit."""
    gc.disable()  # until the command is imported: what that makes lives to the end
    _fill_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper):  # characters that its encoding lacks are escaped, as on stderr
        sys.stdout.reconfigure(errors="backslashreplace")
    if COMPLETE_VARIABLE in os.environ:
        complete(build())
    code = call(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = BROKEN_PIPE_EXIT
    except OSError as error:
        code = code or _report(StdoutError(error))
    finally:
        # The interpreter flushes once more at exit, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _fill_closed_streams() -> None:
    # A caller may have closed them (`>&-`). Then the next file or socket would get the descriptor, and our output.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  it stays open


def call(arguments: Sequence[str]) -> int:
    """Run a command, and return its exit code."""
    try:
        _invoke(arguments)
    except typer.Exit as ended:
        return ended.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return BROKEN_PIPE_EXIT
    except StdoutError as error:
        return _report(error)
    except Exception as error:  # noqa: BLE001  the boundary: nothing passes it as a traceback
        known = _describe(error)
        print_error(known, as_json="--json" in arguments)
        return exit_code(known)
    return 0


def _report(error: StdoutError) -> int:
    note(str(error))
    return Kind.INTERNAL.exit_code


def _invoke(arguments: Sequence[str]) -> None:
    command = build()
    with command.make_context("anabranch", list(arguments)) as context:
        command.invoke(context)


def _describe(error: Exception) -> AnabranchError:
    if isinstance(error, AnabranchError):
        return error
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "anabranch"
        said = error.format_message().strip().replace(": Value error, ", ": ")
        return UsageError("usage", said, remedy=f"See `{path} --help`.")
    return _unexpected(error)


def _unexpected(error: Exception) -> AnabranchError:
    from anabranch.cli.crash import save_details

    kind = type(error).__name__
    return AnabranchError("internal", f"{kind}: {error}".splitlines()[0], remedy=save_details(error))
