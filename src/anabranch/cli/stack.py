"""`up` and `down`: the whole stack of a home."""

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
from anabranch.cli.options import Json, Yes
from anabranch.cli.setup import prepare, warn_of_unknown
from anabranch.cli.show import note, print_json, print_line
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
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The API's port; 0 takes any free one.")] = None,
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
    purge: Annotated[bool, typer.Option("--purge", help="Remove the database and all that jobs made, too.")] = False,
    bronze: Annotated[bool, typer.Option("--bronze", help="Purge what was sent to the bronze tier, too.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Stop the stack, and clear what a killed one left."""
    from anabranch.embedded.detach import stop

    home = find_home()
    if purge and not yes:
        raise UsageError(
            "down.unconfirmed",
            f"`--purge` removes the embedded database of {home.path} with all its data, and what jobs made there",
            remedy="Say so with `--yes`.",
        )
    if bronze and not purge:
        raise UsageError("usage", "`--bronze` says what to purge", remedy="Give `--purge --yes`, too.")
    stopped = stop(home)
    kept = _purge(home, bronze=bronze) if purge else []
    if json:
        facts = {"home": str(home.path), "stopped": stopped.supervisor, "orphans": stopped.orphans, "purged": purge}
        print_json({**facts, "kept": kept})
        return
    note(f"stopped the stack in {home.path}" if stopped.supervisor else f"nothing ran in {home.path}")
    if stopped.orphans:
        note(f"cleared {stopped.orphans} processes that a killed stack had left")
    if purge:
        note("removed the embedded database, and what else the stack made in the home")
    for folder in kept:
        note(f"kept {folder}{_reason(home, folder)}")


def start(settings: "Settings") -> Stack:
    """Start the stack in the background; it is ready when this returns, or nothing is left of it."""
    from anabranch.embedded.detach import SupervisorEnded, start_detached
    from anabranch.embedded.listener import asks_for_keys, listen
    from anabranch.embedded.orphans import clear_orphans

    asks_for_keys(settings.auth, settings.host)  # it refuses what must not be
    home = Home(settings.home)
    # Asked here, before a cluster is made. A killed stack's API may still hold the port, so what it left is cleared
    # first.
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
    """Let SIGTERM and a closed terminal end the command as ^C does, so that what it started is cleared."""
    # What is ignored stays so: a shell that runs us under nohup means it.
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
    """Refuse to start without a plugin that the settings name; what else is refused is told, and the rest goes on."""
    from pathlib import Path

    from anabranch.engine.plugin import is_folder, load_plugins

    refused = load_plugins(settings.plugins).refused
    named = {str(Path(plugin).expanduser()) if is_folder(plugin) else plugin for plugin in settings.plugins}
    if missing := [f"{name}: {reason}" for name, reason in refused.items() if name in named]:
        raise DefinitionError("plugin.refused", "; ".join(missing), remedy="Mend the plugins, or ANABRANCH_PLUGINS.")
    for name, reason in refused.items():
        note(f"warning: {name} can't be used: {reason}")


def _supervise(settings: "Settings", log_to_files: bool, json: bool) -> None:
    from anabranch.app import connections_needed, join
    from anabranch.cli.home_key import HomeKey
    from anabranch.cli.stack_database import StackDatabase
    from anabranch.embedded.cluster import Cluster
    from anabranch.embedded.listener import asks_for_keys
    from anabranch.embedded.supervisor import ChildSpec, Supervisor
    from anabranch.settings import forget

    home_key = HomeKey(Home(settings.home), needed=asks_for_keys(settings.auth, settings.host))
    forget("api_key")  # it is for commands; no process of the stack needs it (S5)
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
        on_death=database.bury,
        on_stop=home_key.end,
        grace=timedelta(seconds=40),  # longer than the grace that a worker gives its handlers
        log_to_files=log_to_files,
    ).run()


def _command(*arguments: str) -> list[str]:
    # -P: a module in the caller's folder must not stand in for one of ours.
    return [sys.executable, "-P", "-m", "anabranch", *arguments]


def _announce(stack: Stack, settings: "Settings", json: bool) -> None:
    """Show the stack when it is ready, while its supervisor goes on."""

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
        note("Callers need a key, but for commands of this home; `anabranch keys create` makes one.")
    else:
        note("It listens on loopback only, so no key is asked for.")


def _reason(home: Home, folder: str) -> str:
    """Why a folder of a purged home was kept, where there is something to say."""
    if folder == str(home.path / "bronze"):
        return "; `--bronze` removes it, too"
    jobs = folder == str(home.path / "work") or (home.path / folder / "jobs").exists()
    return ": a database elsewhere may know of the jobs that made what is in it" if jobs else ""


def _purge(home: Home, *, bronze: bool) -> list[str]:
    """Remove the embedded database and what the stack made; the tiers that still hold something."""
    from anabranch.embedded.cluster import Cluster
    from anabranch.embedded.purge import purge_home

    if not home.path.exists():
        return []
    elsewhere = prepare(quiet=True).database_url is not None
    with home.locked():
        cluster = Cluster(home)
        # A database elsewhere still knows of its jobs' files, whatever this shell knows of it.
        ours = cluster.exists and not (elsewhere or home.serves_elsewhere)
        # The database goes last: while it is there, a purge that failed can be tried again.
        kept = purge_home(home, jobs=ours, bronze=bronze)
        cluster.purge()
    return [str(folder) for folder in kept]
