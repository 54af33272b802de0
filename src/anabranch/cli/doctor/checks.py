"""The checks of `doctor`; each checks one thing and changes nothing."""

import asyncio
from collections.abc import Collection, Iterator

from anabranch.adapters.postgres.schema.check import check
from anabranch.adapters.postgres.schema.migrate import status
from anabranch.adapters.postgres.schema.pgstac import find_catalog
from anabranch.adapters.postgres.schema.table_values import ROW_TYPES
from anabranch.adapters.postgres.store.budget import REMEDY as BUDGET_REMEDY
from anabranch.adapters.postgres.store.budget import check_budget, read_budget
from anabranch.adapters.postgres.store.clock import measure_skew
from anabranch.app import connections_needed, load_registry, open_marks
from anabranch.cli.connection import database_url, open_client
from anabranch.cli.doctor.connections import check_connections
from anabranch.cli.doctor.finding import Finding, Status, report_errors
from anabranch.cli.doctor.machine import (
    check_fork_server,
    check_home,
    check_isolation,
    check_limits,
    check_packages,
    check_programs,
    check_python,
)
from anabranch.cli.setup import find_unknown, prepare
from anabranch.client import Worker
from anabranch.embedded.home import Home, Stack
from anabranch.embedded.listener import listen
from anabranch.embedded.orphans import find_orphans
from anabranch.errors import AnabranchError, Conflict, InputError
from anabranch.oidc.issuer import fetch_keys
from anabranch.oidc.settings import OidcSettings
from anabranch.settings import Settings
from anabranch.storage.marks import check_storage

__all__ = ["Finding", "check_issuer", "examine"]

MAX_SKEW_SECONDS = 2.0
FINDING_STATUS: dict[str, Status] = {"degraded": "warn", "down": "fail"}


def examine() -> Iterator[Finding]:
    """Check the machine, then the home, then the stack that runs there."""
    yield check_python()
    yield check_packages()
    yield check_fork_server()
    yield check_isolation()
    try:
        settings = prepare(quiet=True)
        stack = Home(settings.home).read_stack()
    except AnabranchError as error:
        yield Finding("settings", "fail", error.message, error.remedy)
        return
    yield _settings()
    yield from report_errors("postgresql", lambda: check_programs(settings))
    yield from report_errors("home", lambda: check_home(settings))
    yield from report_errors("port", lambda: _port(settings, stack))
    yield from report_errors("limits", lambda: check_limits(settings))
    yield from report_errors("plugins", lambda: _plugins(settings))
    yield from check_issuer(settings.oidc)
    yield _stack(settings, stack)
    if stack or settings.database_url:
        yield from _examine_database(settings, runs=stack is not None)
    if stack and stack.api_url:
        yield from _examine_api(stack)


def _examine_database(settings: Settings, *, runs: bool) -> Iterator[Finding]:
    (found,) = report_errors("database", lambda: _database(settings))
    yield found
    if found.status == "fail":  # the other checks would report the same
        return
    yield from report_errors("connections", lambda: check_connections(database_url(settings)))
    yield from report_errors("migrations", lambda: _migrations(settings))
    yield from report_errors("schema", lambda: _schema(settings))
    yield from report_errors("catalog", lambda: _catalog(settings))
    yield from report_errors("budget", lambda: _budget(settings, runs=runs))
    yield from report_errors("clock", lambda: _clock(settings))
    yield from report_errors("storage", lambda: _storage(settings))


def _examine_api(stack: Stack) -> Iterator[Finding]:
    """Whether the API answers, and which of its parts and processes have problems."""
    try:
        with open_client(str(stack.api_url)) as client:
            health = client.health()
            processes = client.workers() if health.components["database"].status != "down" else None
    except AnabranchError as error:
        yield Finding("api", "fail", error.message, error.remedy or "See the logs in the home.")
        return
    yield Finding("api", "ok", f"{stack.api_url} answers; health is {health.status}")
    unwell = {name: part for name, part in health.components.items() if part.status != "ok"}
    for name, part in unwell.items():
        what = f"{part.detail} (since {part.since:%Y-%m-%d %H:%M:%S} UTC)"
        yield Finding(name, FINDING_STATUS[part.status], what, part.remedy or "")
    if processes is not None and "workers" not in unwell:
        yield _workers([process for process in processes if process.kind == "worker"])


def _workers(workers: list[Worker]) -> Finding:
    queues = sorted({queue for worker in workers for queue in worker.queues})
    slots = sum(worker.slots for worker in workers)
    return Finding("workers", "ok", f"{len(workers)} with {slots} slots, for the queues {', '.join(queues)}")


def _settings() -> Finding:
    if unknown := find_unknown():
        return Finding(
            "settings", "warn", "; ".join(unknown), "Fix the names; `anabranch config show` lists the settings."
        )
    return Finding("settings", "ok", "every ANABRANCH_ variable is known")


def _port(settings: Settings, stack: Stack | None) -> Finding:
    if stack:
        return Finding(
            "port",
            "ok",
            f"{stack.api_url} is used by this stack" if stack.api_url else "the stack in this home is starting",
        )
    try:
        listen(settings.host, settings.port).close()
    except Conflict as error:
        if find_orphans(Home(settings.home)):
            what = f"port {settings.port} of {settings.host} is in use, and a killed stack left processes here"
            return Finding("port", "warn", what, "Clear them with `anabranch down`.")
        return Finding("port", "warn", error.message, error.remedy)
    return Finding("port", "ok", f"{settings.port} of {settings.host} is free")


def _plugins(settings: Settings) -> Finding:
    registry = load_registry(settings)
    if registry.refused:
        mistakes = "; ".join(f"{name}: {reason}" for name, reason in registry.refused.items())
        return Finding("plugins", "fail", mistakes, "Fix the plugins, or ANABRANCH_PLUGINS.")
    names = ", ".join(workflow.id for workflow in registry.workflows)
    return Finding("plugins", "ok", f"{len(registry.handlers)} handlers; workflows: {names or 'none'}")


def check_issuer(settings: OidcSettings) -> Iterator[Finding]:
    """Whether the issuer of tokens can be asked for its keys, if one is configured."""
    if url := settings.issuer:
        yield from report_errors("issuer", lambda: _issuer(url, settings.algorithms))


def _issuer(url: str, algorithms: Collection[str]) -> Finding:
    count = len({kid for kid, _ in asyncio.run(fetch_keys(url, algorithms))})
    return Finding("issuer", "ok", f"{url} answers, and has {count} key{'s' if count > 1 else ''}")


def _stack(settings: Settings, stack: Stack | None) -> Finding:
    if stack is None:
        return Finding("stack", "warn", f"nothing runs in {settings.home}", "Start it with `anabranch up --detach`.")
    return Finding("stack", "ok", f"pid {stack.supervisor.pid}, {len(stack.children)} processes")


def _database(settings: Settings) -> Finding:
    found = status(database_url(settings))
    return Finding("database", "ok", f"PostgreSQL {found.server_version} at {found.database}")


def _migrations(settings: Settings) -> Finding:
    found = status(database_url(settings))
    if found.is_later and found.current:
        what = f"the database has release {found.release} of the schema; this release is {found.files_release}"
        return Finding("migrations", "warn", what, "Processes of both releases may run; upgrade this one soon.")
    if found.current:
        return Finding("migrations", "ok", f"up to {found.applied[-1]}; release {found.release} of the schema")
    what = found.problem or f"pending: {', '.join(found.pending) or 'the functions'}"
    return Finding("migrations", "fail", what, "Run `anabranch db migrate`.")


def _schema(settings: Settings) -> Finding:
    if status(database_url(settings)).is_later:
        return Finding("schema", "ok", "of a later release; its files are not on this machine")
    try:
        differences = check(database_url(settings), ROW_TYPES)
    except InputError as error:
        if error.code != "database.not_allowed":
            raise
        return Finding("schema", "ok", "compared only where ANABRANCH_DATABASE_OWNER_URL is set")
    if differences:
        what = f"it differs from the files in {len(differences)} places"
        return Finding("schema", "fail", what, "See `anabranch db check`.")
    return Finding("schema", "ok", "matches the files")


def _catalog(settings: Settings) -> Finding:
    found = find_catalog(database_url(settings))
    return Finding("catalog", "ok" if found.current else "warn", str(found), found.remedy)


def _budget(settings: Settings, *, runs: bool) -> Finding:
    url = database_url(settings)
    if not runs:
        found = check_budget(url, needed := connections_needed(settings.workers, url))
        return Finding("budget", "ok", f"a stack needs {needed} connections, and {found}")
    found = read_budget(url)
    if found.declared > found.maximum // 2:
        return Finding("budget", "warn", f"{found}, which is more than half of its {found.maximum}", BUDGET_REMEDY)
    return Finding("budget", "ok", str(found))


def _storage(settings: Settings) -> Finding:
    known = check_storage(*open_marks(settings, database_url(settings)))
    same = "the tiers and the work area are the ones that the database's processes use"
    return Finding("storage", "ok", same if known else "the tiers and the work area can be reached")


def _clock(settings: Settings) -> Finding:
    seconds = measure_skew(database_url(settings)).total_seconds()
    what = f"the database's is {abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} this machine's"
    if abs(seconds) > MAX_SKEW_SECONDS:
        remedy = "Synchronize both with a time server. Leases and timers use only the database's clock; logs differ."
        return Finding("clock", "warn", what, remedy)
    return Finding("clock", "ok", what)
