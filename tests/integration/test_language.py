"""Workflows in YAML, from the file to the result, through real workers."""

from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import dedent

import pytest

from anabranch.engine.canonical import Json
from anabranch.engine.events import Replayed, replay
from anabranch.engine.model import JobDetail, JobState
from anabranch.testing.stack import Stack, open_stack

pytestmark = pytest.mark.postgres


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    folder = tmp_path / "plugins"
    folder.mkdir()
    return folder


@pytest.fixture
async def stack(database_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    async with open_stack(database_url, tmp_path, []) as opened:
        yield opened


def write(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.yaml").write_text(dedent(text))


async def check_replay(stack: Stack, job: JobDetail) -> None:
    """E17: the events of a job, replayed, give the states that the tables have."""
    replayed = replay(await stack.gateway.reads.events(job.job.id), [node.name for node in job.nodes])
    assert replayed == Replayed(job.job.state, {node.name: node.state for node in job.nodes})


async def test_the_demo_workflows_give_what_they_promise(stack: Stack) -> None:
    promised: dict[str, tuple[dict[str, Json], Json]] = {
        "echo": ({"message": "Hi"}, {"message": "Hi"}),
        "diamond": ({"text": "delta"}, {"text": "DELTA has 5 letters"}),
        "weigh": ({"count": 20}, {"items": 20, "weight": 114}),
        "nested": ({}, {"parts": 5, "batches": 3}),
    }
    for workflow, (parameters, result) in promised.items():
        job = await stack.run(workflow, **parameters)
        assert (job.job.state, job.job.error, job.job.result) == (JobState.COMPLETED, None, result), workflow
        await check_replay(stack, job)


@pytest.mark.parametrize(
    ("size", "way", "skipped"), [(10, "light", "heavy"), (500, "heavy", "light")], ids=["light", "heavy"]
)
async def test_g1_g2_one_branch_is_taken_and_the_join_behind_runs(
    stack: Stack, size: int, way: str, skipped: str
) -> None:
    job = await stack.run("route_by_size", size_mb=size)
    assert job.job.result == {"way": way, "is_large": way == "heavy"}
    states = {node.name: node.state for node in job.nodes}
    assert states.pop(skipped) == "skipped"
    assert set(states.values()) == {"completed"}
    await check_replay(stack, job)


async def test_g6_g7_tasks_show_the_parameters_that_their_handler_got(stack: Stack) -> None:
    job = await stack.run("weigh", count=3, factor=2)
    tasks = await stack.tasks(job, "each")
    assert [task.parameters for task in tasks] == [
        {"chunk": {"name": f"item-{number}", "size": number}, "factor": 2} for number in range(3)
    ]
    job = await stack.run("echo", message="{{ inputs.secret }} {{ job.id }}")
    assert job.job.result == {"message": "{{ inputs.secret }} {{ job.id }}"}
