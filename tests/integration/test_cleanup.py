"""Cleanup nodes, on the engine driven by hand: they run once, however the job ends."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.store.invariants import audit
from anabranch.adapters.postgres.store.vitals import PostgresVitals
from anabranch.canonical import Json
from anabranch.engine.job_retry import choose_retry
from anabranch.engine.model import Claim, Ended, JobState, NodeState, RetryAnswer, SessionKind
from anabranch.engine.ports import Submission
from anabranch.engine.task_parameters import TaskValues, fill_in
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nesting import nest
from anabranch.workflows.nodes import Kind
from anabranch.workflows.stages import Declaration
from anabranch.workflows.yaml.load import load_yaml
from tests.support.engine import EngineHarness
from tests.support.nodes import make_node
from tests.support.replay import replay

pytestmark = pytest.mark.postgres

CLEANED = """
workflow_id: cleaned
nodes:
  make: {handler: do, next: [one, two]}
  one: {handler: do}
  two: {handler: do}
  tidy:
    handler: do
    finally: true
    params: {how: "{{ job.ending }}", made: "{{ nodes.make.output.name }}", one: "{{ nodes.one.output }}"}
"""


@pytest.fixture(autouse=True)
def audited(database_url: str) -> Iterator[None]:
    """Whatever a test did, the engine's invariants hold, and events tell what happened (E17)."""
    yield
    assert [found for found in audit(database_url) if "_late_" not in found.check] == []


def load(text: str) -> Workflow:
    return load_yaml(text, "cleaned.yaml").require()


async def claim_one(engine: EngineHarness, node: str) -> Claim:
    (claim,) = await engine.claim()
    assert claim.lane.node == node
    return claim


async def parameters(engine: EngineHarness, workflow: Workflow, claim: Claim) -> dict[str, Json]:
    given = TaskValues(claim.lane.job_id, claim.lane.parameters, claim.lane.values, claim.item, claim.index)
    return fill_in(workflow.node(claim.lane.node), given)


async def fail(engine: EngineHarness, claim: Claim, message: str = "no") -> None:
    _, rights = await engine.end([claim], Ended.FAILED, {"code": "test", "message": message})
    await engine.advance(rights)


async def retry(engine: EngineHarness, job_id: str) -> RetryAnswer:
    job = await engine.reads.find(job_id)
    workflow, nodes = await engine.reads.workflow(job), await engine.reads.nodes(job.id)
    states, failed = {n.name: n.state for n in nodes}, {n.name: n.tasks.failed for n in nodes}
    verdict = await engine.store.retry(job_id, job.last_event, choose_retry(workflow, states, failed), engine.session)
    if verdict.right:
        await engine.advance([verdict.right])
    return verdict.answer


async def ending(engine: EngineHarness, job_id: str) -> tuple[JobState, JobState | None]:
    job = await engine.reads.find(job_id)
    return job.state, job.ending.state if job.ending else None


async def test_a_job_completes_once_its_cleanup_has(engine: EngineHarness) -> None:
    workflow = load(CLEANED)
    job = await engine.submit(workflow)
    await engine.finish([await claim_one(engine, "make")], {"name": "a"})
    await engine.finish(await engine.claim(), {"n": 1})
    assert await ending(engine, job.job_id) == (JobState.RUNNING, JobState.COMPLETED)
    tidy = await claim_one(engine, "tidy")
    assert await parameters(engine, workflow, tidy) == {"how": "completed", "made": "a", "one": {"n": 1}}
    await engine.finish([tidy], {"left": 0})
    assert await ending(engine, job.job_id) == (JobState.COMPLETED, None)
    assert (await engine.reads.job(job.job_id)).job.result == {"one": {"n": 1}, "two": {"n": 1}}


async def test_e1_a_job_that_fails_runs_its_cleanup_once_and_keeps_its_reason(engine: EngineHarness) -> None:
    """What was cancelled with it has stopped before, what is not there is null, and what fails then is no reason."""
    workflow = load(CLEANED)
    job = await engine.submit(workflow)
    await engine.finish([await claim_one(engine, "make")], {"name": "a"})
    one, two = sorted(await engine.claim(), key=lambda claim: claim.lane.node)
    await fail(engine, one, "broken")
    assert await ending(engine, job.job_id) == (JobState.RUNNING, JobState.FAILED)
    assert await engine.take_free() == 0
    assert await engine.claim() == [], "the other task runs yet"
    (answer,), _ = await engine.end([two])
    assert answer == "stale"
    assert await engine.take_free() == 1
    tidy = await claim_one(engine, "tidy")
    assert await parameters(engine, workflow, tidy) == {"how": "failed", "made": "a", "one": None}
    await fail(engine, tidy, "cleanup broke, too")
    found = await engine.reads.job(job.job_id)
    assert found.job.state is JobState.FAILED
    assert found.job.error is not None
    assert (found.job.error.message, found.job.error.node) == ("broken", "one")
    states = {node.name: (node.state, node.error and node.error.message) for node in found.nodes}
    assert states["tidy"] == (NodeState.FAILED, "cleanup broke, too")
    assert states["two"] == (NodeState.CANCELLED, None)


async def test_a_cleanup_that_fails_fails_a_job_that_was_well_and_runs_again_with_it(engine: EngineHarness) -> None:
    job = await engine.submit(load(CLEANED))
    await engine.finish(await engine.claim(), {"name": "a"})
    await engine.finish(await engine.claim(), {"n": 1})
    await fail(engine, await claim_one(engine, "tidy"), "left over")
    found = (await engine.reads.job(job.job_id)).job
    assert found.state is JobState.FAILED
    assert found.error is not None
    assert (found.error.message, found.error.node) == ("left over", "tidy")

    assert await retry(engine, job.job_id) == "retried"
    await engine.finish([await claim_one(engine, "tidy")])
    assert await engine.state(job.job_id) is JobState.COMPLETED
    assert (await engine.reads.job(job.job_id)).job.result == {"one": {"n": 1}, "two": {"n": 1}}


async def test_a_retry_runs_cleanup_again_at_its_own_end(engine: EngineHarness) -> None:
    job = await engine.submit(load(CLEANED))
    await fail(engine, await claim_one(engine, "make"))
    await engine.finish([await claim_one(engine, "tidy")])
    assert await engine.state(job.job_id) is JobState.FAILED

    assert await retry(engine, job.job_id) == "retried"
    await engine.finish([await claim_one(engine, "make")], {"name": "b"})
    await engine.finish(await engine.claim(), 0)
    await engine.finish([await claim_one(engine, "tidy")])
    assert await engine.state(job.job_id) is JobState.COMPLETED
    events = await engine.reads.events((await engine.reads.find(job.job_id)).id)
    assert [event.kind for event in events if event.kind == "job.ending"] == ["job.ending"] * 2
    assert replay(events, ["make", "one", "two", "tidy"]).state is JobState.COMPLETED


async def test_e7_a_cancelled_job_ends_when_its_cleanup_has_and_a_second_cancel_changes_nothing(
    engine: EngineHarness,
) -> None:
    job = await engine.submit(load(CLEANED))
    make = await claim_one(engine, "make")
    assert await engine.store.cancel(job.job_id, "enough", "ann") == (JobState.RUNNING, True)
    assert await engine.store.cancel(job.job_id, "again", "bob") == (JobState.RUNNING, False)
    assert await ending(engine, job.job_id) == (JobState.RUNNING, JobState.CANCELLED)
    assert (await engine.reads.job(job.job_id)).waiting_for == (
        "node make: its tasks were asked to stop, and cleanup begins when they have",
    )
    await engine.end([make])
    await engine.take_free()
    await engine.finish([await claim_one(engine, "tidy")])
    found = (await engine.reads.job(job.job_id)).job
    assert (found.state, found.error and found.error.message) == (JobState.CANCELLED, "enough")
    assert await engine.store.cancel(job.job_id, "again") == (JobState.CANCELLED, False)
    by = {event.kind: event.by for event in await engine.reads.events((await engine.reads.find(job.job_id)).id)}
    assert (by["job.ending"], by["job.cancelled"]) == ("ann", "ann")


async def test_a_job_that_has_not_begun_is_cancelled_at_once(engine: EngineHarness) -> None:
    workflow = load(CLEANED)
    job = await engine.store.submit(Submission(workflow, {}, "test", 5, False, "c"), engine.session)
    assert await engine.store.cancel(job.job_id, "no") == (JobState.CANCELLED, True)
    assert set((await engine.nodes(job.job_id)).values()) == {NodeState.CANCELLED}


async def test_e21_cleanup_goes_on_though_all_who_knew_of_it_died(engine: EngineHarness, clock: Clock) -> None:
    """The worker dies amid the work, another amid the cleanup, and the right to begin it with its holder."""
    job = await engine.submit(load(CLEANED))
    worker, other = await engine.new_session(), await engine.new_session()
    (lost,) = await engine.claim(session=worker)
    await engine.store.cancel(job.job_id, "enough")
    assert await engine.store.take_rights(other, 10) == [], "its task may run yet"
    await engine.store.end_session(worker, "killed")
    await engine.let_pass(clock, timedelta(seconds=10))
    assert len(await engine.store.take_rights(other, 10)) == 1
    await engine.store.end_session(other, "killed")
    assert await engine.take_free() == 1
    (answer,), _ = await engine.end([lost], session=worker)
    assert answer == "stale"
    third = await engine.new_session()
    assert len(await engine.claim(session=third)) == 1
    await engine.store.end_session(third, "killed")
    await engine.let_pass(clock, timedelta(minutes=1))
    tidy = await claim_one(engine, "tidy")
    assert tidy.attempt == 2
    await engine.finish([tidy])
    assert await engine.state(job.job_id) is JobState.CANCELLED


async def test_a_cleanup_node_may_be_left_out_by_how_the_job_ends(engine: EngineHarness) -> None:
    workflow = load("""
workflow_id: cleaned
nodes:
  work: {handler: do}
  tidy: {handler: do, finally: true, when: "job.ending != 'completed'", next: leave}
  leave: {handler: do, finally: true, params: {tidied: "{{ nodes.tidy.output }}"}}
output: {made: "{{ nodes.work.output }}"}
""")
    job = await engine.submit(workflow)
    await engine.finish([await claim_one(engine, "work")], 7)
    leave = await claim_one(engine, "leave")
    assert await parameters(engine, workflow, leave) == {"tidied": None}
    await engine.finish([leave])
    found = await engine.reads.job(job.job_id)
    assert (found.job.state, found.job.result) == (JobState.COMPLETED, {"made": 7})
    assert {node.name: node.state for node in found.nodes}["tidy"] is NodeState.SKIPPED


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_e1_e10_a_job_whose_stored_definition_is_broken_ends(
    engine: EngineHarness, database_url: str, *, is_cancelled: bool
) -> None:
    job = await engine.submit(load(CLEANED))
    make = await claim_one(engine, "make")
    with connect(database_url, None) as admin:
        admin.execute("""update app.workflows set definition = jsonb_set(definition, '{nodes}', '[7]')""")
    if is_cancelled:
        assert await engine.store.cancel(job.job_id, "enough") == (JobState.CANCELLED, True)
        return
    _, rights = await engine.end([make])
    await engine.advance(rights)
    assert (await engine.reads.find(job.job_id)).state is JobState.FAILED


async def test_o1_cleanup_that_waits_for_tasks_to_stop_is_not_late(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    """A handler that can't be killed delays it, and that is no fault of the orchestrators."""
    lasting = await engine.store.open_session(SessionKind.WORKER, ["default"], 1, timedelta(days=1))
    job = await engine.submit(load(CLEANED))
    (make,) = await engine.claim(session=lasting)
    await engine.store.cancel(job.job_id, "enough")
    await engine.let_pass(clock, timedelta(minutes=10))
    assert await engine.take_free() == 0
    vitals = PostgresVitals(database_url, name="test vitals")
    await vitals.open()
    try:
        assert (await vitals.read_vitals()).oldest_right_seconds is None
        assert (await vitals.gauges()).oldest_right_seconds == 0
        assert [found for found in audit(database_url) if found.check == "e6_late_rights"] == []
        await engine.end([make], session=lasting)
        assert (await vitals.read_vitals()).untaken_rights == 1
    finally:
        await vitals.close()


async def test_e10_a_cleanup_that_cannot_be_planned_fails_and_the_job_ends(engine: EngineHarness) -> None:
    workflow = load("""
workflow_id: cleaned
nodes:
  work: {handler: do}
  tidy: {handler: do, finally: true, params: {part: "{{ nodes.work.output.gone }}"}}
  leave: {handler: do, finally: true}
""")
    job = await engine.submit(workflow)
    await engine.finish([await claim_one(engine, "work")], {})
    await engine.finish([await claim_one(engine, "leave")])
    found = (await engine.reads.job(job.job_id)).job
    assert (found.state, found.error and found.error.code) == (JobState.FAILED, "expression.failed")


async def test_e7_child_jobs_clean_up_before_their_parent_does(engine: EngineHarness) -> None:
    """A child whose parent is cancelled is cancelled once, with its cleanup; then comes that of the parent."""
    child = Workflow(
        "child",
        (make_node("work", "do"), make_node("tidy", "do", ("work",), params={}, cleanup=True)),
    )
    parent = Workflow(
        "parent",
        (
            make_node("sub", kind=Kind.WORKFLOW, workflow="child", params={}),
            make_node("leave", "do", ("sub",), params={}, cleanup=True),
        ),
    )
    declared = nest({flow.id: Declaration(flow) for flow in (child, parent)}).declarations["parent"]
    submission = Submission(declared.workflow, {}, "test", 5, False, "c", parts=declared.parts)
    job = await engine.store.submit(submission, engine.session)
    await engine.advance(job.rights)
    (claim,) = await engine.claim(queues=("plan:child",))
    spawned = await engine.store.spawn(claim, Submission(child, {}, "s", 5, False, "c"), engine.session)
    assert spawned is not None
    await engine.advance(spawned.rights)
    work = await claim_one(engine, "work")

    assert await engine.store.cancel(job.job_id, "enough") == (JobState.RUNNING, True)
    assert await engine.store.cancel_orphans() == 1
    assert await engine.store.cancel_orphans() == 0, "it ends already"
    assert await ending(engine, spawned.job_id) == (JobState.RUNNING, JobState.CANCELLED)
    await engine.end([work])
    assert await engine.take_free() == 1
    await engine.finish([await claim_one(engine, "tidy")])
    assert await engine.state(spawned.job_id) is JobState.CANCELLED
    assert await engine.claim() == []
    await engine.take_free()
    await engine.take_free()
    await engine.finish([await claim_one(engine, "leave")])
    assert await engine.state(job.job_id) is JobState.CANCELLED
