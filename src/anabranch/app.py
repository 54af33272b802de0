"""The one place where the parts are put together."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from anabranch.adapters.objects.tiers import Place, open_storage
from anabranch.adapters.postgres.handler_connections import HANDLER_CONNECTIONS, HandlerConnections
from anabranch.adapters.postgres.store.inspection import CONNECTIONS as INSPECTION
from anabranch.adapters.postgres.store.inspection import Inspection
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.adapters.postgres.store.records import PostgresRecords
from anabranch.adapters.postgres.store.storage_marks import PostgresMarks
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.adapters.postgres.store.vitals import PostgresSigns
from anabranch.audit import Leftovers
from anabranch.canonical import Json
from anabranch.controls import Controls
from anabranch.engine.advancing import Advancer
from anabranch.engine.model import SessionId, SessionKind
from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.plugin import Registry, load_plugins
from anabranch.engine.ports import Refused, Submitted, TakenRight
from anabranch.engine.retention import Keep, Purge
from anabranch.engine.session import LiveSession, Part, keep_session
from anabranch.engine.submission import Order
from anabranch.engine.submitter import Submitter
from anabranch.engine.worker.children import Children
from anabranch.engine.worker.resources import HandlerResources
from anabranch.engine.worker.scratch import clear_scratch, make_scratch
from anabranch.engine.worker.worker import Worker, WorkerOptions
from anabranch.errors import AnabranchError, Conflict, Denied, NotFound, Unavailable
from anabranch.settings import AREAS, Settings, forget, plugin_settings
from anabranch.storage.marks import join_storage
from anabranch.storage.results import Results
from anabranch.storage.tiers import Storage
from anabranch.storage.uploads import Uploads
from anabranch.workflows.mistakes import nearest
from anabranch.workflows.stages import Declaration

__all__ = [
    "CATALOG",
    "Gateway",
    "Reloaded",
    "connections_needed",
    "equip",
    "join",
    "load_registry",
    "open_marks",
    "open_purge",
    "open_results",
    "open_tiers",
    "run_orchestrator",
    "run_worker",
]

log = structlog.get_logger()
GRACE = timedelta(seconds=30)
HEART = 1
STORE = 2
DUTIES = 1  # the orchestrator sweeps and purges beside its other work
READS = 4
SIGNS = 1
CATALOG = 3


def connections_needed(workers: int) -> int:
    """How many connections an API, an orchestrator and this many workers take at most (E19)."""
    api = READS + SIGNS + CATALOG + STORE + HEART + INSPECTION
    return api + DUTIES + (STORE + HEART) * (1 + workers) + HANDLER_CONNECTIONS * workers


def load_registry(settings: Settings) -> Registry:
    """What the installed and the configured plugins bring."""
    return load_plugins(settings.plugins)


def open_results(settings: Settings) -> Results:
    """Where large results are put aside."""
    home, inline = settings.home, settings.inline_result_bytes
    return Results(open_tiers(settings).work, inline=inline, spool=home / "incoming")


def open_tiers(settings: Settings) -> Storage:
    """The tiers and the work area that the settings name, without asking them anything."""
    return open_storage(*_places(settings))


def open_marks(settings: Settings, database_url: str) -> tuple[Storage, dict[str, str], PostgresMarks]:
    """What shows whether the areas are those of the database's other processes: they, their URLs, and the marks."""
    return open_tiers(settings), {area: getattr(settings.storage, area) for area in AREAS}, PostgresMarks(database_url)


def join(settings: Settings, database_url: str) -> bool:
    """See that this process uses the storage of the database's other processes: it must not run otherwise.

    False while the storage or the database does not answer, which may do so later; all else is raised.
    """
    try:
        join_storage(*open_marks(settings, database_url))
    except AnabranchError as error:
        told = {"code": error.code, "reason": error.message, "remedy": error.remedy}
        if isinstance(error, Denied) or not isinstance(error, Unavailable | Refused):
            log.error("storage.refused", **told)
            raise
        log.warning("storage.waiting", **told)
        return False
    return True


async def _join_patiently(settings: Settings, database_url: str) -> None:
    """The same, however long they don't answer."""
    while not await asyncio.to_thread(join, settings, database_url):  # noqa: ASYNC110  # nobody would ring
        await asyncio.sleep(1)


@asynccontextmanager
async def _joined(settings: Settings, database_url: str, on_refused: Callable[[], None]) -> AsyncIterator[None]:
    """The same for what must run while the storage does not answer: `on_refused` is called if it turns out later."""
    watching: asyncio.Task[None] | None = None
    if not await asyncio.to_thread(join, settings, database_url):
        watching = asyncio.create_task(_join_patiently(settings, database_url))
        watching.add_done_callback(lambda task: None if task.cancelled() or not task.exception() else on_refused())
    try:
        yield
    finally:
        if watching:
            watching.cancel()


def equip(settings: Settings, database_url: str, scratch: Path) -> HandlerResources:
    """What handlers are given; scratch is the worker's own."""
    return HandlerResources(
        partial(open_storage, *_places(settings)),
        HandlerConnections(database_url, scratch / "bursts"),
        settings.home / "cache",
        settings.source_cache_mb * 2**20,
        plugin_settings(settings),
    )


def _places(settings: Settings) -> tuple[tuple[Place, ...], Path]:
    storage, home = settings.storage, settings.home
    places = tuple(
        Place(area, url, storage.options_of(area), ours=url == (home / area).as_uri())
        for area in AREAS
        for url in [getattr(storage, area)]
    )
    return places, home / "incoming"


def keep(settings: Settings) -> Keep:
    """How long things are kept."""
    jobs = timedelta(days=settings.retention_days) if settings.retention_days else None
    return Keep(jobs, timedelta(days=settings.tombstone_days), timedelta(days=settings.session_days))


def purge(settings: Settings, database_url: str, store: PostgresStore, jobs: timedelta | None) -> Purge:
    """What removes jobs that ended so long ago, with all that they left."""
    leftovers = Leftovers(partial(open_tiers, settings), partial(PostgresRecords, database_url))
    return Purge(store.retention(), open_results(settings), replace(keep(settings), jobs=jobs), leftovers.remove)


@asynccontextmanager
async def open_purge(settings: Settings, database_url: str, jobs: timedelta) -> AsyncIterator[Purge]:
    """A purge of the jobs that ended so long ago, by hand."""
    store = _store(settings, database_url, "anabranch purge")
    await store.open()
    try:
        yield purge(settings, database_url, store, jobs)
    finally:
        await store.close()


def run_worker(settings: Settings, database_url: str) -> None:
    """Run a worker in this process until SIGTERM."""
    asyncio.run(_run_worker(settings, database_url))


def run_orchestrator(settings: Settings, database_url: str) -> None:
    """Run an orchestrator in this process until SIGTERM."""
    asyncio.run(_run_orchestrator(settings, database_url))


@dataclass(frozen=True)
class Reloaded:
    """What became of the workflows when their files were read again; the kept are served though they are gone."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    refused: Mapping[str, str]


class Gateway:
    """What the API serves from: it submits and controls under a session of its own, and reads."""

    def __init__(self, settings: Settings, database_url: str, on_refused: Callable[[], None] = lambda: None) -> None:
        """Nothing is opened yet; `on_refused` is called where the storage is not that of the database's processes."""
        self.settings = settings
        self._url = database_url
        self._on_refused = on_refused
        self.registry = load_registry(settings)
        self._results = open_results(settings)
        self.storage = open_tiers(settings)
        self.uploads = Uploads(self.storage.tier("bronze"), settings.max_upload_bytes)
        self.reads = PostgresReads(database_url, self._results, name="anabranch api reads", connections=READS)
        self.signs = PostgresSigns(database_url, name="anabranch api signs")
        self._store = _store(settings, database_url, "anabranch api", checked=True)
        self.controls = Controls(self._store, self.reads, self._session_id, self._start, self._later)
        self.keys = self._store.keys()
        self.inspection = Inspection(database_url)
        self._stop = asyncio.Event()
        self._live: LiveSession | None = None
        self._advancer: Advancer | None = None
        self._submitter: Submitter | None = None
        self._has_session = asyncio.Event()
        self._session: asyncio.Task[None] | None = None
        self._refusal: AnabranchError | None = None
        self._advances: set[asyncio.Task[None]] = set()
        self._reloading = asyncio.Lock()

    async def open(self) -> None:
        """Open the pools and begin a session; the database need not answer yet."""
        await asyncio.to_thread(self.storage.clear)
        await self._store.open()
        await self.reads.open()
        await self.signs.open()
        self._session = asyncio.create_task(self._keep_session())

    async def _keep_session(self) -> None:
        lease = timedelta(seconds=self.settings.lease_seconds)
        try:
            async with _joined(self.settings, self._url, self._on_refused):
                await keep_session(self._store, self, self._stop, kind=SessionKind.API, lease=lease)
        except (Conflict, Denied) as error:  # it was logged
            self._refusal = error
            self._on_refused()

    async def ready(self) -> None:
        """Wait until there is a session to submit under; raises what keeps it from ever having one."""
        waiting = asyncio.create_task(self._has_session.wait())
        keeping = [self._session] if self._session else []
        await asyncio.wait([waiting, *keeping], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._refusal and not self.has_session:
            raise self._refusal

    def require_session(self) -> None:
        """Unavailable while there is no session to submit under."""
        self._submitting()

    async def close(self) -> None:
        """End the session and close the pools."""
        self._stop.set()
        if self._live:
            self._live.ring()
        if self._session:
            await self._session
        await self._store.close()
        await self.reads.close()
        await self.signs.close()

    @property
    def has_session(self) -> bool:
        """Whether there is a session to submit under."""
        return self._has_session.is_set()

    async def serve(self, live: LiveSession, stop: asyncio.Event) -> None:
        """Lend the session to submissions while it lives."""
        self._live = live
        self._advancer = Advancer(self._store, live.session, self._results)
        live.rights = self._advancer.in_hand
        keep = timedelta(hours=self.settings.idempotency_hours)
        self._submitter = Submitter(self._store, live.session, self.declaration, keep)
        self._has_session.set()
        try:
            while not stop.is_set():
                live.check()
                await live.wait(timedelta(seconds=1))
        finally:
            self._live = self._submitter = None
            self._has_session.clear()

    def declaration(self, workflow_id: str) -> Declaration:
        """The workflow of this id; NotFound names the nearest and all that are known."""
        try:
            return self.registry.declaration(workflow_id)
        except NotFound as error:
            hint = nearest(workflow_id, list(self.registry.declarations))
            raise NotFound(error.code, error.message, remedy=f"{hint} {error.remedy}".strip()) from error

    async def reload(self) -> Reloaded:
        """Read the workflow files again, and serve what they say; Python code stays as it was when the process began.

        Jobs in flight keep their definition (E16). While a file is refused nothing is removed, for what is gone may
        have been in it: a mistake in a file takes no workflow away.
        """
        async with self._reloading:
            found = await asyncio.to_thread(self.registry.reread)
            reloaded = _compare(self.registry, found)
            self.registry = found
        log.info("workflows.reloaded", added=reloaded.added, changed=reloaded.changed, removed=reloaded.removed)
        return reloaded

    async def submit(
        self,
        workflow_id: str,
        parameters: Mapping[str, Json],
        *,
        scope: str,
        by: str,
        correlation_id: str,
        priority: int | None = None,
        rerun: bool = False,
        key: str | None = None,
    ) -> Submitted:
        """Accept a job. The same workflow and parameters are the same job; the same key is the same answer (E15)."""
        order = Order(workflow_id, parameters, scope, correlation_id, priority, rerun, key, by)
        submitted = await self._submitting().submit(order)
        self._start(submitted.rights)
        return submitted

    async def submit_batch(self, orders: Sequence[Order]) -> list[Submitted | AnabranchError]:
        """Accept many jobs in one commit; what is wrong with one hurts no other."""
        answers = await self._submitting().submit_batch(orders)
        self._start([right for answer in answers if isinstance(answer, Submitted) for right in answer.rights])
        return answers

    def _session_id(self) -> SessionId:
        if self._live is None:
            raise Unavailable("api.starting", "the API has no session with the database yet", remedy="Try again.")
        return self._live.session

    def _submitting(self) -> Submitter:
        if self._submitter is None:
            raise Unavailable("api.starting", "the API has no session with the database yet", remedy="Try again.")
        return self._submitter

    def _start(self, rights: Sequence[TakenRight]) -> None:
        if not rights:
            return
        self._later(self._advance(rights))

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._advances.add(task)
        task.add_done_callback(self._advances.discard)

    async def _advance(self, rights: Sequence[TakenRight]) -> None:
        try:
            if self._advancer:
                await self._advancer.advance_patiently(rights)
        except (AnabranchError, OSError) as error:  # an orchestrator takes the right when its lease ends
            log.warning("advance.interrupted", reason=str(error))


def _compare(old: Registry, new: Registry) -> Reloaded:
    before = {name: declared.workflow.hash for name, declared in old.declarations.items()}
    now = {name: declared.workflow.hash for name, declared in new.declarations.items()}
    return Reloaded(
        added=tuple(sorted(now.keys() - before)),
        changed=tuple(sorted(name for name in now.keys() & before if now[name] != before[name])),
        removed=tuple(sorted(before.keys() - now)),
        kept=tuple(sorted(new.kept)),
        refused=new.refused,
    )


def _store(
    settings: Settings, database_url: str, name: str, *, connections: int = STORE, checked: bool = False
) -> PostgresStore:
    stack = settings.stack_id or ""
    return PostgresStore(database_url, name=name, stack=stack, connections=connections, checked=checked)


def _clear_storage(resources: HandlerResources) -> None:
    """Remove what workers of this machine had begun that were killed; tiers that can't be opened are told at once."""
    resources.storage.clear()
    resources.sources.clear()


async def _run_worker(settings: Settings, database_url: str) -> None:
    registry = load_registry(settings)
    # Handlers are others' code, and what they print is kept (S5): what they may use of these, they have by resources.
    forget("database_url", "api_key", "storage", "storage__options")
    await _join_patiently(settings, database_url)
    clear_scratch(settings.home / "scratch")
    scratch = make_scratch(settings.home / "scratch")
    resources = equip(settings, database_url, scratch)
    _clear_storage(resources)
    memory = settings.child_memory_mb * 2**20
    children = Children(settings.slots, settings.plugins, memory=memory, resources=resources)
    await children.warm()
    store = _store(settings, database_url, "anabranch worker")
    queues = registry.serve(settings.queues)
    options = WorkerOptions(queues, settings.slots, GRACE, scratch)
    worker = Worker(store, registry, children, open_results(settings), options)
    os.register_at_fork(after_in_child=_end_copy)
    try:
        await _serve(store, worker, settings, kind=SessionKind.WORKER, queues=queues, handlers=registry.handlers)
    finally:
        children.close()
        shutil.rmtree(scratch, ignore_errors=True)
    if worker.stuck:  # a thread or an async handler that hears nothing would keep the process from ending
        os._exit(os.EX_SOFTWARE)


async def _run_orchestrator(settings: Settings, database_url: str) -> None:
    store = _store(settings, database_url, "anabranch orchestrator", connections=STORE + DUTIES)
    purging = purge(settings, database_url, store, keep(settings).jobs)
    part = Orchestrator(store, open_results(settings), purging)
    async with _joined(settings, database_url, _give_up):
        await _serve(store, part, settings, kind=SessionKind.ORCHESTRATOR)


async def _serve(
    store: PostgresStore,
    part: Part,
    settings: Settings,
    *,
    kind: SessionKind,
    queues: Sequence[str] = (),
    handlers: Collection[str] = (),
) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await store.open()
    try:
        lease = timedelta(seconds=settings.lease_seconds)
        await keep_session(
            store, part, stop, kind=kind, lease=lease, queues=queues, handlers=handlers, on_stuck=_give_up,
            slots=settings.slots if kind is SessionKind.WORKER else 0,
        )  # fmt: skip
    finally:
        await store.close()


def _end_copy() -> None:
    """End what a handler forked from the worker itself: a copy would go on with the worker's connections."""
    os._exit(os.EX_SOFTWARE)


def _give_up() -> None:
    """End a process that can't go on: its supervisor starts another. What blocked its loop runs alone next time."""
    os._exit(os.EX_SOFTWARE)
