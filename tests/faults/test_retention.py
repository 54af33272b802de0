"""Old jobs are purged while others run, and by the next one when a purge dies half-way (O5, O2)."""

import pytest

from anabranch.errors import NotFound
from tests.support.crew import Stage, audit
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres
WIDTH = 100_000


@pytest.mark.slow
async def test_o5_retention_works_while_the_system_runs(stage: Stage) -> None:
    await stage.crew.start_ready("worker", "worker")
    old = [await stage.submit("mixed", quick=30, plain=6, run=run) for run in range(4)]
    old += [await stage.submit("acts", acts=["plain large", "quick fine"], run=run) for run in range(2)]
    young = await stage.submit("acts", acts=["plain large"])
    for job in (*old, young):
        await stage.complete(job)
    make_old(stage, old)
    first, second = await stage.crew.start_ready("orchestrator", "orchestrator")
    new = [await stage.submit("mixed", quick=200, plain=10, pause=0.1, run=run) for run in range(4, 8)]

    await wait_until_async(lambda: half_purged(stage), what="a purge half-way")
    dying, heir = (first, second) if busy(stage) == first.pid else (second, first)
    dying.kill()
    stage.end_sessions(dying)
    assert half_purged(stage), "it died too late"
    new.append(await stage.submit("chain"))
    await wait_until_async(lambda: not half_purged(stage) and not rows_of_none(stage), what="the rest of the purge")

    for job in new:
        await stage.complete(job)
    assert busy(stage) == heir.pid
    for job in old:
        with pytest.raises(NotFound) as caught:
            await stage.job(job)
        assert caught.value.code == "job.purged"
    assert {path.name for path in (stage.folder / "home" / "work" / "results").iterdir()} == {young}
    assert (await stage.tasks(await stage.job(young), "act"))[0].result == "x" * 5_000_000
    await wait_until_async(lambda: not audit(stage.url), f"an end without faults: {audit(stage.url)}")
    assert stage.query("select count(*) from app.tombstones") == [(len(old),)]


def make_old(stage: Stage, jobs: list[str]) -> None:
    """Let jobs have ended long ago, and the last of them have very many tasks."""
    ids = ", ".join(f"'{job}'" for job in jobs)
    stage.query(
        "insert into app.outcomes (lane, idx, outcome, attempt, session, failures, crashes, claimed_at, finished_at)"
        " select max(l.id), 1000 + g, 'completed', 1, 1, 0, 0, app.now(), app.now() from app.lanes l"
        f" join app.jobs j on j.id = l.job, generate_series(1, {WIDTH}) g where j.job_id = '{jobs[-1]}' group by g"
    )
    stage.query(
        "update app.jobs set created_at = created_at - interval '91 days',"
        " finished_at = finished_at - interval '91 days'"
        f" where job_id in ({ids})"
    )


def half_purged(stage: Stage) -> bool:
    """Whether some tasks of the wide job are gone and others are not."""
    return bool(stage.query("select lane from app.remains where cleared > 0"))


def rows_of_none(stage: Stage) -> list[tuple[int]]:
    """The lanes of rows whose lane is gone."""
    tables = "items", "outcomes", "attempts", "traces", "checkpoints", "claims", "due"
    rows = " union ".join(f"select lane from app.{table}" for table in tables)
    return stage.query(f"select lane from ({rows}) x where lane not in (select id from app.lanes)")


def busy(stage: Stage) -> int:
    """The process whose turn it is."""
    ((pid,),) = stage.query(
        "select s.pid from app.duties d join app.sessions s on s.id = d.session where name = 'retention'"
    )
    return int(pid)
