"""Reads the vital signs of the stack, for health and metrics."""

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from anabranch.adapters.postgres.schema.pgstac import Catalog
from anabranch.api.health.diagnosis import (
    Onsets,
    Part,
    diagnose,
    diagnose_catalog,
    diagnose_disk,
    diagnose_issuer,
    diagnose_jobs,
    diagnose_loop,
    diagnose_plugins,
)
from anabranch.api.health.loop_beat import LoopBeat
from anabranch.api.streaming.shared_query import SharedQuery
from anabranch.engine.read_models import Gauges, StuckJobs, Vitals
from anabranch.errors import AnabranchError
from anabranch.gateway import Gateway
from anabranch.oidc.tokens import Tokens

__all__ = ["Monitor"]

# Together they keep every answer under two seconds, whatever hangs.
QUERY_TIMEOUT_SECONDS = 1.2
STUCK_FRESH_SECONDS = 15.0
GAUGES_FRESH_SECONDS = 2.0
CATALOG_FRESH_SECONDS = 60.0


class Monitor:
    """Reads vital signs of the stack, each within a time limit."""

    def __init__(self, gateway: Gateway, tick: LoopBeat, tokens: Tokens | None = None) -> None:
        self._gateway = gateway
        self._tick = tick
        self._tokens = tokens
        self._onsets = Onsets()
        self._looked_at = 0
        self._stuck: dict[int, tuple[str, ...]] = {}
        self._measuring: asyncio.Future[dict[str, int]] | None = None
        self._vitals = SharedQuery(self._take_vitals, "the database", patience=QUERY_TIMEOUT_SECONDS)
        self._pings = SharedQuery(self._gateway.vitals.ping, "the database", patience=QUERY_TIMEOUT_SECONDS)
        self._jobs = SharedQuery(
            self._look_for_stuck, "the database", patience=QUERY_TIMEOUT_SECONDS, fresh=STUCK_FRESH_SECONDS
        )
        self._gauges = SharedQuery(
            self._take_gauges, "the database", patience=QUERY_TIMEOUT_SECONDS, fresh=GAUGES_FRESH_SECONDS
        )
        self._catalog = SharedQuery(
            self._gateway.vitals.catalog, "the database", patience=QUERY_TIMEOUT_SECONDS, fresh=CATALOG_FRESH_SECONDS
        )
        self._disks = SharedQuery(self._measure_disks, "the disk", patience=QUERY_TIMEOUT_SECONDS)

    async def ping(self) -> None:
        """Check that the database answers; Unavailable if it does not in time."""
        await self._pings.get()

    async def vitals(self) -> Vitals:
        """The vital signs, or why they can't be read."""
        vitals, _ = await self._vitals.get()
        return vitals

    async def gauges(self) -> Gauges | AnabranchError:
        """Gauges of the database, cached for a while; or why they can't be read."""
        return await self._gauges.try_get()

    async def disks(self) -> dict[str, int]:
        """The free bytes of the home and its scratch folder, if they can be read in time."""
        disks = await self._disks.try_get()
        return {} if isinstance(disks, AnabranchError) else disks

    async def examine(self) -> tuple[list[Part], dict[str, int]]:
        """Every part with its status, and the ready tasks by queue."""
        vitals, stuck, catalog, disks = await asyncio.gather(
            self._vitals.try_get(), self._jobs.try_get(), self._catalog.try_get(), self._disks.try_get()
        )
        parts = self._onsets.date(self._parts(vitals, stuck, catalog, disks))
        return parts, {} if isinstance(vitals, AnabranchError) else vitals[0].queues

    def close(self) -> None:
        """Stop watching."""
        for watch in (self._vitals, self._pings, self._jobs, self._gauges, self._catalog, self._disks):
            watch.close()

    def _parts(
        self,
        vitals: tuple[Vitals, float] | AnabranchError,
        stuck: StuckJobs | AnabranchError,
        catalog: Catalog | AnabranchError,
        disks: dict[str, int] | AnabranchError,
    ) -> Iterator[Part]:
        yield diagnose_loop(self._tick.age, has_session=self._gateway.has_session)
        yield from diagnose(vitals, 0.0) if isinstance(vitals, AnabranchError) else diagnose(*vitals)
        yield diagnose_jobs(stuck)
        yield diagnose_plugins(self._gateway.registry.refused)
        if self._tokens and (problem := self._tokens.find_problem()):
            yield diagnose_issuer(problem)
        yield diagnose_catalog(catalog)
        free = {} if isinstance(disks, AnabranchError) else disks
        low = self._gateway.settings.low_disk_mb * 1_000_000
        for name in ("home", "scratch"):
            yield diagnose_disk(f"disk {name}", free.get(name), low)

    async def _take_vitals(self) -> tuple[Vitals, float]:
        began = time.monotonic()
        return await self._gateway.vitals.read_vitals(), time.monotonic() - began

    async def _take_gauges(self) -> Gauges:
        return await self._gateway.vitals.gauges()

    async def _look_for_stuck(self) -> StuckJobs:
        """Check the next open jobs, all of them in turn; a stuck one is remembered until it is checked again."""
        after = self._looked_at
        found = await self._gateway.vitals.stuck_jobs(after)
        elsewhere = {start: jobs for start, jobs in self._stuck.items() if start < after or 0 < found.last <= start}
        self._stuck = {**elsewhere, after: found.job_ids}
        self._looked_at = found.last
        return StuckJobs(found.last, tuple(job for jobs in self._stuck.values() for job in jobs))

    async def _measure_disks(self) -> dict[str, int]:
        # A thread that hangs on a disk can't be ended: it is waited for, and no second one is begun.
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.ensure_future(asyncio.to_thread(_measure, self._gateway.settings.home))
        return await asyncio.shield(self._measuring)


def _measure(home: Path) -> dict[str, int]:
    """The free bytes of the home and its scratch folder, which may be another disk; an unreadable one is left out."""
    free = {}
    for name, folder in (("home", home), ("scratch", home / "scratch")):
        with suppress(OSError):
            there = next(parent for parent in (folder, *folder.parents) if parent.exists())
            free[name] = shutil.disk_usage(there).free
    return free
