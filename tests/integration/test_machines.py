"""Several machines: processes with a home each, one database and one object store (A6, TN3)."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from anabranch.canonical import Json
from anabranch.engine.submitting.submission import Order
from anabranch.gateway import Gateway
from anabranch.settings import Settings
from anabranch.storage.locations import StorageLocations
from tests.support.crew import Member, Stage, Start
from tests.support.objects import Cloud
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

pytestmark = pytest.mark.postgres

LEASE = 30.0
PLUGIN = """
import os, time
from pathlib import Path
from anabranch import Context, handler

@handler("machines.large")
def large(params: dict) -> dict:
    return {"text": params["letter"] * 5_000_000, "count": 3}

@handler("machines.measure")
def measure(params: dict) -> dict:
    return {"length": len(params["text"])}

@handler("machines.phased")
def phased(params: dict, ctx: Context) -> dict:
    point = ctx.resume()
    if point is None:
        made = ctx.scratch / "artifact"
        made.write_bytes(os.urandom(3_000_000))
        ctx.checkpoint("made", ctx.work.put(made))
        Path(params["notes"]).write_text(f"{ctx.attempt} {os.getpid()}")
        time.sleep(600)
    path = ctx.work.fetch(point.state)
    return {"from": point.attempt, "whole": path is not None and path.stat().st_size, "sha256": point.state["sha256"]}
"""
WORKFLOWS = {
    "large": """
        workflow_id: large
        inputs: {letter: {type: string, default: x}}
        nodes:
          make: {handler: machines.large, params: {letter: "{{ inputs.letter }}"}, next: again}
          again: {handler: echo, params: {count: "{{ nodes.make.output.count }}"}}
        output: {text: "{{ nodes.make.output.text }}", count: "{{ nodes.again.output.count }}"}
    """,
    "outer": """
        workflow_id: outer
        nodes:
          each:
            type: fan_out
            source: [a, b, c]
            task: {workflow: large, params: {letter: "{{ item }}"}}
            next: total
          total: {type: fan_in, aggregation: {sum: {sum: count}}}
        output: {sum: "{{ nodes.total.output.sum }}"}
    """,
    "phased": """
        workflow_id: phased
        inputs: {notes: {type: string, required: true}}
        nodes: {only: {handler: machines.phased, params: {notes: "{{ inputs.notes }}"}}}
    """,
}
DEMOS: dict[str, dict[str, Json]] = {
    "hello_world": {"n": 4},
    "approve": {},
    "diamond": {},
    "echo": {},
    "multi_phase": {"phases": 3, "seconds": 0},
    "nested": {},
    "pause": {"seconds": 0.1},
    "route_by_size": {"size_mb": 200},
    "weigh": {"count": 2_000},
    "weigh_lots": {},
}


class Machines(Stage):
    """Processes with a home each; all of them name the same tiers."""

    def __init__(self, start: Start, gateway: Gateway, cloud: Cloud) -> None:
        super().__init__(start, gateway)
        self.storage = {f"storage__{tier}": f"{cloud.url}/{tier}" for tier in ("bronze", "silver", "gold")}
        self.storage["storage__options"] = json.dumps(dict(cloud.options))

    def home(self, name: str) -> Path:
        return self.folder / "homes" / name

    async def start(self, role: str, name: str) -> Member:
        member = self.crew.start(role, home=self.home(name), slots=4, inline_result_bytes=10_000, **self.storage)
        await member.started()
        return member


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "machines.py").write_text(PLUGIN)
    for name, text in WORKFLOWS.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.fixture
async def machines(database_url: str, tmp_path: Path, plugins: Path, s3: Cloud) -> AsyncIterator[Machines]:
    tiers = {tier: f"{s3.url}/{tier}" for tier in ("bronze", "silver", "gold")}
    storage = StorageLocations(**tiers, options=SecretStr(json.dumps(dict(s3.options))))
    settings = Settings(plugins=(str(plugins),), home=tmp_path / "homes" / "api", storage=storage, lease_seconds=LEASE)
    gateway = Gateway(settings, database_url)
    stage = Machines(Start(tmp_path, plugins, database_url, LEASE), gateway, s3)
    await gateway.open()
    try:
        await asyncio.wait_for(gateway.ready(), PATIENCE_SECONDS)
        yield stage
    finally:
        stage.crew.close()
        await gateway.close()


async def test_a6_machines_with_a_home_each_run_every_demo_workflow(machines: Machines) -> None:
    await machines.start("orchestrator", "orchestrator")
    for name in ("one", "two"):
        await machines.start("worker", name)
    assert {*DEMOS} == {path.stem for path in demo_files()} | {"hello_world"}, "a demo workflow is not tried here"
    jobs = {name: await submit(machines, name, parameters) for name, parameters in DEMOS.items()}
    await machines.until(jobs["approve"], lambda job: job.job.state == "waiting")
    await machines.gateway.controls.signal(jobs["approve"], "review", {"approved": True}, "test")
    for job in jobs.values():
        await machines.complete(job)


async def test_a6_e20_large_results_of_tasks_jobs_and_child_jobs_pass_between_machines(machines: Machines) -> None:
    await machines.start("orchestrator", "orchestrator")
    for name in ("one", "two"):
        await machines.start("worker", name)
    many = [await submit(machines, "large", {"letter": letter}) for letter in "xyz"]
    for job_id, letter in zip(many, "xyz", strict=True):
        job = await machines.complete(job_id)
        assert job.job.result == {"text": letter * 5_000_000, "count": 3}
        (task,) = await machines.tasks(job, "make")
        assert task.result == {"text": letter * 5_000_000, "count": 3}
    outer = await machines.complete(await submit(machines, "outer", {}))
    assert outer.job.result == {"sum": 9}
    with psycopg.connect(machines.url) as connection:
        (largest,) = connection.execute("select max(octet_length(result::text)) from app.jobs").fetchall()[0]
    assert largest < 10_000, "a result over the limit is not in its job's row"


async def test_a6_w5_a_checkpoint_goes_on_on_another_machine_when_the_first_is_gone_with_its_home(
    machines: Machines,
) -> None:
    await machines.start("orchestrator", "orchestrator")
    first = await machines.start("worker", "one")
    job_id = await submit(machines, "phased", {"notes": str(machines.notes)})
    await wait_until_async(machines.notes.read_text, what="a checkpoint")
    _, pid = machines.notes.read_text().split()
    first.kill()
    await wait_until_async(lambda: not Path(f"/proc/{pid}").exists(), what="the end of its child")
    shutil.rmtree(machines.home("one"))
    machines.end_sessions(first)

    await machines.start("worker", "two")
    (task,) = await machines.tasks(await machines.complete(job_id), "only")
    assert task.attempts == 2
    assert isinstance(task.result, dict)
    assert (task.result["from"], task.result["whole"]) == (1, 3_000_000)


async def test_tn3_a_worker_with_tiers_of_its_own_refuses_to_start(machines: Machines) -> None:
    await machines.start("worker", "one")
    stranger = machines.crew.start("worker", home=machines.home("other"))
    assert await stranger.ended() != 0
    told = stranger.log.read_text()
    assert "storage.not_shared" in told
    assert "ANABRANCH_STORAGE__BRONZE" in told
    assert f"bronze at {(machines.home('other') / 'bronze').as_uri()}" in told
    for role in ("orchestrator", "api"):
        refused = machines.crew.start(role, home=machines.home("other"), port=0)
        assert await refused.ended() != 0
        assert "storage.not_shared" in refused.log.read_text()


async def submit(machines: Machines, workflow: str, parameters: dict[str, Any]) -> str:  # any JSON
    given = await machines.gateway.submit(
        Order(workflow, parameters, scope="default", by="test", correlation_id="test")
    )
    return given.job_id


def demo_files() -> list[Path]:
    return list((Path(__file__).parents[2] / "src/anabranch/plugins/demo/workflows").glob("*.yaml"))
