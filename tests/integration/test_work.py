"""The work files of jobs: who finds them, and when they go."""

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from anabranch.adapters.objects.folder import Folder
from anabranch.canonical import Json
from anabranch.engine.model import Ended
from anabranch.engine.worker.work_cleaner import WorkCleaner
from anabranch.errors import ContractViolationError
from anabranch.storage.attempt_keys import attempt_key
from anabranch.storage.source_cache import Sources
from anabranch.storage.task_storage import Writer
from anabranch.storage.tiers import Storage
from anabranch.storage.work_files import WorkFiles
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from tests.support.engine import EngineHarness
from tests.support.nodes import make_node

pytestmark = pytest.mark.postgres


def names(area: Folder) -> set[str]:
    """The jobs that have files."""
    return {stat.key.split("/")[1] for stat in area.walk("jobs")}


async def submit(engine: EngineHarness, area: Folder, run: int) -> str:
    """A job of one task, and its file."""
    job_id = (await engine.submit(Workflow("one", (make_node("only", "do"),)), run=run)).job_id
    area.put(str(attempt_key(job_id, "only", 0, 1, "file")), b"")
    return job_id


def age(root: Path, job: str, seconds: float) -> None:
    for path in (root / "jobs" / job).rglob("*"):
        os.utime(path, (time.time() - seconds,) * 2)


def open_files(area: Folder, scratch: Path, job: str, attempt: int = 1) -> WorkFiles:
    cache = Sources(scratch / "cache", 1_000)
    return WorkFiles(Storage({"work": area}), cache, Writer(job, "node", 0, attempt), lambda: scratch)


def test_w5_a_work_file_is_found_by_the_next_attempt_on_another_machine(tmp_path: Path) -> None:
    area, job, made = Folder(tmp_path / "shared"), "a" * 64, tmp_path / "made"
    made.write_text("whole")
    file = open_files(area, tmp_path / "one", job).put(made)
    again = open_files(area, tmp_path / "one", job).put(made)
    assert file["key"] != again["key"], "no two share a key, not even of one attempt: a restored database counts again"

    next_one = open_files(area, tmp_path / "two", job, attempt=2)
    found = next_one.fetch(file)
    assert found is not None
    assert found.read_text() == "whole"
    assert found.is_relative_to(tmp_path / "two")
    assert (next_one.fetch(file, cached=True) or found).stat().st_mode & 0o777 == 0o444
    next_one.remove(file)
    assert next_one.fetch(file) is None
    assert next_one.fetch(again) is not None


def test_w5_a_work_file_that_is_damaged_is_not_fetched(tmp_path: Path) -> None:
    area, made = Folder(tmp_path / "shared"), tmp_path / "made"
    made.write_text("whole")
    files = open_files(area, tmp_path / "scratch", "a" * 64)
    file = files.put(made)
    (tmp_path / "shared" / str(file["key"])).write_text("cut")
    assert files.fetch(file) is None


@pytest.mark.parametrize("named", [None, "file", {}, {"key": "results/x", "sha256": ""}, {"key": "jobs/../x"}])
def test_s3_a_handler_names_work_files_of_its_own_job_only(tmp_path: Path, named: Json) -> None:
    area, made = Folder(tmp_path / "shared"), tmp_path / "made"
    made.write_text("secret")
    files = open_files(area, tmp_path / "scratch", "a" * 64)
    for file in (named, open_files(area, tmp_path, "b" * 64).put(made)):
        with pytest.raises(ContractViolationError):
            files.fetch(file)
        with pytest.raises(ContractViolationError):
            files.remove(file)


async def test_w6_files_of_jobs_that_ended_go_and_others_stay(
    engine: EngineHarness, clock: Clock, tmp_path: Path
) -> None:
    area = Folder(tmp_path)
    failed, done, running = [await submit(engine, area, run) for run in range(3)]
    first, second, _ = await engine.claim()
    _, rights = await engine.end([first], Ended.FAILED)
    await engine.advance(rights)
    await engine.finish([second])
    cleared = WorkCleaner(engine.store, engine.session, area)
    assert await cleared.tick() == 0

    clock.advance(timedelta(minutes=11))
    assert await cleared.tick() == 1
    assert names(area) == {failed, running}

    clock.advance(timedelta(days=1))
    assert await cleared.tick() == 1
    assert names(area) == {running}
    assert not (tmp_path / "jobs" / done).exists()


async def test_w6_files_of_jobs_that_are_gone_from_the_database_go_when_they_are_old(
    engine: EngineHarness, tmp_path: Path
) -> None:
    area, old, new = Folder(tmp_path), "a" * 64, "b" * 64
    for job in (old, new):
        area.put(str(attempt_key(job, "node", 0, 1, "file")), b"")
    age(tmp_path, old, 90_000)
    assert await WorkCleaner(engine.store, engine.session, area).tick() == 1
    assert names(area) == {new}


async def test_e13_every_file_has_its_turn(engine: EngineHarness, tmp_path: Path) -> None:
    """Those that stay never stand in the way of others."""
    area = Folder(tmp_path)
    for number in range(5):
        area.put(str(attempt_key(f"{number:064x}", "node", 0, 1, "file")), b"")
    age(tmp_path, f"{4:064x}", 90_000)
    cleared = WorkCleaner(engine.store, engine.session, area, batch=2)
    assert [await cleared.tick() for _ in range(4)] == [0, 0, 1, 0]
