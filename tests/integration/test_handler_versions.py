"""Tasks that need a version of their handler go only to workers that have it."""

from collections.abc import Sequence

import pytest

from anabranch.adapters.postgres.store.vitals import PostgresVitals
from anabranch.engine.job_retry import RetryPlan
from anabranch.engine.model import Claim, Ended, SessionId, SessionKind
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import FanOutNode, StageNode, TaskNode
from anabranch.workflows.stages import Job, declare
from anabranch.workflows.yaml.load import load_yaml
from tests.support.engine import LEASE, EngineHarness

pytestmark = pytest.mark.postgres


def versioned(needs: str = "handler_version: 2", name: str = "versioned") -> Workflow:
    text = f"workflow_id: {name}\nnodes:\n  work: {{handler: do, {needs}}}\n"
    return load_yaml(text, f"{name}.yaml").require()


async def worker(engine: EngineHarness, version: str) -> SessionId:
    """A worker with a version of the handler."""
    return await engine.store.open_session(SessionKind.WORKER, ["default"], 1, LEASE, {"do": version, "other": "2"})


def jobs(claims: Sequence[Claim]) -> list[str]:
    return [claim.lane.workflow for claim in claims]


@pytest.mark.parametrize("fits", ["2", "2.0", "2.13.1", "2rc1"])
@pytest.mark.parametrize("lacks", ["0", "1.2", "20.1", "3", "20241119103000"])
async def test_a_task_goes_to_a_worker_with_the_major_version_only(
    engine: EngineHarness, fits: str, lacks: str
) -> None:
    """Others claim what is behind it."""
    await engine.submit(versioned())
    await engine.submit(versioned("priority: 9", "behind"))
    assert jobs(await engine.claim(session=await worker(engine, lacks))) == ["behind"]
    assert jobs(await engine.claim(session=await worker(engine, fits))) == ["versioned"]


async def test_a_worker_that_does_not_say_what_it_has_gets_nothing_that_asks(engine: EngineHarness) -> None:
    await engine.submit(versioned())
    assert await engine.claim() == []
    assert await engine.store.claim_apart(engine.session, ["default"]) == []
    fits = await worker(engine, "2.1")
    assert jobs(await engine.store.claim_apart(fits, ["default"])) == ["versioned"]


async def test_what_no_live_worker_can_run_says_so(engine: EngineHarness, database_url: str) -> None:
    made = await engine.submit(versioned())
    old, dated = await worker(engine, "1.9"), await worker(engine, "20241119103000")
    assert (await engine.reads.job(made.job_id)).waiting_for == (
        "node work: no worker has version 2 of the handler do",
    )
    assert await missing(database_url) == {"do@2": 1}

    new = await worker(engine, "2.0")
    assert (await engine.reads.job(made.job_id)).waiting_for == ()
    assert await missing(database_url) == {}
    for session in (old, dated, new):
        await engine.store.end_session(session, "stopped")
    assert (await engine.reads.job(made.job_id)).waiting_for == ("node work: no worker has the handler do",)


async def missing(url: str) -> dict[str, int]:
    """What health says of handlers."""
    vitals = PostgresVitals(url, name="test")
    await vitals.open()
    try:
        return (await vitals.read_vitals()).missing_handlers
    finally:
        await vitals.close()


async def test_a_retried_task_needs_the_version_still_and_its_report_names_it(engine: EngineHarness) -> None:
    made = await engine.submit(versioned())
    engine.session = await worker(engine, "2.1")
    _, rights = await engine.end(await engine.claim(), Ended.FAILED)
    await engine.advance(rights)
    assert await versions(engine, made.job_id) == ["2.1"]
    found = await engine.reads.find(made.job_id)
    again = RetryPlan(("work",), frozenset())
    retried = await engine.store.retry(made.job_id, found.last_event, again, engine.session)
    assert retried.right
    await engine.advance([retried.right])

    assert await engine.claim(session=await worker(engine, "1.9")) == []
    engine.session = await worker(engine, "2.2")
    await engine.finish(await engine.claim())
    assert await versions(engine, made.job_id) == ["2.2"]


async def versions(engine: EngineHarness, job_id: str) -> list[str | None]:
    tasks = await engine.reads.tasks((await engine.reads.find(job_id)).id, limit=10, after=None, node=None, status=None)
    return [task.handler_version for task in tasks]


async def test_a_version_that_is_not_asked_for_changes_nothing(engine: EngineHarness, database_url: str) -> None:
    """Neither the hash of a workflow, nor who may claim."""
    plain, asked = versioned("priority: 5"), versioned("priority: 5, handler_version: 2")
    assert "handler_version" not in plain.text
    assert plain.hash != asked.hash
    with Clock(database_url):
        await engine.submit(plain)
        assert jobs(await engine.claim(session=await worker(engine, "7"))) == ["versioned"]


def test_nodes_fan_outs_and_stages_can_ask() -> None:
    text = "workflow_id: all\nnodes:\n  a: {handler: do, handler_version: 2, next: b}\n  b:\n    type: fan_out\n"
    a, b = (
        load_yaml(f"{text}    source: [1]\n    task: {{handler: do, handler_version: 3}}\n", "f.yaml").require().nodes
    )
    assert isinstance(a, TaskNode)
    assert isinstance(b, FanOutNode)
    assert (a.handler_version, getattr(b.task, "handler_version", None)) == (2, 3)

    class Staged(Job):
        """Of one stage."""

        job_type = "staged"
        stages = [{"number": 1, "name": "one", "task_type": "do", "handler_version": 4}]  # noqa: RUF012

    (stage,) = declare(Staged).workflow.nodes
    assert isinstance(stage, StageNode)
    assert stage.handler_version == 4


@pytest.mark.parametrize("needs", ["handler_version: '2.1'", "handler_version: -1", "handler_version: 2.5"])
def test_g4_a_version_is_a_whole_number(needs: str) -> None:
    loaded = load_yaml(f"workflow_id: x\nnodes:\n  work: {{handler: do, {needs}}}\n", "x.yaml")
    assert "handler_version" in str(loaded.mistakes[0])
