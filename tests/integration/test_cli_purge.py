"""`anabranch db purge`: counts first, and destroys only when told to."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from anabranch.cli.main import call
from anabranch.testing.clock import Clock
from tests.support.engine import fan_out, open_harness

pytestmark = pytest.mark.postgres


@pytest.fixture(autouse=True)
def place(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", database_url)


@pytest.fixture
def old_jobs(database_url: str, clock: Clock) -> None:
    """One job that was cancelled forty days ago, and one that was yesterday."""

    async def cancel(n: int) -> None:
        async with open_harness(database_url) as engine:
            job = await engine.submit(fan_out(3), n=n)
            await engine.finish(await engine.claim(2))
            await engine.store.cancel(job.job_id, "test")

    for days in (39, 1):
        asyncio.run(cancel(days))
        clock.advance(timedelta(days=days))


@pytest.mark.usefixtures("old_jobs")
def test_o5_a_dry_run_counts_and_leaves_all_in_place(capsys: pytest.CaptureFixture[str], database_url: str) -> None:
    assert call(["db", "purge", "--older-than", "30d", "--dry-run"]) == 0
    assert (
        capsys.readouterr().out == "jobs that would be removed: 1 (0 completed, 0 failed, 1 cancelled), with 2 tasks\n"
    )
    assert call(["db", "purge", "--older-than", "12h", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"jobs": 2, "completed": 0, "failed": 0, "cancelled": 2, "tasks": 4}
    assert count(database_url, "jobs") == 2


@pytest.mark.usefixtures("old_jobs")
def test_s6_nothing_is_purged_without_yes(capsys: pytest.CaptureFixture[str], database_url: str) -> None:
    assert call(["db", "purge", "--older-than", "30d"]) == 2
    said = capsys.readouterr().err
    assert "jobs that would be removed: 1 " in said
    assert "`--yes`" in said
    assert count(database_url, "jobs") == 2


@pytest.mark.usefixtures("old_jobs")
def test_o5_a_purge_removes_what_it_counted(capsys: pytest.CaptureFixture[str], database_url: str) -> None:
    assert call(["db", "purge", "--older-than", "30d", "--yes", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "jobs": 1, "publications": 0, "rows": 3, "files": 0, "tables": 0, "tombstones": 0, "sessions": 0,
        "workflows": 0,
    }  # fmt: skip
    assert (count(database_url, "jobs"), count(database_url, "outcomes")) == (1, 2)
    assert call(["db", "purge", "--yes"]) == 0, "by the setting, nothing is old enough"
    assert capsys.readouterr().out.splitlines()[0] == "jobs       0"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--older-than", "soon"], "'soon' is not an age"),
        (["--older-than", "-1d"], "'-1d' is not an age"),
        (["--older-than", "1.5d"], "'1.5d' is not an age"),
        ([], "kept forever"),
    ],
)
def test_an_age_that_is_none_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_RETENTION_DAYS", "0")
    assert call(["db", "purge", "--yes", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("old_jobs")
@pytest.mark.parametrize(("age", "left"), [("999999999999w", 2), ("36500d", 2), ("40d", 2), ("1d", 1), ("0s", 0)])
def test_any_age_can_be_asked_for(age: str, left: int, database_url: str) -> None:
    assert call(["db", "purge", "--yes", "--older-than", age]) == 0
    assert count(database_url, "jobs") == left


def count(url: str, table: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(f"select count(*) from app.{table}".encode()).fetchone()
    return int(row[0]) if row else 0
