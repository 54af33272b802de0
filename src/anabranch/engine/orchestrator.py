"""The orchestrator: takes free advance rights, makes the jobs of schedules, and runs the sweeper and retention."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta

import structlog

from anabranch.engine.advancing.advancer import Advancer, BackgroundAdvances
from anabranch.engine.model import SessionId
from anabranch.engine.ports import SessionGone, Store
from anabranch.engine.sessions.doorbell import Doorbell
from anabranch.engine.sessions.live_session import LiveSession
from anabranch.engine.submitting.schedules.scheduler import Scheduler
from anabranch.engine.submitting.watching.watcher import Watcher
from anabranch.engine.sweeping.retention import Purge, Retention
from anabranch.engine.sweeping.sweeper import SWEEP_INTERVAL, Sweeper
from anabranch.engine.task_parameters import Definitions
from anabranch.errors import AnabranchError
from anabranch.storage.large_results import Results
from anabranch.storage.tiers import Storage

__all__ = ["Orchestrator"]

log = structlog.get_logger()
POLL_INTERVAL = timedelta(seconds=1)
Duty = Callable[[SessionId], Coroutine[None, None, None]]


class Orchestrator:
    """Takes advance rights that no process holds; sweeps, purges and keeps schedules in background tasks."""

    def __init__(
        self,
        store: Store,
        results: Results,
        purge: Purge,
        storage: Storage,
        *,
        sweep_every: timedelta = SWEEP_INTERVAL,
        duties: Sequence[Duty] = (),
    ) -> None:
        """On this store; large results are brought back from where they were put aside, and `storage` has the folders
        that schedules watch.

        Other `duties` run beside its own until they are cancelled.
        """
        self._store = store
        self._results = results
        self._purge = purge
        self._storage = storage
        self._sweep_every = sweep_every
        self._duties = duties

    async def serve(self, live: LiveSession, stop: asyncio.Event) -> None:
        """Run until asked to stop; SessionGone when the session was lost."""
        retention = Retention(self._store.retention(), live.session)
        sweeper = Sweeper(self._store, live.session, every=self._sweep_every)
        advancer = Advancer(self._store, live.session, self._results, live.rights)
        advances = BackgroundAdvances(advancer, asyncio.Event())
        acting = Definitions(self._store), advances, Doorbell(self._store), live.session
        scheduler = Scheduler(self._store.ticks(), *acting)
        watcher = Watcher(self._store.watches(), self._storage, *acting)
        duties = [
            asyncio.create_task(retention.run(self._purge), name="retention"),
            asyncio.create_task(sweeper.run(), name="sweeper"),
            asyncio.create_task(scheduler.run(), name="scheduler"),
            asyncio.create_task(watcher.run(), name="watcher"),
            *(asyncio.create_task(duty(live.session)) for duty in self._duties),
        ]
        try:
            await self._serve(live, advancer, sweeper, stop)
        finally:
            advances.cancel()
            for duty in duties:
                duty.cancel()
            await asyncio.wait(duties)

    async def _serve(self, live: LiveSession, advancer: Advancer, sweeper: Sweeper, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                if not await advancer.take_free(before=sweeper.latest()):
                    await live.wait(POLL_INTERVAL)
            except SessionGone:
                raise
            except (AnabranchError, OSError) as error:
                log.warning("orchestrator.interrupted", reason=str(error))
                await live.wait(POLL_INTERVAL)
