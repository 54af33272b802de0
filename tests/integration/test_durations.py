"""Durations are counted once, by the transaction that ends something."""

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from anabranch.adapters.postgres.store.vitals import PostgresVitals
from anabranch.engine.model import Ended
from anabranch.testing.clock import Clock
from tests.support.engine import EngineHarness, fan_out

pytestmark = pytest.mark.postgres
NOTHING = timedelta(0)
Histogram = tuple[dict[str, int], float]


@pytest.fixture
def database(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


async def read(engine: EngineHarness, url: str) -> dict[tuple[str, str, str], Histogram]:
    """What metrics show once the sweeper was there."""
    await engine.sweep()
    vitals = PostgresVitals(url, name="test")
    await vitals.open()
    try:
        gauges = await vitals.gauges()
    finally:
        await vitals.close()
    bounds = [*map(str, gauges.duration_bounds), "+Inf"]
    return {
        (kind, name, detail): ({bounds[int(bucket)]: count for bucket, count in buckets.items()}, seconds)
        for kind, name, detail, buckets, seconds in gauges.durations
    }


async def test_jobs_nodes_tasks_and_waits_are_measured(engine: EngineHarness, clock: Clock, database_url: str) -> None:
    await engine.submit(fan_out(2))
    clock.advance(timedelta(seconds=10))
    claims = await engine.claim(2)
    clock.advance(timedelta(seconds=40))
    await engine.finish(claims, ran=timedelta(seconds=40))
    await engine.finish(await engine.claim(), ran=NOTHING)

    assert await read(engine, database_url) == {
        ("job", "fan_out", "completed"): ({"60.0": 1}, 50.0),
        ("node", "fan_out", "join"): ({"0.01": 1}, 0.0),
        ("node", "fan_out", "work"): ({"60.0": 1}, 50.0),
        ("task", "do", "completed"): ({"60.0": 2}, 80.0),
        ("task", "join", "completed"): ({"0.01": 1}, 0.0),
        ("wait", "default", ""): ({"0.01": 1, "10.0": 2}, 20.0),
    }


async def test_an_attempt_that_is_repeated_counts_by_itself_and_its_task_waited_once(
    engine: EngineHarness, clock: Clock, database_url: str
) -> None:
    await engine.submit(fan_out(1))
    for ended in (Ended.RETRY, Ended.FAILED):
        claims = await engine.claim()
        clock.advance(timedelta(seconds=2))
        _, rights = await engine.end(claims, ended, delay=NOTHING, ran=timedelta(seconds=2))
        await engine.advance(rights)
        await engine.sweep()

    seen = await read(engine, database_url)

    assert seen["task", "do", "repeated"] == seen["task", "do", "failed"] == ({"3.0": 1}, 2.0)
    assert seen["wait", "default", ""] == ({"0.01": 1}, 0.0)


async def test_a_task_waits_until_an_attempt_starts(engine: EngineHarness, clock: Clock, database_url: str) -> None:
    await engine.submit(fan_out(1))
    for ended, ran in ((Ended.HANDED_BACK, None), (Ended.RETRY, NOTHING), (Ended.FAILED, NOTHING)):
        claims = await engine.claim()
        clock.advance(timedelta(seconds=20))
        _, rights = await engine.end(claims, ended, delay=NOTHING, ran=ran)
        await engine.advance(rights)
        await engine.sweep()

    seen = await read(engine, database_url)

    assert seen["task", "do", "repeated"] == seen["task", "do", "failed"] == ({"0.01": 1}, 0.0)
    assert seen["wait", "default", ""] == ({"60.0": 1}, 40.0)


async def test_a_report_that_comes_twice_or_late_counts_once(engine: EngineHarness, database_url: str) -> None:
    job = await engine.submit(fan_out(2))
    first, second = await engine.claim()
    await engine.end([first], ran=NOTHING)
    await engine.end([first], ran=NOTHING)
    await engine.store.cancel(job.job_id, "test")
    await engine.end([second], ran=NOTHING)

    seen = {key: sum(buckets.values()) for key, (buckets, _) in (await read(engine, database_url)).items()}

    assert seen == {
        ("job", "fan_out", "cancelled"): 1,
        ("node", "fan_out", "work"): 1,
        ("task", "do", "cancelled"): 1,
        ("task", "do", "completed"): 1,
        ("wait", "default", ""): 2,
    }


def test_a_bound_is_in_its_bucket(database: psycopg.Connection) -> None:
    for seconds, bucket in ((0, 0), (0.01, 0), (0.010001, 1), (86400, 15), (86400.000001, 16), (1e12, 16)):
        assert database.execute("select app.find_bucket(%s)", [seconds]).fetchone() == (bucket,), seconds


def test_names_that_come_late_share_a_histogram_and_no_count_is_lost(
    database: psycopg.Connection, clock: Clock
) -> None:
    def count(kind: str, *names: str) -> dict[tuple[str, str], int]:
        for name in names:
            database.execute("select app.measure(%s, %s, 'x', '1 s')", [kind, name])
        assert database.execute("select app.sum_durations(2, '30 days', 100)").fetchone() == (len(names),)
        rows = database.execute("select name, detail, entries::int from app.histograms where kind = %s", [kind])
        return {(name, detail): entries for name, detail, entries in rows}

    assert count("job", "a", "b", "c", "a") == {("a", "x"): 2, ("b", "x"): 1, ("", "x"): 1}
    assert count("node", "a", "b", "c") == {("a", "x"): 1, ("b", "x"): 1, ("", ""): 1}
    clock.advance(timedelta(days=20))
    assert count("job", "a", "c") == {("a", "x"): 3, ("b", "x"): 1, ("", "x"): 2}
    clock.advance(timedelta(days=20))
    assert count("job") == {("a", "x"): 3, ("b", "x"): 1, ("", "x"): 2}
    assert count("job", "c") == {("a", "x"): 3, ("c", "x"): 1, ("", "x"): 3}
