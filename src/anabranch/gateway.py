"""What the API serves from."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta

import structlog

from anabranch.adapters.postgres.store.inspection import Inspection
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.adapters.postgres.store.vitals import PostgresVitals
from anabranch.app import READ_CONNECTIONS, joined, load_registry, open_results, open_store, open_tiers, open_webhooks
from anabranch.contract.workflows import Refusal, Reloaded
from anabranch.engine.advancing.advancer import Advancer
from anabranch.engine.model import SessionId, SessionKind
from anabranch.engine.ports import Submitted, TakenRight
from anabranch.engine.registry import Registry
from anabranch.engine.sessions.keep_session import keep_session
from anabranch.engine.sessions.live_session import LiveSession
from anabranch.engine.submitting.submission import Order
from anabranch.engine.submitting.submitter import Submitter
from anabranch.errors import AnabranchError, Conflict, Denied, Unavailable
from anabranch.item_actions import ItemActions
from anabranch.job_control import Controls
from anabranch.platform.schedules.schedules import Schedules
from anabranch.releases.actions import ReleaseActions
from anabranch.releases.drafts import Drafts
from anabranch.settings import Settings
from anabranch.storage.uploads import UploadParts, Uploads
from anabranch.workflows.stages import Declaration

__all__ = ["Gateway"]

log = structlog.get_logger()
FOLLOW_PAUSE_SECONDS = 1.0


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
        self.upload_parts = UploadParts(self.storage.work, self.uploads)
        self.reads = PostgresReads(
            database_url, self._results, name="anabranch api reads", connections=READ_CONNECTIONS
        )
        self.vitals = PostgresVitals(database_url, name="anabranch api vitals")
        self._store = open_store(settings, database_url, "anabranch api", SessionKind.API, checked=True)
        self.controls = Controls(self._store, self.reads, self._session_id, self._start, self._later)
        self.publishing = ItemActions(
            database_url, self._store, self.reads, self.storage, timedelta(days=settings.restore_window_days)
        )
        self.webhooks = open_webhooks(settings, self._store)
        self.releases = ReleaseActions(
            self._store, self.publishing, self.webhooks, self.declaration, self._session_id, self._start
        )
        self.schedules = Schedules(self._store.schedules(), self.declaration, self._session_id, self._start)
        self.drafts = Drafts(self._store, self.reads, self._results)
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
        self.validating = asyncio.Lock()

    async def open(self) -> None:
        """Open the pools and begin a session; the database need not answer yet."""
        await asyncio.to_thread(self.storage.clear)
        await self._store.open()
        await self.reads.open()
        await self.vitals.open()
        self._session = asyncio.create_task(self._keep_session())

    async def _keep_session(self) -> None:
        lease = timedelta(seconds=self.settings.lease_seconds)
        try:
            async with joined(self.settings, self._url, SessionKind.API, self._on_refused):
                await keep_session(self._store, self, self._stop, kind=SessionKind.API, lease=lease)
        except (Conflict, Denied) as error:  # it was logged
            self._refusal = error
            self._on_refused()

    async def ready(self) -> None:
        """Wait until there is a session to submit under; raises the error that prevents one."""
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
        try:
            if self._session:
                await self._session
        finally:
            await self._store.close()
            await self.reads.close()
            await self.vitals.close()

    @property
    def has_session(self) -> bool:
        """Whether there is a session to submit under."""
        return self._has_session.is_set()

    async def serve(self, live: LiveSession, stop: asyncio.Event) -> None:
        """Lend the session to submissions while it lives."""
        self._live = live
        self._advancer = Advancer(self._store, live.session, self._results, live.rights)
        keep = timedelta(hours=self.settings.idempotency_hours)
        self._submitter = Submitter(self._store, live.session, self.declaration, keep)
        self._has_session.set()
        following = asyncio.create_task(self._follow_workflows_patiently())
        try:
            while not stop.is_set():
                await live.wait(timedelta(seconds=1))
        finally:
            following.cancel()
            self._live = self._submitter = None
            self._has_session.clear()

    def declaration(self, workflow_id: str) -> Declaration:
        """The workflow with this id."""
        return self.registry.declaration(workflow_id)

    async def reload(self) -> Reloaded:
        """Read the workflow files again, and serve what they say; Python code stays as it was when the process began.

        Jobs in flight keep their definition (E16). While a file is refused nothing is removed, for what is gone may
        have been in it: a mistake in a file takes no workflow away.
        """
        async with self._reloading:
            found = await asyncio.to_thread(self.registry.reread)
            reloaded = _compare(self.registry, found)
            self.registry = found
        await self._follow_workflows()
        log.info("workflows.reloaded", added=reloaded.added, changed=reloaded.changed, removed=reloaded.removed)
        return reloaded

    async def _follow_workflows(self) -> None:
        """Take over the schedules of the workflows; while one is refused, none is retired."""
        declarations = list(self.registry.declarations.values())
        await self.schedules.follow_workflows(declarations, complete=not self.registry.refused)

    async def _follow_workflows_patiently(self) -> None:
        """The same when the process begins, retried until the database answers."""
        while True:
            try:
                await self._follow_workflows()
            except AnabranchError as error:
                log.warning("schedules.waiting", reason=error.message)
                await asyncio.sleep(FOLLOW_PAUSE_SECONDS)
            except Exception:  # jobs can be submitted all the same
                log.exception("schedules.not_followed")
                return
            else:
                return

    async def submit(self, order: Order) -> Submitted:
        """Accept a job. The same workflow and parameters are the same job; the same key is the same answer (E15)."""
        await self.releases.platforms.require_active(order.scope)
        submitted = await self._submitting().submit(order)
        self._start(submitted.rights)
        return submitted

    async def submit_batch(self, orders: Sequence[Order]) -> list[Submitted | AnabranchError]:
        """Accept many jobs in one commit; what is wrong with one hurts no other."""
        for scope in {order.scope for order in orders}:
            await self.releases.platforms.require_active(scope)
        answers = await self._submitting().submit_batch(orders)
        self._start([right for answer in answers if isinstance(answer, Submitted) for right in answer.rights])
        return answers

    async def find_repeats(self, orders: Sequence[Order]) -> list[bool]:
        """Whether each order would be answered without a new job."""
        return await self._submitting().find_repeats(orders)

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
        refusals=tuple(Refusal(name, reason) for name, reason in new.refused.items()),
    )
