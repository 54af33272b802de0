"""The work areas of jobs: whose they are, and when they go."""

import os
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from anabranch.engine import clearing
from anabranch.engine.clearing import Clearing
from anabranch.engine.work import task_folder
from anabranch.engine.workflow import Node, Workflow
from anabranch.testing.clock import Clock
from anabranch.testing.engine import EngineHarness, open_harness

pytestmark = pytest.mark.postgres


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[EngineHarness]:
    async with open_harness(database_url) as opened:
        yield opened


def names(root: Path) -> set[str]:
    return {folder.name for folder in root.iterdir()}


async def submit(engine: EngineHarness, root: Path, run: int) -> str:
    """A job of one task, and its area."""
    job_id = (await engine.submit(Workflow("one", (Node("only", "do"),)), run=run)).job_id
    task_folder(root, job_id, "only", 0).mkdir(parents=True)
    return job_id


def test_w6_no_two_tasks_share_a_work_folder_and_none_leaves_the_area(tmp_path: Path) -> None:
    indexes: list[int | str] = [
        0,
        1,
        "tile-x5-y10",
        "..",
        ".",
        "",
        "a/b",
        "../../b",
        "a\\b",
        "x" * 3000,
        "y" * 3000,
        "ä",
        "~a",
        ".gone",
    ]
    folders = [task_folder(tmp_path, "ab" * 32, "node", index) for index in indexes]
    assert len(set(folders)) == len(indexes)
    for folder in folders:
        folder.mkdir(parents=True)
        assert folder.resolve().parent == tmp_path / ("ab" * 32) / "node"


async def test_w6_areas_of_jobs_that_ended_go_and_others_stay(
    engine: EngineHarness, clock: Clock, tmp_path: Path
) -> None:
    failed, done, running = [await submit(engine, tmp_path, run) for run in range(3)]
    first, second, _ = await engine.claim()
    _, rights = await engine.end([first], "failed")
    await engine.advance(rights)
    await engine.finish([second])
    cleared = Clearing(engine.store, engine.session, tmp_path)
    assert await cleared.tick() == 0

    clock.advance(timedelta(minutes=11))
    assert await cleared.tick() == 1
    assert names(tmp_path) == {failed, running}

    clock.advance(timedelta(days=1))
    assert await cleared.tick() == 1
    assert names(tmp_path) == {running}
    assert not (tmp_path / done).exists()


async def test_w6_areas_of_jobs_that_are_gone_from_the_database_go_when_they_are_old(
    engine: EngineHarness, tmp_path: Path
) -> None:
    old, new = tmp_path / ("a" * 64), tmp_path / ("b" * 64)
    for folder in (old, new, tmp_path / "not a job's"):
        (folder / "node" / "0").mkdir(parents=True)
        os.utime(folder, (time.time() - 90_000,) * 2)
    os.utime(new)
    assert await Clearing(engine.store, engine.session, tmp_path).tick() == 1
    assert names(tmp_path) == {new.name, "not a job's"}


async def test_e13_every_area_has_its_turn(
    engine: EngineHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that stay never stand in the way of others."""
    monkeypatch.setattr(clearing, "BATCH", 2)
    for number in range(5):
        folder = tmp_path / f"{number:064x}"
        folder.mkdir()
        if number == 4:
            os.utime(folder, (0, 0))
    cleared = Clearing(engine.store, engine.session, tmp_path)
    assert [await cleared.tick() for _ in range(4)] == [0, 0, 1, 0]
