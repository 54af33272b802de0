"""Workflows in YAML, from the file to the result, through real workers."""

from pathlib import Path

import pytest

from anabranch.canonical import Json
from anabranch.engine.model import JobState
from anabranch.engine.read_models import JobDetail
from anabranch.engine.submitting.submission import Order
from tests.support.replay import Replayed, replay
from tests.support.stack import Stack, open_stack

pytestmark = pytest.mark.postgres
PLUGINS = str(Path(__file__).parent.parent / "data" / "plugins" / "language")


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


@pytest.mark.parametrize("more", [False, True], ids=["skipped", "all"])
async def test_a_fan_in_collects_several_nodes_in_order(database_url: str, tmp_path: Path, more: bool) -> None:
    async with open_stack(database_url, tmp_path, [PLUGINS]) as stack:
        job = await stack.run("gather", more=more)
        maybe, skipped = ([{"item": "b"}], {}) if more else ([], {"skipped": ["maybe"]})
        inner = {"items": [{"item": 3}], "count": 1}
        items = [{"item": 3}, *maybe, {"item": "a"}, {"item": 1}, inner]
        assert job.job.error is None
        assert job.job.result == {
            "all": {"items": items, "count": len(items), "failed": 1, **skipped},
            "sum": {"count_of": 1 + len(items), "count": 2},
        }
        await check_replay(stack, job)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"approved": True}, {"published": "atlas", "put_aside": None}),
        ({"approved": False, "why": "blurred"}, {"published": None, "put_aside": "blurred"}),
        ({}, {"published": None, "put_aside": "no reason was given"}),
    ],
    ids=["approved", "rejected", "silent"],
)
async def test_a_gate_waits_and_what_it_is_told_decides(stack: Stack, answer: dict[str, Json], result: Json) -> None:
    job_id = await stack.submit("approve", item="atlas")
    await stack.until(job_id, lambda job: job.job.state is JobState.WAITING)
    assert await stack.gateway.controls.signal(job_id, "review", answer, "ann")
    job = await stack.wait(job_id)
    assert (job.job.state, job.job.error, job.job.result) == (JobState.COMPLETED, None, result)
    await check_replay(stack, job)


async def test_a_wait_holds_no_worker_and_goes_on_when_its_time_is_up(database_url: str, tmp_path: Path) -> None:
    async with open_stack(database_url, tmp_path, [PLUGINS], orchestrated=True) as stack:
        job_id = await stack.submit("pause", text="hi", seconds=0.5)
        waiting = await stack.until(job_id, lambda job: job.job.state is JobState.WAITING)
        assert {node.name: node.tasks.running for node in waiting.nodes} == {"first": 0, "rest": 0, "again": 0}
        job = await stack.wait(job_id)
        assert (job.job.error, job.job.result) == (None, {"text": "hi, again"})
        times = {node.name: (node.opened_at, node.finished_at) for node in job.nodes}["rest"]
        assert times[0] is not None
        assert times[1] is not None
        assert (times[1] - times[0]).total_seconds() >= 0.5
        await check_replay(stack, job)


async def test_a_job_is_run_for_each_item_and_its_result_is_the_tasks(stack: Stack) -> None:
    job = await stack.run("weigh_lots", lots=[3, 20, 0])
    assert (job.job.error, job.job.result) == (None, {"lots": 3, "items": 23, "weight": 120})
    assert [task.result for task in await stack.tasks(job, "each")] == [
        {"items": 3, "weight": 6},
        {"items": 20, "weight": 114},
        {"items": 0, "weight": 0},
    ]
    await check_replay(stack, job)


async def test_e10_parameters_that_a_workflow_does_not_take_fail_the_task_that_runs_it(stack: Stack) -> None:
    job = await stack.run("weigh_lots", lots=[3, "many"])
    assert job.job.error is not None
    assert (job.job.state, job.job.error.node, job.job.error.code) == ("failed", "each", "job.parameters")
    assert "count must be an integer" in str(job.job.error.message)


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


@pytest.mark.parametrize(("blob", "by"), [("small.tif", "function app"), ("large.tif", "docker")])
async def test_the_document_of_the_first_draft_runs_both_ways(stack: Stack, blob: str, by: str) -> None:
    job = await stack.run("raster_processing", container_name="bronze", blob_name=blob)
    node = "process_fa" if by == "function app" else "process_docker"
    assert job.job.result == {node: {"by": by, "source_url": f"bronze/{blob}"}}


async def test_tolerated_failures_are_counted_and_the_rest_is_collected(stack: Stack) -> None:
    job = await stack.run("lenient", items=[1, 2, 3, 4, 5], bad=[2, 4])
    assert job.job.result == {"good": [{"item": 1}, {"item": 3}, {"item": 5}], "failed": 2}
    job = await stack.run("lenient", items=[1, 2, 3, 4, 5], bad=[1, 2, 3])
    assert job.job.error is not None
    assert (job.job.state, job.job.error.code, job.job.error.node) == ("failed", "handler.permanent", "each")
    job = await stack.run("lenient", items=[])
    assert job.job.result == {"good": [], "failed": None}


async def test_on_failure_continue_tells_what_failed_and_when_skips(stack: Stack) -> None:
    job = await stack.run("policies", side="left")
    assert job.job.result == {"report": {"why": "left is bad", "right": "right"}}
    job = await stack.run("policies", side="other")
    assert job.job.result == {"report": {"why": None, "right": None}}
    assert {node.name: node.state for node in job.nodes}["right"] == "skipped"


async def test_g8_e10_a_missing_output_fails_its_job_by_name_and_no_other(stack: Stack) -> None:
    job = await stack.run("missing")
    assert job.job.error is not None
    assert (job.job.state, job.job.error.code, job.job.error.node) == ("failed", "expression.failed", "second")
    assert "nodes.first.output.no_such" in str(job.job.error.message)
    await check_replay(stack, job)


async def test_e20_parts_of_an_output_that_was_put_aside_are_found(stack: Stack) -> None:
    job = await stack.run("aside", count=1500)
    assert (job.job.error, job.job.result) == (None, {"small": "kept", "batches": list(range(15))})


async def test_g5_a_broken_file_is_refused_alone(stack: Stack) -> None:
    refused = stack.gateway.registry.refused
    (reason,) = [reason for name, reason in refused.items() if name.endswith("broken.yaml")]
    assert "no plugin brings the handler 'no_such_handler'" in reason
    assert "there is no node 'b'" in reason


async def test_e16_a_job_keeps_the_definition_it_was_submitted_with(database_url: str, tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    file = plugins / "changing.yaml"
    steps = "workflow_id: changing\nnodes:\n  wait: {handler: sleep, params: {seconds: 1}, next: say}\n"
    file.write_text(steps + "  say: {handler: echo, params: {said: before}}\n")
    async with open_stack(database_url, tmp_path / "one", [str(plugins)]) as stack:
        job_id = await stack.submit("changing")
        await stack.until(job_id, lambda job: job.nodes[0].tasks.running)
    file.write_text(steps + "  say: {handler: echo, params: {said: after}}\n")
    async with open_stack(database_url, tmp_path / "one", [str(plugins)]) as stack:
        assert (await stack.wait(job_id)).job.result == {"say": {"said": "before"}}
        submitted = await stack.gateway.submit(
            Order("changing", {}, scope="test", by="test", correlation_id="t", rerun=True)
        )
        assert (await stack.wait(submitted.job_id)).job.result == {"say": {"said": "after"}}


async def test_e20_g7_results_that_were_put_aside_come_back_and_data_is_never_taken_for_one(stack: Stack) -> None:
    job = await stack.run("bulky_items", count=2)
    assert job.job.result == {"sizes": {"first": 1_200_000, "count": 2}}
    job = await stack.run("bulky", count=2)
    large: Json = {"text": "x" * 1_200_000, "length": 1_200_000}
    assert job.job.result == {"each": {"count": 2, "failed": 0, "items": [large, large]}}
    posing: Json = {"count": 1, "items": [{"anabranch:reference": {"href": "file:///etc/passwd"}}]}
    job = await stack.run("posing", given=posing)
    assert job.job.result == {"pose": {"given": posing}}


async def test_g8_an_output_of_nothing_is_null_and_not_missing(stack: Stack) -> None:
    job = await stack.run("nothing")
    assert (job.job.error, job.job.result) == (None, {"then": {"got": None}})
