"""A task on files that is killed between its phases goes on with the files that are whole (W5)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anabranch.engine.model import JobState
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres

PLUGIN = """
import os, signal
from pathlib import Path
from anabranch import Context, handler

@handler("phased_file")
def phased_file(params: dict, ctx: Context) -> dict:
    notes = Path(params["notes"])

    def note(word):
        with notes.open("a") as file:
            file.write(f"{word}-{ctx.attempt} ")

    point = ctx.resume()
    path = ctx.work.fetch(point.state) if point else None
    if path is None:
        note("made")
        path = ctx.scratch / "file"
        path.write_text("whole")
        file = ctx.work.put(path)
        if params["damage"] and ctx.attempt == 1:
            (Path(params["area"]) / file["key"]).write_text("cut")
        ctx.checkpoint("written", file)
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    note("put")
    return {"content": path.read_text()}
"""
WORKFLOW = """
workflow_id: phased
inputs: {notes: {type: string}, area: {type: string}, damage: {type: boolean}}
nodes:
  only:
    handler: phased_file
    params: {notes: "{{ inputs.notes }}", area: "{{ inputs.area }}", damage: "{{ inputs.damage }}"}
"""


@pytest.fixture
async def stack(database_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "phased.py").write_text(PLUGIN)
    (plugins / "phased.yaml").write_text(WORKFLOW)
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        open_stack(database_url, tmp_path, [str(plugins)], orchestrated=True) as opened,
    ):
        yield opened


@pytest.mark.parametrize(("damage", "wanted"), [(False, "made-1 put-2 "), (True, "made-1 made-2 put-2 ")])
async def test_w5_a_phase_that_ended_is_not_done_again_unless_its_file_is_damaged(
    stack: Stack, tmp_path: Path, damage: bool, wanted: str
) -> None:
    job = await stack.run("phased", notes=str(tmp_path / "notes"), area=str(tmp_path / "work"), damage=damage)
    assert job.job.state is JobState.COMPLETED, job.job.error
    (task,) = await stack.tasks(job, "only")
    assert task.result == {"content": "whole"}
    assert (tmp_path / "notes").read_text() == wanted
