"""Owners of equal priority are claimed from in turn, and so are the root jobs of an owner (E22)."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import psycopg
import pytest

from anabranch.engine.model import Ended, JobState, LimitKind
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from tests.integration.test_control import parent, retry, spawn, submit
from tests.support.engine import EngineHarness, fan_out
from tests.support.nodes import make_node

pytestmark = pytest.mark.postgres

SINGLE = Workflow("single", (make_node("only", "do"),))


async def submit_many(engine: EngineHarness, count: int, scope: str, *, tasks: int = 1) -> list[str]:
    """So many jobs of an owner."""
    return [(await engine.submit(fan_out(tasks), scope=scope, number=number)).job_id for number in range(count)]


async def take(engine: EngineHarness, turns: int, names: dict[str, str]) -> str:
    """The names of the jobs from which one task after the other is claimed."""
    claims = [claim for _ in range(turns) for claim in await engine.claim(1)]
    return "".join(names[claim.lane.job_id] for claim in claims)


def named(**jobs: Sequence[str]) -> dict[str, str]:
    return {job: name for name, of_name in jobs.items() for job in of_name}


async def test_e22_owners_are_served_in_turn_however_many_jobs_they_have(engine: EngineHarness) -> None:
    many = await submit_many(engine, 10, "many")
    wide = await submit_many(engine, 1, "wide", tasks=10)
    few = await submit_many(engine, 2, "few")
    taken = await take(engine, 10, named(m=many, w=wide, f=few))
    assert sorted(taken[:3]) == ["f", "m", "w"]
    assert taken[3:6] == taken[:3]
    assert taken[6:] in ("mwmw", "wmwm")


async def test_e22_an_owner_is_served_in_turn_by_several_workers(engine: EngineHarness) -> None:
    names = named(a=await submit_many(engine, 6, "a"), b=await submit_many(engine, 6, "b"))
    taken = ""
    for _ in range(6):
        (claim,) = await engine.claim(1, session=await engine.new_session())
        taken += names[claim.lane.job_id]
    assert taken in ("ababab", "bababa")


async def test_e22_one_claim_of_many_small_tasks_is_shared_by_the_owners(engine: EngineHarness) -> None:
    names = named(a=await submit_many(engine, 20, "a"), b=await submit_many(engine, 3, "b"))
    taken = Counter(names[claim.lane.job_id] for claim in await engine.claim(10))
    assert taken == {"a": 7, "b": 3}


async def test_e22_root_jobs_of_an_owner_are_served_in_turn(engine: EngineHarness) -> None:
    branches = Workflow("branches", tuple(make_node(f"n{number}", "do") for number in range(6)))
    names = named(a=[(await engine.submit(branches)).job_id], b=await submit_many(engine, 1, "test", tasks=4))
    assert await take(engine, 10, names) == "ababababaa"


async def test_e22_two_hundred_child_jobs_do_not_go_before_a_small_job(engine: EngineHarness) -> None:
    await submit(engine, parent(200))
    children = [child for _ in range(2) for child in await spawn(engine)]
    assert len(children) == 200
    small = (await engine.submit(SINGLE, scope="test", priority=3)).job_id
    assert await take(engine, 4, named(c=children, s=[small])) == "cscc"


async def test_e22_child_jobs_are_their_root_jobs_owner_s(engine: EngineHarness) -> None:
    await submit(engine, parent(3))
    children = await spawn(engine)
    other = [(await engine.submit(SINGLE, scope="other", priority=3, n=number)).job_id for number in range(3)]
    assert await take(engine, 6, named(c=children, o=other)) in ("cococo", "ocococ")


async def test_e22_tasks_that_are_due_again_do_not_go_before_a_small_job(engine: EngineHarness, clock: Clock) -> None:
    branches = Workflow("branches", tuple(make_node(f"n{number}", "do") for number in range(20)))
    wide = (await engine.submit(branches)).job_id
    await engine.end(await engine.claim(), Ended.RETRY, delay=timedelta(seconds=30))
    clock.advance(timedelta(seconds=31))
    assert len(await engine.claim(1)) == 1  # they are due
    small = (await engine.submit(SINGLE)).job_id
    assert await take(engine, 3, named(w=[wide], s=[small])) in ("wsw", "sww")


async def test_e22_a_more_urgent_job_goes_before_owners_whose_turn_it_is(engine: EngineHarness) -> None:
    a = await submit_many(engine, 2, "a")
    urgent = [(await engine.submit(SINGLE, scope="b", priority=1, n=number)).job_id for number in range(3)]
    assert await take(engine, 5, named(a=a, u=urgent)) == "uuuaa"


async def test_e22_a_new_owner_is_served_at_once(engine: EngineHarness) -> None:
    names = named(a=await submit_many(engine, 30, "a"))
    await take(engine, 5, names)
    names |= named(n=await submit_many(engine, 1, "new"))
    assert await take(engine, 2, names) == "na"


async def test_e22_a_root_job_that_returns_keeps_no_turns_from_others(engine: EngineHarness) -> None:
    """A chain has one task at a time; it waits again after each, behind who waits already."""
    chain = Workflow("chain", tuple(make_node(f"n{n}", "do", (f"n{n - 1}",) if n else ()) for n in range(5)))
    names = named(c=[(await engine.submit(chain)).job_id], w=await submit_many(engine, 1, "test", tasks=20))
    taken = ""
    for _ in range(10):
        (claim,) = await engine.claim(1)
        taken += names[claim.lane.job_id]
        await engine.finish([claim])
    assert taken == "cw" * 5


@pytest.mark.parametrize("scopes", [("a", "b"), ("a", "a")])
async def test_e22_who_waits_for_a_limit_is_served_in_turn(engine: EngineHarness, scopes: tuple[str, str]) -> None:
    first, second = [
        [(await engine.submit(fan_out(20), scope=scope, name=str(place))).job_id] for place, scope in enumerate(scopes)
    ]
    await engine.store.limit(LimitKind.HANDLER, "do", {"most": 1}, "test")
    taken = ""
    for _ in range(8):
        (claim,) = await engine.claim(5)
        assert await engine.claim(5) == []
        taken += named(a=first, b=second)[claim.lane.job_id]
        await engine.finish([claim])
    assert taken in ("abababab", "babababa")


async def test_e22_what_a_limit_leaves_is_shared_by_the_owners(engine: EngineHarness) -> None:
    names = named(a=await submit_many(engine, 20, "a"), b=await submit_many(engine, 5, "b"))
    await engine.store.limit(LimitKind.HANDLER, "do", {"most": 4}, "test")
    for _ in range(2):
        claims = await engine.claim(10)
        while len(claims) < 4:
            claims += await engine.claim(10)
        assert await engine.claim(10) == []
        assert Counter(names[claim.lane.job_id] for claim in claims) == {"a": 2, "b": 2}
        await engine.end(claims)


async def test_e22_a_job_that_is_tried_again_has_the_owner_of_the_first_time(
    engine: EngineHarness, database_url: str
) -> None:
    job = (await engine.submit(fan_out(2), scope="a")).job_id
    _, rights = await engine.end(await engine.claim(), Ended.FAILED)
    await engine.advance(rights)
    assert await engine.state(job) is JobState.FAILED
    await retry(engine, job)
    with psycopg.connect(database_url) as connection:
        found = connection.execute("select count(*), count(distinct (owner, root)) from app.lanes").fetchone()
    assert found == (2, 1)


async def test_e22_no_claim_waits_for_another_to_store_whose_turn_it_was(
    engine: EngineHarness, database_url: str
) -> None:
    names = named(a=await submit_many(engine, 3, "a"), b=await submit_many(engine, 3, "b"))
    claim = "select app.claim(%s, '{default}', 1, '{}', true) #>> '{lanes}'"
    with psycopg.connect(database_url) as first, psycopg.connect(database_url) as second:
        for connection in (first, second):
            connection.execute("set local lock_timeout = '1s'")
            assert connection.execute(claim, [engine.session]).fetchone() != (None,)
    assert len(await take(engine, 6, names)) == 4


async def test_o5_turns_of_owners_without_open_lanes_are_removed(engine: EngineHarness, database_url: str) -> None:
    await submit_many(engine, 2, "a")
    await submit_many(engine, 1, "b", tasks=3)
    while claims := await engine.claim(1):
        await engine.finish(claims)
    await submit_many(engine, 1, "c")
    with psycopg.connect(database_url, autocommit=True) as connection:
        counted = "select count(*) from app.turns"
        assert connection.execute(counted).fetchone() == (3,)
        await engine.sweep()
        assert connection.execute(counted).fetchone() == (1,)
