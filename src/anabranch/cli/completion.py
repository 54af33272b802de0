"""`completion`: shell completion."""

from typing import Annotated, Any, Literal

import typer
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]  # typer's own options use the same

from anabranch.cli.terminal.output import print_line

__all__ = ["COMPLETE_VARIABLE", "complete", "completion"]

COMPLETE_VARIABLE = "_ANABRANCH_COMPLETE"  # a shell requests completions with it


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish")]) -> None:
    """Print a completion script for a shell."""
    print_line(get_completion_script(prog_name="anabranch", complete_var=COMPLETE_VARIABLE, shell=shell))


def complete(root: Any) -> None:  # typer's own classes are private
    """Answer a completion request of a shell, and exit."""
    completion_init()
    root.main(prog_name="anabranch")
