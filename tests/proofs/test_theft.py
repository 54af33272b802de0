"""Sessions are taken for dead every 15 ms while they work: late reports are rejected, and nothing is done twice."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from anabranch.adapters.objects.folder import Folder
from anabranch.adapters.postgres.connect import Role, connect, connect_async
from anabranch.adapters.postgres.database import call_text
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.canonical import encode
from anabranch.engine.advancing.advancer import Advancer
from anabranch.engine.model import Answer, Claim, Ended, Report, SessionId, SessionKind
from anabranch.engine.ports import ClaimRequest, SessionGone, TakenRight
from anabranch.storage.large_results import Results
from tests.support.engine import fan_out, open_harness
from tests.support.interleave import AUDIT
from tests.support.waiting import PATIENCE_SECONDS

RESULTS = Results(Folder(Path("unused")))
pytestmark = pytest.mark.postgres

WORKERS, BATCH = 8, 5
THEFT_SECONDS, HOLD_SECONDS = 0.015, 0.05
LEASE = timedelta(minutes=10)
ACCEPTED = b"""
    select idx, attempt, session, (result ->> 'attempt')::integer, (result ->> 'session')::bigint
      from app.outcomes join app.lanes on lanes.id = lane where node = 'work' order by idx
"""


@dataclass
class Tally:
    """What the workers were answered, by attempt, and how often something was taken."""

    answers: Counter[Answer] = field(default_factory=Counter)
    applied: Counter[int] = field(default_factory=Counter)
    stale: list[tuple[int, int, int]] = field(default_factory=list)
    thefts: int = 0
    stolen: int = 0
    advances: int = 0


class Worker:
    """Claims, holds what it has for a moment, and reports; it begins a new session when it learns that it lost one."""

    def __init__(self, store: PostgresStore, tally: Tally, dice: random.Random) -> None:
        self._store, self._tally, self._dice = store, tally, dice
        self.session = SessionId(0)
        self._held: list[tuple[SessionId, Claim]] = []

    async def work(self, done: asyncio.Event) -> None:
        """Until all is done, and what is in hand was reported."""
        await self._begin()
        while not done.is_set() or self._held:
            try:
                await self._turn()
            except SessionGone:
                await self._report()
                await self._begin()
            await asyncio.sleep(self._dice.uniform(0, HOLD_SECONDS))

    async def _begin(self) -> None:
        self.session = await self._store.open_session(SessionKind.WORKER, ["default"], BATCH, LEASE)

    async def _turn(self) -> None:
        """By turns or by separate calls; the reports of a turn that was refused are sent again by themselves."""
        mine = [claim for session, claim in self._held if session == self.session]
        if mine and self._dice.random() < 0.5:
            turn = await self._store.turn(
                self.session, list(map(self._result, mine)), ClaimRequest(["default"], BATCH, {})
            )
            self._note(mine, self.session, turn.answers)
            self._held = [(self.session, claim) for claim in turn.claims]
            await self._advance(turn.rights)
            return
        await self._report()
        claims = await self._store.claim(self.session, ["default"], BATCH)
        self._held = [(self.session, claim) for claim in claims]

    async def _report(self) -> None:
        for session in {session for session, _ in self._held}:
            claims = [claim for holder, claim in self._held if holder == session]
            answers, rights = await self._store.report(session, [self._result(claim, session) for claim in claims])
            self._note(claims, session, answers)
            await self._advance(rights)
        self._held = []

    async def _advance(self, rights: list[TakenRight]) -> None:
        spent = await Advancer(self._store, self.session, RESULTS).advance(rights)
        self._tally.advances += spent.applied

    def _result(self, claim: Claim, session: SessionId | None = None) -> Report:
        body = {"attempt": claim.attempt, "session": session or self.session}
        return Report(claim.fence, Ended.COMPLETED, encode(body))

    def _note(self, claims: list[Claim], session: SessionId, answers: list[Answer]) -> None:
        self._tally.answers.update(answers)
        for claim, answer in zip(claims, answers, strict=True):
            if claim.lane.node == "work" and answer is Answer.APPLIED:
                self._tally.applied[claim.key.place] += 1
            if answer is Answer.STALE:
                self._tally.stale.append((claim.key.lane, claim.key.place, claim.attempt))


async def steal(url: str, workers: list[Worker], tally: Tally, done: asyncio.Event, dice: random.Random) -> None:
    """Take a session for dead and give what it holds to others, every 15 ms."""
    async with await connect_async(url, Role.APP, name="thief") as connection:
        while not done.is_set():
            victim = dice.choice(workers).session
            await connection.execute(call_text("end_session").encode(), (victim, "stolen"))
            row = await (await connection.execute(call_text("release_dead").encode(), (1000, 0, 2**62))).fetchone()
            tally.thefts += 1
            tally.stolen += row[0] if row else 0
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), THEFT_SECONDS)


async def watch(store: PostgresStore, url: str, job_id: str, done: asyncio.Event, tally: Tally) -> None:
    """Take the rights that the stolen left behind, until the job is over."""
    session = await store.open_session(SessionKind.ORCHESTRATOR, [], 0, LEASE)
    async with await connect_async(url, Role.READER, name="watch") as connection:
        while not done.is_set():
            spent = await Advancer(store, session, RESULTS).advance(await store.take_rights(session, 10))
            tally.advances += spent.applied
            row = await (await connection.execute("select state from app.jobs where job_id = %s", [job_id])).fetchone()
            if row and row[0] == "completed":
                done.set()
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("tasks", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_e3_e4_e6_lease_theft_every_15_ms_loses_and_doubles_nothing(database_url: str, tasks: int) -> None:
    tally, done, dice = Tally(), asyncio.Event(), random.Random(tasks)
    async with open_harness(database_url) as harness:
        job = await harness.submit(fan_out(tasks))
        workers = [Worker(harness.store, tally, random.Random(n)) for n in range(WORKERS)]
        async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker.work(done))
            group.create_task(watch(harness.store, database_url, job.job_id, done, tally))
            group.create_task(steal(database_url, workers, tally, done, dice))

    assert tally.applied == Counter(range(tasks)), "each task was accepted once"
    assert tally.thefts > 10
    assert tally.answers == {Answer.APPLIED: tasks + 1, Answer.STALE: len(tally.stale)}
    assert tally.advances == 2, "one advance of the fan-out, one of the join"
    with connect(database_url, None) as admin:
        accepted = admin.execute(ACCEPTED).fetchall()
        lost = admin.execute("select lane, idx, attempt from app.attempts where stale_at is not null").fetchall()
        assert [row[0] for row in accepted] == list(range(tasks))
        assert [row[1:3] for row in accepted] == [row[3:5] for row in accepted], "and by its current attempt"
        assert sorted(lost) == sorted(set(tally.stale)), "each late report was noted"
        assert admin.execute(AUDIT.encode()).fetchall() == []
        assert admin.execute("select count(*) from app.claims").fetchone() == (0,)
