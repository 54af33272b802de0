"""Submissions and claims in any order: who waits is served before any other gets a second turn (E13, E22)."""

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.engine.model import Claim, Ended
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import Spread
from tests.support.engine import EngineHarness, open_harness
from tests.support.nodes import make_node

pytestmark = pytest.mark.postgres

OWNERS = ("a", "b", "c")
SUBMIT = st.tuples(st.sampled_from(OWNERS), st.lists(st.integers(1, 4), min_size=1, max_size=4))
CLAIM, HAND_BACK, FINISH = st.just("claim"), st.just("hand back"), st.just("finish")
ACTS = st.lists(st.one_of(SUBMIT, CLAIM, CLAIM, CLAIM, HAND_BACK, FINISH), min_size=10, max_size=60)
ROUNDS = itertools.count()


@dataclass
class Model:
    """What waits, and how often others were served since each began to wait or was served."""

    waiting: Counter[str] = field(default_factory=Counter)
    passed: dict[str, Counter[str]] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)

    def add(self, name: str, tasks: int) -> None:
        if tasks and not self.waiting[name]:
            self.passed[name] = Counter()
            self.new.add(name)
        self.waiting[name] += tasks

    def serve(self, name: str, most_if_new: int) -> None:
        """Count a claim, which must not be one too many for anybody who waits."""
        assert self.waiting[name] > 0
        self.waiting[name] -= 1
        for other in +self.waiting:
            if other != name:
                self.passed[other][name] += 1
                assert self.passed[other][name] <= (most_if_new if other in self.new else 1), (other, name, self)
        self.passed[name] = Counter()
        self.new.discard(name)


class Run:
    """The engine beside a model of its owners, and one of each owner's root jobs."""

    def __init__(self, engine: EngineHarness) -> None:
        self.engine = engine
        self.round = str(next(ROUNDS))
        self.owners = Model()
        self.jobs = {owner: Model() for owner in OWNERS}
        self.owner_of: dict[str, str] = {}
        self.held: list[Claim] = []

    async def submit(self, owner: str, widths: list[int]) -> None:
        """A job of several lanes that wait at once."""
        nodes = tuple(
            make_node(f"n{n}", "do", spread=Spread.FIXED, count=width, queue=self.round)
            for n, width in enumerate(widths)
        )
        scope = f"{self.round} {owner}"
        job = (await self.engine.submit(Workflow("w", nodes), scope=scope, number=len(self.owner_of))).job_id
        self.owner_of[job] = owner
        self.add(job, sum(widths))

    def add(self, job: str, tasks: int) -> None:
        self.owners.add(self.owner_of[job], tasks)
        self.jobs[self.owner_of[job]].add(job, tasks)

    async def claim(self) -> bool:
        found = await self.engine.claim(1, queues=[self.round])
        for claim in found:
            owner = self.owner_of[claim.lane.job_id]
            self.owners.serve(owner, 1)
            self.jobs[owner].serve(claim.lane.job_id, 2)
        assert found or not +self.owners.waiting
        self.held += found
        return bool(found)

    async def hand_back(self) -> None:
        if self.held:
            await self.engine.end([claim := self.held.pop(0)], Ended.HANDED_BACK)
            self.add(claim.lane.job_id, 1)

    async def finish(self) -> None:
        if self.held:
            await self.engine.finish([self.held.pop()])


async def play(engine: EngineHarness, acts: list[object]) -> None:
    run = Run(engine)
    for act in acts:
        match act:
            case (str(owner), list(widths)):
                await run.submit(owner, widths)
            case "claim":
                await run.claim()
            case "hand back":
                await run.hand_back()
            case _:
                await run.finish()
    while await run.claim():
        pass


@pytest.mark.parametrize("examples", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_e22_who_waits_is_served_before_others_are_served_twice(database_url: str, examples: int) -> None:
    with asyncio.Runner() as runner:
        opened = open_harness(database_url)
        engine = runner.run(opened.__aenter__())

        @settings(max_examples=examples, deadline=None, database=None, derandomize=examples < 100)
        @given(ACTS)
        def check(acts: list[object]) -> None:
            runner.run(play(engine, acts))

        try:
            check()
        finally:
            runner.run(opened.__aexit__(None, None, None))
