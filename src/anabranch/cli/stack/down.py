"""`down`: stops the stack of a home."""

from collections.abc import Sequence
from typing import Annotated

import typer

from anabranch.cli.exit_codes import UsageError
from anabranch.cli.terminal.options import Json, Yes
from anabranch.cli.terminal.output import note, print_json
from anabranch.embedded.detach import stop
from anabranch.embedded.home import Home
from anabranch.embedded.locate import find_home

__all__ = ["down"]


def down(
    purge: Annotated[bool, typer.Option("--purge", help="Also remove the database and all job outputs.")] = False,
    bronze: Annotated[
        bool, typer.Option("--bronze", help="With --purge, also remove uploads in the bronze tier.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Stop the stack, and clean up after a killed one."""
    home = find_home()
    if purge and not yes:
        raise UsageError(
            "down.unconfirmed",
            f"`--purge` removes the embedded database of {home.path} with all its data, and the outputs of jobs",
        )
    if bronze and not purge:
        raise UsageError("usage", "`--bronze` needs `--purge`", remedy="Add `--purge --yes`.")
    stopped = stop(home, on_wait=_say_what_is_left)
    kept = _purge(home, bronze=bronze) if purge else []
    if json:
        facts = {"home": str(home.path), "stopped": stopped.supervisor, "orphans": stopped.orphans, "purged": purge}
        print_json({**facts, "kept": kept})
        return
    note(f"stopped the stack in {home.path}" if stopped.supervisor else f"nothing ran in {home.path}")
    if stopped.orphans:
        note(f"ended {stopped.orphans} processes that a killed stack had left")
    if purge:
        note("removed the embedded database, and everything else the stack created in the home")
    for folder in kept:
        note(f"kept {folder}{_reason(home, folder)}")


def _say_what_is_left(roles: Sequence[str]) -> None:
    working = any(role.startswith("worker") for role in roles)
    why = ": running tasks have 30 s to end, and those that do not are run again later" if working else ""
    note(f"waiting for {', '.join(roles) or 'the supervisor'}{why}")


def _reason(home: Home, folder: str) -> str:
    """Why a folder of a purged home was kept, if there is a reason to print."""
    if folder == str(home.path / "bronze"):
        return "; `--bronze` also removes it"
    jobs = folder == str(home.path / "work") or (home.path / folder / "jobs").exists()
    return ": an external database may still refer to the jobs that wrote it" if jobs else ""


def _purge(home: Home, *, bronze: bool) -> list[str]:
    from anabranch.cli.stack.purge import purge_stack  # it loads the settings, and most calls do not purge

    return purge_stack(home, bronze=bronze)
