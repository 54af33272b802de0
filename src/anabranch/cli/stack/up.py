"""`up` and `down`: start and stop the stack of a home."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.connection import find_home, is_ready
from anabranch.cli.exit_codes import UsageError, parse_relayed_error
from anabranch.cli.setup import prepare, warn_of_unknown
from anabranch.cli.terminal.options import Json, Yes
from anabranch.cli.terminal.output import note, print_json, print_line
from anabranch.embedded.home import Home, Stack
from anabranch.errors import DefinitionError

if TYPE_CHECKING:
    from anabranch.settings import Settings

__all__ = ["cli", "interrupt_on_signals", "require_plugins", "start"]

cli = typer.Typer()


@cli.command()
def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run in the background; return when ready.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, max=64, help="Worker processes.")] = None,
    queues: Annotated[str | None, typer.Option(help="Serve only these queues, separated by commas.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The API's port; 0 chooses a free one.")] = None,
    host: Annotated[str | None, typer.Option(help="The address the API listens on.")] = None,
    json: Json = False,
    log_to_files: Annotated[bool, typer.Option("--log-to-files", hidden=True)] = False,
) -> None:
    """Run the stack: database, API, orchestrator and workers."""
    settings = prepare(quiet=detach, workers=workers, queues=queues, port=port, host=host)
    if not log_to_files:
        warn_of_unknown()
        require_plugins(settings)
    if detach:
        _show(start(settings), settings, json)
        return
    _supervise(settings, log_to_files, json)


@cli.command()
def down(
    purge: Annotated[bool, typer.Option("--purge", help="Also remove the database and all job outputs.")] = False,
    bronze: Annotated[
        bool, typer.Option("--bronze", help="With --purge, also remove uploads in the bronze tier.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Stop the stack, and clean up after a killed one."""
    from anabranch.embedded.detach import stop

    home = find_home()
    if purge and not yes:
        raise UsageError(
            "down.unconfirmed",
            f"`--purge` removes the embedded database of {home.path} with all its data, and the outputs of jobs",
            remedy="Confirm with `--yes`.",
        )
    if bronze and not purge:
        raise UsageError("usage", "`--bronze` needs `--purge`", remedy="Add `--purge --yes`.")
    stopped = stop(home)
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


def start(settings: "Settings") -> Stack:
    """Start the stack in the background and wait until it is ready; on failure nothing is left of it."""
    from anabranch.embedded.detach import SupervisorEnded, start_detached
    from anabranch.embedded.listener import asks_for_keys, listen
    from anabranch.embedded.orphans import clear_orphans

    asks_for_keys(settings.auth, settings.host)  # refuses an open address without keys
    home = Home(settings.home)
    # The port is checked here, before a cluster is created. A killed stack's API may still hold it, so orphans are
    # ended first.
    clear_orphans(home)
    home.release()
    listen(settings.host, settings.port).close()
    chosen = {name: str(getattr(settings, name)) for name in ("home", "host", "port", "workers")}
    chosen["queues"] = ",".join(settings.queues)
    environment = {**os.environ, **{f"ANABRANCH_{name.upper()}": value for name, value in chosen.items()}}
    try:
        with interrupt_on_signals():
            return start_detached(_command("up", "--log-to-files", "--json"), environment, home, is_ready)
    except SupervisorEnded as ended:
        raise parse_relayed_error(ended.said, ended.exit_code) or ended from None


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt the command as ^C does, so that it cleans up what it started."""
    # An ignored signal stays ignored, as under nohup.
    wanted = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    former = {number: signal.signal(number, _interrupt) for number in wanted}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def require_plugins(settings: "Settings") -> None:
    """Refuse to start without a plugin that the settings name; other refused plugins only cause a warning."""
    from pathlib import Path

    from anabranch.engine.plugin import is_folder, load_plugins

    refused = load_plugins(settings.plugins).refused
    named = {str(Path(plugin).expanduser()) if is_folder(plugin) else plugin for plugin in settings.plugins}
    if missing := [f"{name}: {reason}" for name, reason in refused.items() if name in named]:
        raise DefinitionError("plugin.refused", "; ".join(missing), remedy="Fix the plugins, or ANABRANCH_PLUGINS.")
    for name, reason in refused.items():
        note(f"warning: {name} can't be used: {reason}")


def _supervise(settings: "Settings", log_to_files: bool, json: bool) -> None:
    from anabranch.app import connections_needed, join
    from anabranch.cli.stack.database import StackDatabase
    from anabranch.cli.stack.home_key import HomeKey
    from anabranch.embedded.cluster import Cluster
    from anabranch.embedded.listener import asks_for_keys
    from anabranch.embedded.supervisor import ChildSpec, Supervisor
    from anabranch.settings import forget

    home_key = HomeKey(Home(settings.home), needed=asks_for_keys(settings.auth, settings.host))
    forget("api_key")  # only commands need it, no process of the stack (S5)
    home, database = Home(settings.home), StackDatabase(Home(settings.home), connections_needed(settings.workers))
    children = [
        ChildSpec("api", _command("api"), {"ANABRANCH_HOST": settings.host}, listens=True),
        ChildSpec("orchestrator", _command("orchestrator")),
        *(
            ChildSpec(f"worker-{number}", _command("worker"), {"ANABRANCH_QUEUES": ",".join(settings.queues)})
            for number in range(1, settings.workers + 1)
        ),
    ]

    def prepare(url: str) -> None:
        database.prepare(url)
        join(settings, url)
        home_key.begin(url)

    Supervisor(
        home,
        settings.database_url.get_secret_value() if settings.database_url else Cluster(home),
        children,
        host=settings.host,
        port=settings.port,
        prepare=prepare,
        on_start=lambda stack: None if log_to_files else _announce(stack, settings, json),
        on_death=database.end_session,
        on_stop=home_key.end,
        grace=timedelta(seconds=40),  # longer than a worker's grace period for its handlers
        log_to_files=log_to_files,
    ).run()


def _command(*arguments: str) -> list[str]:
    # -P: a module in the current folder must not replace one of ours.
    return [sys.executable, "-P", "-m", "anabranch", *arguments]


def _announce(stack: Stack, settings: "Settings", json: bool) -> None:
    """Print the stack's facts when it is ready, in a thread beside the supervisor."""

    def announce() -> None:
        while not is_ready(stack):
            sleep(0.1)
        _show(stack, settings, json)

    Thread(target=announce, daemon=True).start()


def _show(stack: Stack, settings: "Settings", json: bool) -> None:
    from anabranch.embedded.listener import asks_for_keys

    home, keys = Home(settings.home), asks_for_keys(settings.auth, settings.host)
    facts = {"url": stack.api_url, "home": str(home.path), "pid": stack.supervisor.pid, "logs": str(home.logs)}
    if json:
        print_json({**facts, "auth": "keys" if keys else "none"})
    else:
        for name, value in facts.items():
            print_line(f"{name:5} {value}")
    sys.stdout.flush()
    if keys:
        note("Callers need a key, except commands of this home; create one with `anabranch keys create`.")
    else:
        note("The API listens on loopback only, so callers need no key.")


def _reason(home: Home, folder: str) -> str:
    """Why a folder of a purged home was kept, if there is a reason to print."""
    if folder == str(home.path / "bronze"):
        return "; `--bronze` also removes it"
    jobs = folder == str(home.path / "work") or (home.path / folder / "jobs").exists()
    return ": an external database may still refer to the jobs that wrote it" if jobs else ""


def _purge(home: Home, *, bronze: bool) -> list[str]:
    """Remove the embedded database and the stack's files; returns the tiers that are not empty."""
    from anabranch.embedded.cluster import Cluster
    from anabranch.embedded.purge import purge_home

    if not home.path.exists():
        return []
    external = prepare(quiet=True).database_url is not None
    with home.locked():
        cluster = Cluster(home)
        # An external database still refers to its jobs' files, even if this shell does not name it.
        ours = cluster.exists and not (external or home.serves_elsewhere)
        # The database is removed last: while it exists, a failed purge can be repeated.
        kept = purge_home(home, jobs=ours, bronze=bronze)
        cluster.purge()
    return [str(folder) for folder in kept]
