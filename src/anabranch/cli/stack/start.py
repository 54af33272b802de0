"""Starts a stack in the background: for `up --detach`, and for commands that need one."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from anabranch.access import asks_for_keys
from anabranch.cli.connection import is_ready
from anabranch.cli.exit_codes import parse_relayed_error
from anabranch.cli.setup import prepare
from anabranch.cli.terminal.output import note
from anabranch.embedded.detach import SupervisorEnded, start_detached, stop
from anabranch.embedded.home import Home, Stack
from anabranch.embedded.listener import listen
from anabranch.embedded.locate import find_home
from anabranch.embedded.orphans import clear_orphans
from anabranch.embedded.processes import send
from anabranch.engine.plugin_folders import is_folder
from anabranch.engine.registry import load_plugins
from anabranch.errors import Conflict, DefinitionError
from anabranch.settings import Settings

__all__ = [
    "interrupt_on_signals",
    "keep_port",
    "own_command",
    "require_plugins",
    "start",
    "start_for_command",
    "temporary_stack",
]


def start(settings: Settings, *, reload: bool = False) -> Stack:
    """Start the stack in the background and wait until it is ready; on failure nothing is left of it."""
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
            command = own_command("up", "--log-to-files", "--json", *(["--reload"] if reload else []))
            return start_detached(command, environment, home, is_ready)
    except SupervisorEnded as ended:
        raise parse_relayed_error(ended.said, ended.exit_code) or ended from None


def start_for_command(*, stays: bool = False) -> Stack:
    """Start a stack for a command that needs one, on any free port; one that stays up uses its own port if it is free.

    Where it is not, the home remembers the port that was free: the links of a stack that stays are valid after the next
    `up`.
    """
    settings = keep_port(prepare(quiet=True)) if stays else prepare(quiet=True, port=0)
    remembers = stays and not _is_free(settings.host, settings.port)
    if remembers:
        settings = prepare(quiet=True, port=0)
    require_plugins(settings)
    note(f"starting a stack in {settings.home}")
    stack = start(settings)
    if remembers and (port := urlsplit(stack.api_url or "").port):
        Home(settings.home).write_port(port)
    return stack


def keep_port(settings: Settings) -> Settings:
    """The settings with the port that links of their home have, unless another one is configured, or it is in use."""
    home = Home(settings.home)
    port = None if "port" in settings.model_fields_set else home.read_port()
    if port is None:
        return settings
    clear_orphans(home)  # the API of a killed stack may still hold it
    home.release()
    if _is_free(settings.host, port):
        return settings.model_copy(update={"port": port})
    note(f"port {port} of earlier links is in use by another process; the stack uses {settings.port}")
    return settings


def _is_free(host: str, port: int) -> bool:
    try:
        listen(host, port).close()
    except Conflict:
        return False
    return True


@contextmanager
def temporary_stack() -> Iterator[None]:
    """A stack that is started now and stopped at the end in any case."""
    with interrupt_on_signals():
        # Outside the try: if it fails it leaves nothing behind, and a stack that runs then is not ours.
        supervisor = start_for_command().supervisor
        try:
            yield
        except KeyboardInterrupt:
            # A second signal, besides that of `stop`: then it does not wait for handlers. Their tasks run again later.
            # Two, because one of them may be ignored: SIGINT in a shell's background, SIGHUP under nohup.
            for signum in (signal.SIGINT, signal.SIGHUP):
                send(supervisor, signum)
            raise
        finally:
            note("stopping the stack")
            stop(find_home())


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


def require_plugins(settings: Settings) -> None:
    """Refuse to start without a plugin that the settings name; other refused plugins only cause a warning."""
    refused = load_plugins(settings.plugins).refused
    named = {str(Path(plugin).expanduser()) if is_folder(plugin) else plugin for plugin in settings.plugins}
    if missing := [f"{name}: {reason}" for name, reason in refused.items() if name in named]:
        raise DefinitionError("plugin.refused", "; ".join(missing), remedy="Fix the plugins, or ANABRANCH_PLUGINS.")
    for name, reason in refused.items():
        note(f"warning: {name} can't be used: {reason}")


def own_command(*arguments: str) -> list[str]:
    """The program and arguments that run a command of ours."""
    # -P: a module in the current folder must not replace one of ours.
    return [sys.executable, "-P", "-m", "anabranch", *arguments]
