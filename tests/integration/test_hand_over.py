from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.canonical import Json
from tests.support.stack import Stack

pytestmark = pytest.mark.postgres
PLUGINS = str(Path(__file__).parents[1] / "data" / "plugins" / "handing")


async def shown(stack: Stack, workflow: str, **parameters: Json) -> dict[Any, Json]:
    job = await stack.run(workflow, **parameters)
    tasks = await stack.tasks(job, "second")
    assert [task.parameters for task in tasks] == [task.result for task in tasks]
    return {task.index: task.result for task in tasks}


async def test_what_was_handed_over_stands_below_a_tasks_own_parameters(stack: Stack) -> None:
    assert await shown(stack, "hand_planned") == {
        "b": {"handed": "from b", "own": "mine", "job": "handed", "more": 2},
        "c": {"own": "mine"},
    }


async def test_what_was_handed_over_stands_above_the_jobs_parameters(stack: Stack) -> None:
    assert await shown(stack, "hand_some", handed="by the job", other=1) == {
        0: {"handed": "by the job", "other": 1, "index": 0},
        1: {"handed": "quickly", "other": 1, "index": 1},
        2: {"handed": "by the job", "other": 1, "index": 2},
    }


async def test_an_async_handler_hands_over(stack: Stack) -> None:
    found = await shown(stack, "hand_async")
    assert found == {index: {"handed": "from the loop", "index": index} for index in (0, 1)}


async def test_a_failure_hands_nothing_over_and_what_it_measured_is_kept(stack: Stack, database_url: str) -> None:
    assert await shown(stack, "hand_failed") == {0: {"index": 0}, 1: {"index": 1}}
    with psycopg.connect(database_url) as admin:
        assert admin.execute("select metrics from app.traces").fetchall() == [({"tried": 1},)] * 2


async def test_too_much_is_a_bug_of_the_handler(stack: Stack) -> None:
    job = await stack.run("hand_much")
    first, _ = await stack.tasks(job, "first")
    assert first.error is not None
    assert first.error.code == "handler.contract"
    assert "at most 64000 are kept" in str(first.error.message)


async def test_where_nothing_was_handed_over_nothing_is_looked_for(stack: Stack, database_url: str) -> None:
    await stack.run("hand_nothing")
    await stack.run("hand_some")
    with psycopg.connect(database_url) as admin:
        lanes = admin.execute("select node, handed, policy ? 'heir_of' from app.lanes order by id").fetchall()
    assert lanes == [("first", False, False), ("second", False, False), ("first", True, False), ("second", False, True)]
