"""`up`: runs the stack of a home."""

import sys
from datetime import timedelta
from threading import Thread
from time import sleep
from typing import Annotated

import typer

from anabranch.access import asks_for_keys
from anabranch.adapters.postgres.server.url import configured_url
from anabranch.app import join
from anabranch.cli.connection import is_ready
from anabranch.cli.setup import prepare, warn_of_unknown
from anabranch.cli.stack.database import StackDatabase
from anabranch.cli.stack.home_key import HomeKey
from anabranch.cli.stack.plugins import PluginWatcher, spell_plugins
from anabranch.cli.stack.start import keep_port, own_command, require_plugins, start
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import note, print_json, print_line
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home, Stack
from anabranch.embedded.supervisor import ChildSpec, Supervisor
from anabranch.settings import Settings, forget

__all__ = ["up"]


def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run in the background; return when ready.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, max=64, help="Worker processes.")] = None,
    queues: Annotated[str | None, typer.Option(help="Serve only these queues, separated by commas.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The API's port; 0 chooses a free one.")] = None,
    host: Annotated[str | None, typer.Option(help="The address the API listens on.")] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart workers and API when the code of a plugin changes.")
    ] = False,
    json: Json = False,
    log_to_files: Annotated[bool, typer.Option("--log-to-files", hidden=True)] = False,
) -> None:
    """Run the stack: database, API, orchestrator and workers."""
    settings = keep_port(prepare(quiet=detach, workers=workers, queues=queues, port=port, host=host))
    Home(settings.home).require_restored()
    if not log_to_files:
        warn_of_unknown()
        require_plugins(settings)
    if detach:
        _show(start(settings, reload=reload), settings, json)
        return
    _supervise(settings, log_to_files, json, reload=reload)


def _supervise(settings: Settings, log_to_files: bool, json: bool, *, reload: bool) -> None:
    home_key = HomeKey(Home(settings.home), needed=asks_for_keys(settings.auth, settings.host))
    forget("api_key")  # only commands need it, no process of the stack (S5)
    home, database = Home(settings.home), StackDatabase(Home(settings.home), settings.workers)
    children = [
        ChildSpec("api", own_command("api"), {"ANABRANCH_HOST": settings.host}, listens=True),
        ChildSpec("orchestrator", own_command("orchestrator")),
        *(
            ChildSpec(f"worker-{number}", own_command("worker"), {"ANABRANCH_QUEUES": ",".join(settings.queues)})
            for number in range(1, settings.workers + 1)
        ),
    ]

    def prepare(url: str) -> None:
        database.prepare(url)
        join(settings, url)
        home_key.begin(url)

    def announce(stack: Stack) -> None:
        if reload:
            PluginWatcher(home, settings.plugins).start()
        if not log_to_files:
            _announce(stack, settings, json)

    Supervisor(
        home,
        configured_url(settings) or Cluster(home),
        children,
        host=settings.host,
        port=settings.port,
        prepare=prepare,
        on_start=announce,
        on_death=database.end_session,
        on_stop=home_key.end,
        grace=timedelta(seconds=40),  # longer than a worker's grace period for its handlers
        log_to_files=log_to_files,
        plugins=spell_plugins(settings.plugins),
    ).run()


def _announce(stack: Stack, settings: Settings, json: bool) -> None:
    """Print the stack's facts when it is ready, in a thread beside the supervisor."""

    def announce() -> None:
        while not is_ready(stack):
            sleep(0.1)
        _show(stack, settings, json)

    Thread(target=announce, daemon=True).start()


def _show(stack: Stack, settings: Settings, json: bool) -> None:
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
