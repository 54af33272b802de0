"""Orchestrators are killed while they watch a folder: each version of an object has one job."""

import asyncio
import random
from pathlib import Path

import pytest

from anabranch.enums import Scope
from anabranch.platform.action_by import ActionBy
from anabranch.platform.schedules.schedules import ScheduleChange
from tests.support.crew import Stage
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.postgres, pytest.mark.campaign]
OBJECTS = 300
BY = ActionBy("*", "test", None, "test", Scope.ADMIN)


async def test_e2_each_version_has_one_job_though_orchestrators_are_killed(
    stage: Stage, seed: int, strikes: int
) -> None:
    """Two watch; in each round objects come and change, and one of the two is killed at any moment of its look."""
    drawn, folder, written = random.Random(seed), stage.folder / "home/silver/incoming", 0
    await stage.gateway.ready()
    wanted = ScheduleChange(
        "echo", watch="silver://incoming", stable_seconds=0, poll_seconds=1, inputs={"message": "{{ object.url }}"}
    )
    await stage.gateway.schedules.add("default", "sensor", wanted, BY)
    await stage.crew.start_ready("orchestrator", "orchestrator")
    for number in range(strikes):
        written += _write(folder, drawn.sample(range(OBJECTS), OBJECTS // 3), number)
        await asyncio.sleep(drawn.uniform(0, 2))  # the fault's own moment
        victim = drawn.choice(stage.crew.alive("orchestrator"))
        victim.kill()
        stage.crew.start("orchestrator")
        await wait_until_async(lambda: _done(stage, folder), "a job of every object")
        assert stage.query("select count(*), count(distinct job_id) from app.schedule_ticks") == [(written, written)]
        assert stage.query("select count(*) from app.jobs") == [(written,)]
    assert stage.query("select count(*) from app.schedule_ticks where state <> 'submitted'") == [(0,)]


def _write(folder: Path, objects: list[int], version: int) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder.parent / "aside"
    for number in objects:
        aside.write_text(f"{number} {version}")
        aside.rename(folder / f"{number}.txt")  # whole at once: no version in between can be seen
    return len(objects)


def _done(stage: Stage, folder: Path) -> bool:
    """Whether the version of each object that is there now has its job."""
    known = dict(stage.query("select address, done from app.watched_objects where done = version"))
    found = stage.gateway.storage.list("silver://incoming", limit=OBJECTS)
    return all(known.get(f"silver://{one.key}") == one.tag for one in found)
