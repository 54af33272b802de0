"""The one place where the parts are put together."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from anabranch.adapters.objects.tiers import Place, open_storage
from anabranch.adapters.postgres.handler_connections import HANDLER_CONNECTIONS, HandlerConnections
from anabranch.adapters.postgres.schema.support import require_supported
from anabranch.adapters.postgres.server.url import Role, ServerUrl
from anabranch.adapters.postgres.store.budget import require_room
from anabranch.adapters.postgres.store.inspection import CONNECTIONS as INSPECTION
from anabranch.adapters.postgres.store.objects.audited import PostgresRecords
from anabranch.adapters.postgres.store.objects.marks import PostgresMarks
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.embedded.home import Home
from anabranch.engine.model import LimitKind, SessionKind
from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.ports import NO_TRACER, Refused, Tracer
from anabranch.engine.registry import Registry, load_plugins
from anabranch.engine.sessions.keep_session import Part, keep_session
from anabranch.engine.sweeping.retention import Purge, RetentionPeriods
from anabranch.engine.worker.dispatcher import WorkerOptions
from anabranch.engine.worker.handler_resources import HandlerResources
from anabranch.engine.worker.processes.pool import HandlerProcesses
from anabranch.engine.worker.scratch import clear_scratch, make_scratch
from anabranch.engine.worker.worker import Worker
from anabranch.errors import AnabranchError, Denied, Unavailable
from anabranch.item_actions import CONNECTIONS as PUBLISHING
from anabranch.platform.notifications.deliverer import Deliverer, DeliveryOptions
from anabranch.platform.notifications.webhooks import Webhooks
from anabranch.plugins.vector.user_tables.open import open_geo_library
from anabranch.sealing import Sealer
from anabranch.settings import (
    DATABASE_SETTINGS,
    Settings,
    forget,
    forget_telemetry_headers,
    name_telemetry,
    plugin_settings,
)
from anabranch.storage.audit import PurgedObjects
from anabranch.storage.large_results import Results
from anabranch.storage.locations import AREAS
from anabranch.storage.marks import join_storage
from anabranch.storage.tiers import Storage
from anabranch.workflows.work import Breaker

__all__ = [
    "CATALOG_CONNECTIONS",
    "FEATURES_CONNECTIONS",
    "READ_CONNECTIONS",
    "connections_needed",
    "deliverer",
    "handler_resources",
    "join",
    "joined",
    "load_registry",
    "open_marks",
    "open_purge",
    "open_results",
    "open_store",
    "open_tiers",
    "open_tracer",
    "open_webhooks",
    "run_orchestrator",
    "run_worker",
]

log = structlog.get_logger()
STOP_GRACE = timedelta(seconds=30)
HEARTBEAT_CONNECTIONS = 1
STORE_CONNECTIONS = 2
DUTY_CONNECTIONS = 1  # the orchestrator sweeps and purges beside its other work
DELIVERY_CONNECTIONS = 1
DOORBELL_CONNECTIONS = 2
READ_CONNECTIONS = 4
VITALS_CONNECTIONS = 1
CATALOG_CONNECTIONS = 3
FEATURES_CONNECTIONS = 3


def connections_of(kind: SessionKind, url: str = "") -> int:
    """How many connections of the server a process takes at most, beside those that it has through a pooler (E19)."""
    server = ServerUrl.of(url)

    def own(role: Role, connections: int) -> int:
        return 0 if server.choose(role, session=False).pooled else connections

    session = HEARTBEAT_CONNECTIONS + own(Role.APP, STORE_CONNECTIONS)
    match kind:
        case SessionKind.WORKER:
            return session + own(Role.HANDLER, HANDLER_CONNECTIONS)
        case SessionKind.ORCHESTRATOR:
            return session + DUTY_CONNECTIONS + DOORBELL_CONNECTIONS + own(Role.APP, DELIVERY_CONNECTIONS)
        case SessionKind.API:
            reads = own(Role.READER, READ_CONNECTIONS + CATALOG_CONNECTIONS + FEATURES_CONNECTIONS)
            return session + reads + own(Role.APP, VITALS_CONNECTIONS) + INSPECTION + PUBLISHING


def connections_needed(workers: int, url: str = "") -> int:
    """How many an API, an orchestrator and this many workers take at most."""
    of = partial(connections_of, url=url)
    return of(SessionKind.API) + of(SessionKind.ORCHESTRATOR) + workers * of(SessionKind.WORKER)


def load_registry(settings: Settings) -> Registry:
    """What the installed and the configured plugins bring."""
    return load_plugins(settings.plugins)


def open_results(settings: Settings) -> Results:
    """The store of large results."""
    home, inline = settings.home, settings.inline_result_bytes
    return Results(open_tiers(settings).work, inline=inline, spool=home / "incoming")


def open_tiers(settings: Settings) -> Storage:
    """The tiers and the work area that the settings name, without asking them anything."""
    return open_storage(*_places(settings))


def open_marks(settings: Settings, database_url: str) -> tuple[Storage, dict[str, str], PostgresMarks]:
    """What shows whether the areas are those of the database's other processes: they, their URLs, and the marks."""
    return open_tiers(settings), {area: getattr(settings.storage, area) for area in AREAS}, PostgresMarks(database_url)


def join(settings: Settings, database_url: str, kind: SessionKind | None = None) -> bool:
    """See that this process can use the database, and uses the storage of its other processes: else it must not run.

    False while the storage or the database does not answer, or has no connections left for one more worker, which may
    change; all else is raised.
    """
    try:
        require_supported(database_url)
        join_storage(*open_marks(settings, database_url))
        if kind:
            require_room(database_url, connections_of(kind, database_url), waits=kind is SessionKind.WORKER)
    except AnabranchError as error:
        reason = {"code": error.code, "reason": error.message, "remedy": error.remedy}
        if isinstance(error, Denied) or not isinstance(error, Unavailable | Refused):
            log.error("start.refused", **reason)
            raise
        log.warning("start.waiting", **reason)
        return False
    return True


async def _join_patiently(settings: Settings, database_url: str, kind: SessionKind | None = None) -> None:
    """The same, retried until they answer."""
    while not await asyncio.to_thread(join, settings, database_url, kind):  # noqa: ASYNC110  # nobody would ring
        await asyncio.sleep(1)


@asynccontextmanager
async def joined(
    settings: Settings, database_url: str, kind: SessionKind, on_refused: Callable[[], None]
) -> AsyncIterator[None]:
    """The same for what must run while the storage does not answer: `on_refused` is called if it turns out later."""
    watching: asyncio.Task[None] | None = None
    if not await asyncio.to_thread(join, settings, database_url, kind):
        watching = asyncio.create_task(_join_patiently(settings, database_url))
        watching.add_done_callback(lambda task: None if task.cancelled() or not task.exception() else on_refused())
    try:
        yield
    finally:
        if watching:
            watching.cancel()


def handler_resources(settings: Settings, database_url: str, scratch: Path) -> HandlerResources:
    """The resources of handlers; `scratch` is the worker's own folder."""
    return HandlerResources(
        partial(open_storage, *_places(settings)),
        HandlerConnections(database_url, scratch / "bursts"),
        settings.home / "cache",
        settings.source_cache_mb * 2**20,
        plugin_settings(settings),
        settings.signing_key_file,
        open_geo_library,
        settings.public_url,
    )


def _places(settings: Settings) -> tuple[tuple[Place, ...], Path]:
    storage, home = settings.storage, settings.home
    places = tuple(
        Place(area, url, storage.options_of(area), ours=url == (home / area).as_uri())
        for area in AREAS
        for url in [getattr(storage, area)]
    )
    return places, home / "incoming"


def retention_periods(settings: Settings) -> RetentionPeriods:
    """The retention periods of the settings."""
    jobs = timedelta(days=settings.retention_days) if settings.retention_days else None
    others = ("tombstone_days", "session_days", "revision_retention_days", "restore_window_days")
    return RetentionPeriods(jobs, *(timedelta(days=getattr(settings, name)) for name in others))


def purge(settings: Settings, database_url: str, store: PostgresStore, jobs: timedelta | None) -> Purge:
    """A purge of jobs that ended this long ago, with their rows and objects."""
    objects = PurgedObjects(partial(open_tiers, settings), lambda: closing(PostgresRecords(database_url)))
    return Purge(
        store.retention(),
        open_results(settings),
        replace(retention_periods(settings), jobs=jobs),
        objects.remove,
        lambda addresses: open_tiers(settings).delete(addresses),
    )


@asynccontextmanager
async def open_purge(settings: Settings, database_url: str, jobs: timedelta) -> AsyncIterator[Purge]:
    """A purge of jobs that ended this long ago, for the command line."""
    store = open_store(settings, database_url, "anabranch purge")
    await store.open()
    try:
        yield purge(settings, database_url, store, jobs)
    finally:
        await store.close()


def open_tracer(role: str) -> Tracer:
    """What shows the work of a process in this role to a tracing system; nothing, unless the environment names one."""
    signals = name_telemetry()
    if not signals:
        return NO_TRACER
    try:
        from anabranch.adapters.otel import OtelTracer
    except ModuleNotFoundError as error:
        log.warning("telemetry.unavailable", missing=error.name, remedy="Install the extra `otel`: anabranch[otel].")
        return NO_TRACER
    return OtelTracer(role, spans="traces" in signals, metrics="metrics" in signals)


def run_worker(settings: Settings, database_url: str, longest_idle: timedelta | None = None) -> None:
    """Run a worker in this process until SIGTERM, or until it has had nothing to do for so long."""
    asyncio.run(_run_worker(settings, database_url, longest_idle))


def run_orchestrator(settings: Settings, database_url: str) -> None:
    """Run an orchestrator in this process until SIGTERM."""
    asyncio.run(_run_orchestrator(settings, database_url))


def open_store(
    settings: Settings,
    database_url: str,
    name: str,
    kind: SessionKind | None = None,
    *,
    connections: int = STORE_CONNECTIONS,
    checked: bool = False,
) -> PostgresStore:
    """The engine's store under a name that the database shows; nothing is opened yet."""
    stack = settings.stack_id or ""
    declared = connections_of(kind, database_url) if kind else 0
    return PostgresStore(
        database_url, name=name, stack=stack, connections=connections, checked=checked, declared=declared
    )


def _clear_storage(resources: HandlerResources) -> None:
    """Remove what killed workers of this machine had begun; tiers that can't be opened raise at once."""
    resources.storage.clear()
    resources.sources.clear()


async def _run_worker(settings: Settings, database_url: str, longest_idle: timedelta | None) -> None:
    tracer = open_tracer("worker")
    registry = load_registry(settings)
    # Handlers are others' code, and what they print is kept (S5): what they may use of these, they have by resources.
    forget(*DATABASE_SETTINGS, "api_key", "storage", "storage__options")
    forget_telemetry_headers()
    await _join_patiently(settings, database_url, SessionKind.WORKER)
    clear_scratch(settings.home / "scratch")
    scratch = make_scratch(settings.home / "scratch")
    resources = handler_resources(settings, database_url, scratch)
    _clear_storage(resources)
    memory = settings.child_memory_mb * 2**20
    children = HandlerProcesses(settings.slots, settings.plugins, memory=memory, resources=resources)
    await children.warm()
    store = open_store(settings, database_url, "anabranch worker", SessionKind.WORKER)
    queues = registry.serve(settings.queues)
    breakers = {
        **{(LimitKind.HANDLER, name): breaker for name, breaker in registry.breakers.items()},
        **{(LimitKind.QUEUE, name): breaker for name, breaker in settings.queue_breakers.items() if name in queues},
    }
    options = WorkerOptions(queues, settings.slots, STOP_GRACE, scratch, longest_idle)
    worker = Worker(store, registry, children, open_results(settings), options, tracer)
    os.register_at_fork(after_in_child=_end_copy)
    try:
        await _serve(
            store,
            worker,
            settings,
            kind=SessionKind.WORKER,
            queues=queues,
            handlers=registry.versions,
            breakers=breakers,
        )
    finally:
        children.close()
        shutil.rmtree(scratch, ignore_errors=True)
        tracer.close()
    if worker.stuck:  # a thread or an async handler that hears nothing would keep the process from ending
        os._exit(os.EX_SOFTWARE)


async def _run_orchestrator(settings: Settings, database_url: str) -> None:
    store = open_store(
        settings,
        database_url,
        "anabranch orchestrator",
        SessionKind.ORCHESTRATOR,
        connections=STORE_CONNECTIONS + DUTY_CONNECTIONS + DELIVERY_CONNECTIONS,
    )
    tracer = open_tracer("orchestrator")
    purging = purge(settings, database_url, store, retention_periods(settings).jobs)
    duties = [deliverer(settings, store, tracer).run]
    part = Orchestrator(store, open_results(settings), purging, open_tiers(settings), duties=duties)
    try:
        async with joined(settings, database_url, SessionKind.ORCHESTRATOR, _give_up):
            await _serve(store, part, settings, kind=SessionKind.ORCHESTRATOR)
    finally:
        tracer.close()


def deliverer(settings: Settings, store: PostgresStore, tracer: Tracer = NO_TRACER) -> Deliverer:
    """What delivers webhooks."""
    options = DeliveryOptions(
        partial(_find_base_url, settings),
        settings.callback_hosts,
        timedelta(days=settings.webhook_log_days),
        tracer,
    )
    return Deliverer(store.outbox(), Sealer.open(settings.webhook_key_file), options)


def _find_base_url(settings: Settings) -> str:
    """What links to the API begin with: its public URL, or that of the home's stack, whose port may be any."""
    stack = None if settings.public_url else Home(settings.home).read_stack()
    return settings.public_url or (stack and stack.api_url) or f"http://{settings.host}:{settings.port}"


def open_webhooks(settings: Settings, store: PostgresStore) -> Webhooks:
    """The endpoints of webhooks."""
    return Webhooks(store.webhooks(), settings.webhook_key_file, settings.callback_hosts)


async def _serve(
    store: PostgresStore,
    part: Part,
    settings: Settings,
    *,
    kind: SessionKind,
    queues: Sequence[str] = (),
    handlers: Mapping[str, str] | None = None,
    breakers: Mapping[tuple[LimitKind, str], Breaker] | None = None,
) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await store.open()
    try:
        lease = timedelta(seconds=settings.lease_seconds)
        await keep_session(
            store, part, stop, kind=kind, lease=lease, queues=queues, handlers=handlers, breakers=breakers,
            on_stuck=_give_up, slots=settings.slots if kind is SessionKind.WORKER else 0,
        )  # fmt: skip
    finally:
        await store.close()


def _end_copy() -> None:
    """End what a handler forked from the worker itself: a copy would go on with the worker's connections."""
    os._exit(os.EX_SOFTWARE)


def _give_up() -> None:
    """End a process that can't go on: its supervisor starts another. What blocked its loop runs alone next time."""
    os._exit(os.EX_SOFTWARE)
