"""The engine on a real database, driven by hand: a test says which attempt ends how, and in which order."""

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from anabranch.adapters.objects.folder import Folder
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.canonical import Json, encode
from anabranch.engine.advancing.advancer import Advancer
from anabranch.engine.model import Answer, Claim, Ended, JobState, NodeState, Report, SessionId, SessionKind
from anabranch.engine.ports import Holdings, Submission, Submitted, Swept, TakenRight
from anabranch.storage.large_results import Results
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import Spread
from tests.support.nodes import make_node

__all__ = ["EngineHarness", "fan_out", "open_harness"]

LEASE = timedelta(seconds=60)
FOREVER = datetime.max.replace(tzinfo=UTC)


def fan_out(count: int, **more: object) -> Workflow:
    """A workflow of `count` tasks and one task that joins them."""
    work = make_node("work", "do", spread=Spread.FIXED, count=count, **more)  # type: ignore[arg-type]  # fields of Node
    return Workflow("fan_out", (work, make_node("join", "join", ("work",), Spread.FAN_IN)))


class EngineHarness:
    """A store, its readers, and one session to act as."""

    def __init__(self, store: PostgresStore, reads: PostgresReads, session: SessionId, results: Results) -> None:
        """Made by `open_harness`."""
        self.store = store
        self.results = results
        self.reads = reads
        self.session = session

    async def new_session(self) -> SessionId:
        """Another worker."""
        return await self.store.open_session(SessionKind.WORKER, ["default"], 1, LEASE)

    async def submit(
        self, workflow: Workflow, *, priority: int = 5, rerun: bool = False, scope: str = "test", **parameters: Json
    ) -> Submitted:
        """Submit a job, and start it if it is new."""
        submission = Submission(workflow, parameters, scope, priority, rerun, "correlation")
        submitted = await self.store.submit(submission, self.session)
        await self.advance(submitted.rights)
        return submitted

    async def advance(self, rights: Sequence[TakenRight]) -> int:
        """Spend rights."""
        return (await Advancer(self.store, self.session, self.results).advance(rights)).applied

    async def take_free(self) -> int:
        """Take the rights that nobody holds, and spend them."""
        return await Advancer(self.store, self.session, self.results).take_free()

    async def claim(
        self, limit: int = 100, *, session: SessionId | None = None, queues: Sequence[str] = ("default",)
    ) -> list[Claim]:
        """Take tasks."""
        return await self.store.claim(session or self.session, queues, limit)

    async def end(
        self,
        claims: Sequence[Claim],
        ended: Ended = Ended.COMPLETED,
        body: Json = None,
        *,
        session: SessionId | None = None,
        delay: timedelta | None = None,
        ran: timedelta | None = None,
    ) -> tuple[list[Answer], list[TakenRight]]:
        """Report how attempts ended, and nothing more."""
        text = encode({"code": "test", "message": "no"} if body is None and ended is not Ended.COMPLETED else body)
        reports = [Report(claim.fence, ended, text, delay, ran) for claim in claims]
        return await self.store.report(session or self.session, reports)

    async def sweep(self) -> Swept:
        """One round of the sweeper."""
        return await self.store.sweep(self.session, timedelta(seconds=5), timedelta(seconds=30), lambda: FOREVER)

    async def let_pass(self, clock: Clock, time: timedelta) -> Swept:
        """Let time pass in steps of five seconds, with this session alive and the sweeper at work."""
        pulse, expired, released = self.store.pulse(), 0, 0
        for _ in range(math.ceil(time / timedelta(seconds=5))):
            clock.advance(timedelta(seconds=5))
            pulse.beat(self.session, Holdings())
            swept = await self.sweep()
            expired, released = expired + swept.expired, released + swept.released
        pulse.close()
        return Swept(expired, released)

    async def finish(self, claims: Sequence[Claim], body: Json = None, *, ran: timedelta | None = None) -> None:
        """Complete attempts and advance what that finished."""
        _, rights = await self.end(claims, body=body, ran=ran)
        await self.advance(rights)

    async def state(self, job_id: str) -> JobState:
        """Where the job stands."""
        return (await self.reads.job(job_id)).job.state

    async def nodes(self, job_id: str) -> dict[str, NodeState]:
        """Where its nodes stand."""
        return {node.name: node.state for node in (await self.reads.job(job_id)).nodes}


@asynccontextmanager
async def open_harness(url: str) -> AsyncIterator[EngineHarness]:
    """A harness on this database."""
    results = Results(Folder(Path("unused"), "work"))
    store, reads = PostgresStore(url, name="test", connections=8), PostgresReads(url, results, name="test reads")
    await store.open()
    await reads.open()
    try:
        session = await store.open_session(SessionKind.WORKER, ["default"], 100, LEASE)
        yield EngineHarness(store, reads, session, results)
    finally:
        await store.close()
        await reads.close()
