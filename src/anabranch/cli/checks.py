"""The checks of `doctor`; each looks at one thing and changes nothing."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from anabranch.adapters.postgres.check import check
from anabranch.adapters.postgres.migrate import status
from anabranch.adapters.postgres.rows import ROWS
from anabranch.app import load_registry
from anabranch.cli.place import database_url, is_ready
from anabranch.cli.setup import find_unknown, prepare
from anabranch.embedded.account import choose_account
from anabranch.embedded.binaries import find_binaries
from anabranch.embedded.home import Home, Stack
from anabranch.embedded.listener import listen
from anabranch.embedded.orphans import find_orphans
from anabranch.embedded.place import Place
from anabranch.engine.errors import AnabranchError, Conflict
from anabranch.settings import Settings

__all__ = ["Finding", "examine"]

OLDEST_PYTHON = (3, 11)
LITTLE_SPACE = 1_000_000_000


@dataclass(frozen=True)
class Finding:
    """What one check found, and what to do about it."""

    check: str
    status: Literal["ok", "warn", "fail"]
    message: str
    remedy: str = ""


def examine() -> Iterator[Finding]:
    """Look at the machine, then the home, then what runs there."""
    yield _python()
    try:
        settings = prepare(quiet=True)
        stack = Home(settings.home).read_stack()
    except AnabranchError as error:
        yield Finding("settings", "fail", error.message, error.remedy)
        return
    yield _settings()
    yield from _guarded("postgresql", lambda: _programs(settings))
    yield from _guarded("home", lambda: _home(settings))
    yield from _guarded("port", lambda: _port(settings, stack))
    yield from _guarded("plugins", lambda: _plugins(settings))
    yield _stack(settings, stack)
    if stack or settings.database_url:
        yield from _guarded("database", lambda: _database(settings))
        yield from _guarded("schema", lambda: _schema(settings))
    if stack and stack.api_url:
        yield from _guarded("api", lambda: _api(stack))


def _guarded(name: str, look: Callable[[], Finding]) -> Iterator[Finding]:
    try:
        yield look()
    except AnabranchError as error:
        yield Finding(name, "fail", error.message, error.remedy)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        return Finding("python", "fail", f"Python {version}", "Use Python 3.11 or newer.")
    return Finding("python", "ok", f"Python {version}, {sys.executable}")


def _settings() -> Finding:
    if unknown := find_unknown():
        return Finding("settings", "warn", "; ".join(unknown), "Mend the names; `anabranch config show` lists them.")
    return Finding("settings", "ok", "every ANABRANCH_ variable is known")


def _programs(settings: Settings) -> Finding:
    if settings.database_url:
        return Finding("postgresql", "ok", "ANABRANCH_DATABASE_URL names a server, so none is needed here")
    found = find_binaries(choose_account(Place(Home(settings.home)).data))
    what = f"PostgreSQL {found.major} in {found.folder}"
    if not found.postgis:
        remedy = f"apt-get install -y postgresql-{found.major}-postgis-3 (for the vector parts)"
        return Finding("postgresql", "warn", f"{what}, without PostGIS", remedy)
    return Finding("postgresql", "ok", f"{what}, with PostGIS")


def _home(settings: Settings) -> Finding:
    # The home may not be there yet: then what counts is the folder it will be made in.
    folder = next(parent for parent in (settings.home, *settings.home.parents) if parent.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding("home", "fail", f"{folder} can't be written", "Set ANABRANCH_HOME to a folder that you own.")
    free = shutil.disk_usage(folder).free
    what = f"{settings.home}, {free / 1e9:.1f} GB free"
    if free < LITTLE_SPACE:
        return Finding("home", "warn", what, "Make room, or set ANABRANCH_HOME to another disk.")
    return Finding("home", "ok", what)


def _port(settings: Settings, stack: Stack | None) -> Finding:
    if stack:
        return Finding("port", "ok", f"{stack.api_url} is ours" if stack.api_url else "the stack here is starting")
    try:
        listen(settings.host, settings.port).close()
    except Conflict as error:
        if find_orphans(Home(settings.home)):
            what = f"port {settings.port} of {settings.host} is taken, and a killed stack has left processes here"
            return Finding("port", "warn", what, "Clear them with `anabranch down`.")
        return Finding("port", "warn", error.message, error.remedy)
    return Finding("port", "ok", f"{settings.port} of {settings.host} is free")


def _plugins(settings: Settings) -> Finding:
    registry = load_registry(settings)
    if registry.refused:
        mistakes = "; ".join(f"{name}: {reason}" for name, reason in registry.refused.items())
        return Finding("plugins", "fail", mistakes, "Mend the plugins, or ANABRANCH_PLUGINS.")
    names = ", ".join(workflow.id for workflow in registry.workflows)
    return Finding("plugins", "ok", f"{len(registry.handlers)} handlers; workflows: {names or 'none'}")


def _stack(settings: Settings, stack: Stack | None) -> Finding:
    if stack is None:
        return Finding("stack", "warn", f"nothing runs in {settings.home}", "Start it with `anabranch up`.")
    return Finding("stack", "ok", f"pid {stack.supervisor.pid}, {len(stack.children)} processes")


def _database(settings: Settings) -> Finding:
    found = status(database_url(settings))
    return Finding("database", "ok", f"PostgreSQL {found.server_version} at {found.database}")


def _schema(settings: Settings) -> Finding:
    differences = check(database_url(settings), ROWS)
    if differences:
        what = f"it differs from the files in {len(differences)} places"
        return Finding("schema", "fail", what, "See `anabranch db check`.")
    return Finding("schema", "ok", "as the files say")


def _api(stack: Stack) -> Finding:
    if is_ready(stack):
        return Finding("api", "ok", f"{stack.api_url} is ready")
    return Finding("api", "fail", f"{stack.api_url} is not ready", "See the logs in the home.")
