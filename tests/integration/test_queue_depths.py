"""What starts workers sees the work that they could claim, and nothing else."""

import psycopg
import pytest

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.enums import LimitKind
from anabranch.workflows.definition import Workflow
from tests.support.engine import EngineHarness
from tests.support.nodes import make_node

pytestmark = pytest.mark.postgres
TWO_QUEUES = Workflow("two", (make_node("light", "l"), make_node("heavy", "h", queue="raster")))


def read_depths(url: str) -> dict[str, tuple[int, int]]:
    with connect(url, Role.SCALER) as connection:
        rows = connection.execute("select queue, ready, running from app.queue_depths").fetchall()
    return {queue: (ready, running) for queue, ready, running in rows}


async def test_a_task_that_a_limit_held_counts_once_there_is_room(engine: EngineHarness, database_url: str) -> None:
    await engine.store.limit(LimitKind.WORKFLOW, "two", {"most": 1}, "tester")
    await engine.submit(TWO_QUEUES)
    (light,) = await engine.claim()
    assert await engine.claim(queues=["raster"]) == []
    assert read_depths(database_url)["raster"] == (0, 0)
    await engine.end([light])
    assert read_depths(database_url)["raster"] == (1, 0)
    assert len(await engine.claim(queues=["raster"])) == 1
    assert read_depths(database_url)["raster"] == (0, 1)


async def test_tasks_that_one_limit_held_back_count_up_to_its_room(engine: EngineHarness, database_url: str) -> None:
    await engine.store.limit(LimitKind.WORKFLOW, "two", {"most": 1}, "tester")
    for n in range(3):
        await engine.submit(TWO_QUEUES, n=n)
    (light,) = await engine.claim(1)
    assert await engine.claim(queues=["raster"]) == []
    await engine.end([light])
    assert read_depths(database_url)["raster"] == (1, 0)


async def test_a_paused_workflow_starts_no_worker(engine: EngineHarness, database_url: str) -> None:
    await engine.store.limit(LimitKind.WORKFLOW, "two", {"paused": True, "reason": "works"}, "tester")
    await engine.submit(TWO_QUEUES)
    assert await engine.claim(queues=["raster"]) == []
    assert read_depths(database_url)["raster"] == (0, 0)


async def test_the_role_of_scalers_reads_nothing_else(engine: EngineHarness, database_url: str) -> None:
    with connect(database_url, Role.SCALER) as connection:
        for table in ("jobs", "lanes", "keys", "tasks"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select from app.{table}")
