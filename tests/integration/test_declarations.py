import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from anabranch import InputError
from anabranch.api.answers.build import build_job
from anabranch.canonical import Json
from anabranch.engine.model import JobState
from anabranch.engine.read_models import JobDetail
from tests.support.stack import Stack, open_stack

pytestmark = pytest.mark.postgres
ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "tests" / "data" / "plugins"
SEEDS = PLUGINS / "seeds"
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@asynccontextmanager
async def opened(url: str, folder: Path, plugins: Path) -> AsyncIterator[Stack]:
    async with open_stack(url, folder, [str(plugins)]) as stack:
        assert stack.gateway.registry.refused == {}
        yield stack


async def results(stack: Stack, job: JobDetail, node: str) -> dict[str, Json]:
    assert job.job.state is JobState.COMPLETED, job.job.error
    return {str(task.index): task.result for task in await stack.tasks(job, node)}


async def test_the_entire_job_definition_of_seed_002_runs_as_printed(database_url: str, tmp_path: Path) -> None:
    async with opened(database_url, tmp_path, SEEDS / "seed_002") as stack:
        job = await stack.run("hello_world", n=2)
        assert await results(stack, job, "reply") == {
            "0": {"reply": "Replying to: Hello from task 0"},
            "1": {"reply": "Replying to: Hello from task 1"},
        }
        with pytest.raises(InputError, match="n must be at most 1000"):
            await stack.submit("hello_world", n=1001)
        assert await results(stack, await stack.run("tiles"), "stage2") == {"0": {"width": 10}, "1": {"width": 10}}


async def test_the_handlers_of_seed_003_run_as_printed(database_url: str, tmp_path: Path) -> None:
    async with opened(database_url, tmp_path, SEEDS / "seed_003") as stack:
        job = await stack.run("validate_raster", blob_path="a.tif")
        assert job.job.result == {"validate": {"crs": "EPSG:4326", "bounds": [0, 0, 1, 1], "size_mb": 150}}
        failed = await stack.run("validate_raster")
        assert failed.job.error is not None
        assert failed.job.error.message == "there is no blob_path"


async def test_the_job_structure_of_seed_004_runs_as_printed(database_url: str, tmp_path: Path) -> None:
    async with opened(database_url, tmp_path, SEEDS / "seed_004") as stack:
        job = await stack.run("your_job", param1=" x ", param2=2)
        assert await results(stack, job, "stage_name") == {"task-0": {"param": "x"}, "task-1": {"param": "x"}}
        with pytest.raises(InputError, match="param1 must not be empty"):
            await stack.submit("your_job", param1="")
        with pytest.raises(InputError, match="param1 is required"):
            await stack.submit("your_job")


async def test_the_blueprints_of_seed_004_run_as_printed(database_url: str, tmp_path: Path) -> None:
    async with opened(database_url, tmp_path, SEEDS / "seed_004") as stack:
        for name, last in (
            ("hello_world", "reply"), ("process_raster_v2", "create_stac"), ("process_raster", "catalog")
        ):  # fmt: skip
            assert (await stack.run(name, raster="a.tif")).job.result == {last: {"raster": "a.tif"}}
        job = await stack.run("task_contract", n=2, message="Hi")
        assert await results(stack, job, "stage1") == {str(i): {"index": i, "message": "Hi"} for i in range(2)}


async def test_the_parallelism_patterns_of_seed_004_run_as_printed(database_url: str, tmp_path: Path) -> None:
    async with opened(database_url, tmp_path, SEEDS / "seed_004") as stack:
        job = await stack.run("n_from_parameters", n=3)
        assert await results(stack, job, "stage1") == {str(i): {"i": i} for i in range(3)}
        job = await stack.run("hardcoded", raster="a.tif")
        assert await results(stack, job, "stage1") == {"analyze": {"raster": "a.tif"}}
        job = await stack.run("tile_grid", bounding_box=[0, 0, 20, 20])
        assert (await results(stack, job, "stage1"))["tile-1-1"] == {"tile": [10, 10]}
        job = await stack.run("file_list", container="bronze")
        assert list(await results(stack, job, "stage2")) == ["a.tif", "b-1.tif", "c d.tif"]
        job = await stack.run("raster_tiling", raster="a.tif")
        assert list(await results(stack, job, "stage2")) == ["tile-0-0", "tile-1-0", "tile-0-1", "tile-1-1"]
        job = await stack.run("diamond")
        summary = {"total_files": 3, "total_size_mb": 3}
        assert await results(stack, job, "stage4") == {"0": {"summary": summary}}
        assert {"summary": summary} in [done.output for done in build_job(job).stage_results.values()]


async def test_every_form_of_handler_runs(database_url: str, tmp_path: Path) -> None:
    async with opened(database_url, tmp_path, PLUGINS / "forms") as stack:
        job = await stack.run("forms", forms=["params", "params_context", "annotated", "context", "listed", "static"])
        assert await results(stack, job, "form") == {
            "params": 5,
            "params_context": [5, "params_context"],
            "annotated": {"total": 7},
            "context": {"a": 5},
            "listed": "5 in form",
            "static": "static 5",
        }
    with psycopg.connect(database_url) as connection:
        measured = connection.execute("select metrics from app.traces where metrics is not null").fetchall()
    assert measured == [({"seen": 1, "rows": 7},)]


GATED = """
from anabranch import Job, handler, register_job

@register_job
class Reviewed(Job):
    job_type = "reviewed"
    stages = [
        {"number": 1, "name": "work", "task_type": "reviewed.work", "parallelism": "fixed", "count": 2},
        {"number": 2, "name": "review", "type": "gate", "answer": {"approved": {"type": "boolean", "required": True}}},
        {"number": 3, "name": "keep", "task_type": "reviewed.keep", "depends_on_stage": 2},
        {"number": 4, "name": "all", "task_type": "reviewed.all", "parallelism": "fan_in",
         "depends_on_stage": [1, 2, 3]},
    ]

    def create_tasks_for_stage(self, stage, params, job_id, previous_results):
        if stage == 1:
            return [{"n": 1}, {"n": 2}]
        (answer,) = previous_results
        return [{"n": 3}] if answer["result"]["approved"] else []

@handler("reviewed.work")
def work(params):
    return params["n"]

@handler("reviewed.keep")
def keep(params):
    return params["n"]

@handler("reviewed.all")
def all_of(params):
    return [task["result"] for task in params["previous_results"]]
"""


@pytest.mark.parametrize(("approved", "kept"), [(True, [3]), (False, [])])
async def test_a_gate_among_stages_waits_and_gives_its_answer_to_the_next(
    database_url: str, tmp_path: Path, approved: bool, kept: list[Json]
) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "gated.py").write_text(GATED)
    async with opened(database_url, tmp_path, plugins) as stack:
        job_id = await stack.submit("reviewed")
        waiting = await stack.until(job_id, lambda job: job.job.state is JobState.WAITING)
        assert build_job(waiting).stage == 2
        answer: dict[str, Json] = {"approved": approved}
        assert await stack.gateway.controls.signal(job_id, "review", answer, "ann")
        job = await stack.wait(job_id)
        assert (job.job.error, job.job.result) == (None, {"all": [1, 2, answer, *kept]})


async def test_a_class_is_made_once_in_each_process(database_url: str, tmp_path: Path) -> None:
    async with opened(database_url, tmp_path, PLUGINS / "forms") as stack:
        job = await stack.run("forms", forms=[f"class {number}" for number in range(10)])
        calls: dict[Json, list[Json]] = {}
        for result in (await results(stack, job, "form")).values():
            assert isinstance(result, dict)
            calls.setdefault(str(result["pid"]), []).append(result["calls"])
    for counted in calls.values():
        assert sorted(map(str, counted), key=int) == [str(number + 1) for number in range(len(counted))]


async def test_a_returned_failure_fails_its_task_and_a_dict_with_more_keys_is_data(
    database_url: str, tmp_path: Path
) -> None:
    async with opened(database_url, tmp_path, PLUGINS / "forms") as stack:
        job = await stack.run("forms", forms=["failed", "retried", "data", "refused", "wrong"])
        tasks = {str(task.index): task for task in await stack.tasks(job, "form")}
    told = {name: task.error and (task.error.code, task.error.message) for name, task in tasks.items()}
    assert told["failed"] == ("handler.error", "no such file")
    assert told["refused"] == ("handler.error", "not a raster")
    assert told["wrong"] == ("handler.contract", "form.wrong returned a object; return a dict or a model")
    assert (tasks["failed"].attempts, tasks["retried"].attempts, tasks["retried"].status) == (1, 3, "completed")
    assert tasks["data"].result == {"success": False, "error": "a column of the table", "rows": 3}


def write_examples(folder: Path, *pages: str) -> Path:
    folder.mkdir()
    for page in pages:
        for number, example in enumerate(EXAMPLE.findall((ROOT / "docs" / "howto" / f"{page}.md").read_text())):
            (folder / f"{page}_{number}.py").write_text(example)
    return folder


USING = """
from anabranch import Job, TaskSpec, register_job

@register_job
class Using(Job):
    job_type = "using"
    stages = [{"number": 1, "name": "use", "task_type": "area.of_model"}]

    def create_tasks_for_stage(self, stage, params):
        forms = ("area.of_model", "area.of_context", "area.of_class", "tiles.fetch")
        return [TaskSpec({"side": 3}, index=form, task_type=form) for form in forms]
"""


async def test_the_examples_of_the_docs_run(database_url: str, tmp_path: Path) -> None:
    folder = write_examples(tmp_path / "plugins", "declarations", "handlers")
    (folder / "using.py").write_text(USING)
    async with opened(database_url, tmp_path, folder) as stack:
        assert (await stack.run("count_words", texts=["a b", "c"])).job.result == {"add": {"words": 3}}
        job = await stack.run("measure_tiles", columns=3)
        assert job.job.result == {"measure": {"tiles": 6, "largest": 30}}
        assert "x2-y1" in await results(stack, job, "measure")
        assert await results(stack, await stack.run("relay"), "use") == {"0": 1, "1": 3}
        assert await results(stack, await stack.run("using"), "use") == {
            "area.of_model": 9.0,
            "area.of_context": {"area": 9},
            "area.of_class": 9,
            "tiles.fetch": {"size": 0, "name": "tile.tif"},
        }
