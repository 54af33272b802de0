"""Retries, gates, waits, child jobs, limits and drains, on the engine driven by hand."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from anabranch.adapters.postgres.store.invariants import audit
from anabranch.canonical import Json
from anabranch.engine.child_jobs import ChildJobs
from anabranch.engine.job_retry import choose_retry
from anabranch.engine.model import (
    Answer,
    Claim,
    Ended,
    JobState,
    LimitKind,
    NodeState,
    Purpose,
    RetryAnswer,
    SignalAnswer,
)
from anabranch.engine.ports import Submission
from anabranch.engine.registry import Registry
from anabranch.engine.task_parameters import Definitions
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.edges import Branch
from anabranch.workflows.nesting import nest
from anabranch.workflows.nodes import Kind, OnFailure, Spread, Tolerance
from anabranch.workflows.stages import Declaration
from anabranch.workflows.work import Retry
from tests.support.engine import EngineHarness, fan_out
from tests.support.nodes import make_node
from tests.support.replay import replay

pytestmark = pytest.mark.postgres


@pytest.fixture(autouse=True)
def audited(database_url: str) -> Iterator[None]:
    """Whatever a test did, the engine's invariants hold."""
    yield
    assert [found for found in audit(database_url) if "_late_" not in found.check] == []


async def retry(engine: EngineHarness, job_id: str, **choice: object) -> RetryAnswer:
    """Retry a job as the API does; the verdict."""
    job = await engine.reads.find(job_id)
    workflow, nodes = await engine.reads.workflow(job), await engine.reads.nodes(job.id)
    states, failed = {n.name: n.state for n in nodes}, {n.name: n.tasks.failed for n in nodes}
    again = choose_retry(workflow, states, failed, **choice)  # type: ignore[arg-type]  # its keywords
    verdict = await engine.store.retry(job_id, job.last_event, again, engine.session)
    if verdict.right:
        await engine.advance([verdict.right])
    return verdict.answer


async def fail(engine: EngineHarness, claims: list[Claim]) -> None:
    _, rights = await engine.end(claims, Ended.FAILED)
    await engine.advance(rights)


def indexes(claims: list[Claim]) -> list[int | str]:
    return sorted(claim.index for claim in claims)


class TestRetry:
    async def test_the_time_before_a_retry_is_idle(self, engine: EngineHarness, clock: Clock) -> None:
        job = await engine.submit(fan_out(1))
        await fail(engine, await engine.claim())
        clock.advance(timedelta(hours=1))
        assert await retry(engine, job.job_id) == "retried"
        clock.advance(timedelta(seconds=9))
        await fail(engine, await engine.claim())
        clock.advance(timedelta(minutes=1))
        assert await retry(engine, job.job_id) == "retried"
        (listed,) = await engine.reads.jobs(limit=10)
        assert (await engine.reads.find(job.job_id)).idle_seconds == listed.idle_seconds == 3660

    async def test_only_the_tasks_that_did_not_complete_run_again(self, engine: EngineHarness) -> None:
        job = await engine.submit(fan_out(5, on_failure=OnFailure.FINISH))
        claims = await engine.claim()
        await engine.end(claims[:3], body="kept")
        await fail(engine, claims[3:])
        assert await engine.state(job.job_id) is JobState.FAILED

        assert await retry(engine, job.job_id) == "retried"
        again = await engine.claim()
        assert indexes(again) == indexes(claims[3:])
        await engine.finish(again, body="mended")
        (join,) = await engine.claim()
        await engine.finish([join], body="done")
        assert await engine.state(job.job_id) is JobState.COMPLETED
        page = await engine.store.node_results(job.job_id, "work", -1)
        assert page is not None
        assert page.count == 5
        assert (page.lines.count("kept"), page.lines.count("mended")) == (3, 2)

    async def test_e3_attempts_never_fall_and_what_ran_before_the_retry_is_stale(self, engine: EngineHarness) -> None:
        job = await engine.submit(fan_out(2))
        first, second = await engine.claim()
        await fail(engine, [first])
        assert await retry(engine, job.job_id) == "retried"

        answers, rights = await engine.end([second], body="late")
        assert (answers, rights) == ([Answer.STALE], [])
        again = await engine.claim()
        assert [(claim.index, claim.attempt) for claim in sorted(again, key=lambda c: c.key)] == [(0, 2), (1, 2)]

    async def test_what_is_behind_runs_whole_with_attempts_above_the_old_ones(self, engine: EngineHarness) -> None:
        job = await engine.submit(fan_out(1))
        (task,) = await engine.claim()
        await engine.finish([task], body=1)
        (join,) = await engine.claim()
        await engine.finish([join], body="old")

        assert await retry(engine, job.job_id, from_node="work") == "retried"
        (task,) = await engine.claim()
        assert task.attempt == 2
        await engine.finish([task], body=2)
        (join,) = await engine.claim()
        assert join.attempt == 2
        await engine.finish([join], body="new")
        assert (await engine.reads.job(job.job_id)).job.result == {"join": "new"}

    async def test_a_cancelled_job_goes_on_with_what_it_had(self, engine: EngineHarness) -> None:
        job = await engine.submit(fan_out(3))
        (first, *_) = await engine.claim(1)
        await engine.finish([first])
        await engine.store.cancel(job.job_id, "test")
        assert await retry(engine, job.job_id) == "retried"
        assert indexes(await engine.claim()) == [1, 2]

    async def test_tolerated_failures_of_a_completed_job_can_be_tried_again(self, engine: EngineHarness) -> None:
        job = await engine.submit(fan_out(2, on_failure=OnFailure.CONTINUE))
        first, second = await engine.claim()
        await engine.end([first])
        await fail(engine, [second])
        (join,) = await engine.claim()
        await engine.finish([join])
        assert await engine.state(job.job_id) is JobState.COMPLETED

        assert await retry(engine, job.job_id) == "retried"
        assert indexes(await engine.claim()) == [1]

    async def test_two_retries_at_once_make_one_generation(self, engine: EngineHarness) -> None:
        job = await engine.submit(fan_out(1))
        await fail(engine, await engine.claim())
        verdicts = await asyncio.gather(*(retry(engine, job.job_id) for _ in range(4)), return_exceptions=True)
        assert [verdict for verdict in verdicts if verdict == "retried"] == ["retried"]
        assert (await engine.reads.find(job.job_id)).generation == 1

    async def test_only_the_newest_job_of_its_parameters_is_retried(self, engine: EngineHarness) -> None:
        old = await engine.submit(fan_out(1))
        await fail(engine, await engine.claim())
        await engine.submit(fan_out(1))
        assert await retry(engine, old.job_id) == "older"

    async def test_an_open_job_is_not_retried(self, engine: EngineHarness) -> None:
        job = await engine.submit(fan_out(1))
        again = choose_retry(fan_out(1), {"work": NodeState.FAILED, "join": NodeState.PENDING}, {})
        assert (await engine.store.retry(job.job_id, 3, again, engine.session)).answer is RetryAnswer.OPEN

    async def test_a_right_of_the_old_generation_is_lost(self, engine: EngineHarness) -> None:
        job = await engine.submit(fan_out(2, on_failure=OnFailure.FINISH))
        _, old = await engine.end(await engine.claim(), Ended.FAILED)
        await engine.store.cancel(job.job_id, "test")
        assert await retry(engine, job.job_id) == "retried"
        assert await engine.advance(old) == 0
        assert await engine.nodes(job.job_id) == {"work": NodeState.RUNNING, "join": NodeState.PENDING}

    async def test_e17_events_replay_over_generations(self, engine: EngineHarness) -> None:
        job = await engine.submit(fan_out(1))
        await fail(engine, await engine.claim())
        await retry(engine, job.job_id)
        await engine.finish(await engine.claim())
        await engine.finish(await engine.claim())
        detail = await engine.reads.job(job.job_id)
        replayed = replay(await engine.reads.events(detail.job.id), ["work", "join"])
        assert (replayed.state, replayed.nodes) == (JobState.COMPLETED, await engine.nodes(job.job_id))

    async def test_a_conditional_behind_decides_anew(self, engine: EngineHarness) -> None:
        yes, no = Branch(("yes",), "nodes.a.output.ok == true"), Branch(("no",), is_default=True)
        workflow = Workflow(
            "w",
            (
                make_node("a", "h"),
                make_node("c", kind=Kind.CONDITIONAL, after=("a",), branches=(yes, no)),
                make_node("yes", "h", after=("c",)),
                make_node("no", "h", after=("c",)),
            ),
        )
        job = await engine.submit(workflow)
        await engine.finish(await engine.claim(), body={"ok": False})
        await fail(engine, await engine.claim())
        await retry(engine, job.job_id, from_node="a")
        await engine.finish(await engine.claim(), body={"ok": True})
        (claim,) = await engine.claim()
        assert claim.lane.node == "yes"
        assert (await engine.nodes(job.job_id))["no"] is NodeState.SKIPPED

    async def test_planned_tasks_keep_their_plan(self, engine: EngineHarness) -> None:
        planned = Workflow("w", (make_node("a", "h", planned=True, spread=Spread.DYNAMIC),))
        job = await engine.submit(planned)
        (plan,) = await engine.claim(queues=["plan:w"])
        tasks: list[Json] = [{"key": f"t{n}", "parameters": {"n": n}, "handler": None} for n in range(3)]
        await engine.finish([plan], body=tasks)
        claims = await engine.claim()
        await engine.end(claims[:1])
        await fail(engine, claims[1:])
        await retry(engine, job.job_id)
        again = await engine.claim()
        assert [(claim.index, claim.parameters) for claim in sorted(again, key=lambda c: c.key)] == [
            ("t1", {"n": 1}),
            ("t2", {"n": 2}),
        ]
        assert all(claim.lane.purpose is Purpose.WORK for claim in again)


def gated(**more: object) -> Workflow:
    gate = make_node("gate", kind=Kind.GATE, **more)  # type: ignore[arg-type]  # fields of Node
    after = make_node("after", "h", after=("gate",), params={"who": "{{ nodes.gate.output.by }}"})
    return Workflow("gated", (gate, after))


async def signal(engine: EngineHarness, job_id: str, payload: dict[str, Json]) -> SignalAnswer:
    verdict = await engine.store.signal(job_id, "gate", payload, "tester", engine.session)
    if verdict.right:
        await engine.advance([verdict.right])
    return verdict.answer


class TestGates:
    async def test_a_job_waits_at_its_gate_and_goes_on_with_the_signal(self, engine: EngineHarness) -> None:
        job = await engine.submit(gated())
        assert await engine.state(job.job_id) is JobState.WAITING
        assert await signal(engine, job.job_id, {"by": "ann"}) == "accepted"
        assert await engine.state(job.job_id) is JobState.RUNNING
        (claim,) = await engine.claim()
        assert claim.lane.values == {"nodes.gate.output.by": "ann"}

    async def test_the_first_signal_stands(self, engine: EngineHarness) -> None:
        job = await engine.submit(gated())
        assert await signal(engine, job.job_id, {"by": "ann"}) == "accepted"
        assert await signal(engine, job.job_id, {"by": "ann"}) == "same"
        assert await signal(engine, job.job_id, {"by": "bob"}) == "other"

    async def test_an_early_signal_is_kept(self, engine: EngineHarness) -> None:
        workflow = Workflow("w", (make_node("first", "h"), make_node("gate", kind=Kind.GATE, after=("first",))))
        job = await engine.submit(workflow)
        assert await signal(engine, job.job_id, {}) == "accepted"
        await engine.finish(await engine.claim())
        assert await engine.state(job.job_id) is JobState.COMPLETED

    async def test_a_gate_that_nobody_signals_fails_in_time(self, engine: EngineHarness, clock: Clock) -> None:
        job = await engine.submit(gated(timeout=timedelta(hours=1)))
        clock.advance(timedelta(minutes=59))
        await take_free(engine)
        assert await engine.state(job.job_id) is JobState.WAITING
        clock.advance(timedelta(minutes=2))
        await take_free(engine)
        detail = await engine.reads.job(job.job_id)
        assert (detail.job.state, detail.job.error and detail.job.error.code) == (JobState.FAILED, "gate.timed_out")

    async def test_a_retried_gate_asks_again(self, engine: EngineHarness) -> None:
        job = await engine.submit(gated())
        await signal(engine, job.job_id, {"by": "ann"})
        await fail(engine, await engine.claim())
        await retry(engine, job.job_id, from_node="gate")
        assert await engine.state(job.job_id) is JobState.WAITING
        assert await signal(engine, job.job_id, {"by": "bob"}) == "accepted"
        assert await engine.state(job.job_id) is JobState.RUNNING

    async def test_a_signal_to_what_is_over_is_refused(self, engine: EngineHarness) -> None:
        job = await engine.submit(gated())
        await engine.store.cancel(job.job_id, "test")
        assert await signal(engine, job.job_id, {}) == "ended"

    async def test_e6_many_equal_signals_at_once_advance_once(self, engine: EngineHarness) -> None:
        job = await engine.submit(gated())
        words = await asyncio.gather(*(signal(engine, job.job_id, {"by": "ann"}) for _ in range(8)))
        assert sorted(words) == ["accepted", *["same"] * 7]
        assert len(await engine.claim()) == 1

    async def test_a_payload_named_branch_is_no_branch(self, engine: EngineHarness) -> None:
        job = await engine.submit(gated())
        await signal(engine, job.job_id, {"by": "x", "branch": 7})
        assert (await engine.nodes(job.job_id))["after"] is NodeState.RUNNING


async def take_free(engine: EngineHarness) -> int:
    from anabranch.engine.advancing.advancer import Advancer

    return await Advancer(engine.store, engine.session, engine.results).take_free()


class TestWaits:
    async def test_e18_a_wait_lasts_by_the_clock_of_the_database(self, engine: EngineHarness, clock: Clock) -> None:
        wait = make_node("wait", kind=Kind.WAIT, duration_seconds="{{ inputs.n }}")
        job = await engine.submit(Workflow("w", (wait, make_node("then", "h", after=("wait",)))), n=60)
        assert await engine.state(job.job_id) is JobState.WAITING
        clock.advance(timedelta(seconds=59))
        assert await take_free(engine) == 0
        clock.advance(timedelta(seconds=2))
        assert await take_free(engine) == 1
        assert await engine.state(job.job_id) is JobState.RUNNING
        assert len(await engine.claim()) == 1

    async def test_a_time_in_the_past_is_no_wait(self, engine: EngineHarness) -> None:
        job = await engine.submit(Workflow("w", (make_node("wait", kind=Kind.WAIT, until="2001-01-01T00:00:00Z"),)))
        assert await engine.state(job.job_id) is JobState.COMPLETED

    @pytest.mark.parametrize("time", ["tomorrow", "2030-01-01T00:00:00", 5])
    async def test_a_time_that_is_none_fails_its_node(self, engine: EngineHarness, time: Json) -> None:
        job = await engine.submit(Workflow("w", (make_node("wait", kind=Kind.WAIT, until="{{ inputs.t }}"),)), t=time)
        assert await engine.state(job.job_id) is JobState.FAILED

    async def test_e1_a_waiting_job_is_not_stuck_and_nothing_else_waits_with_it(
        self, engine: EngineHarness, database_url: str
    ) -> None:
        both = Workflow("w", (make_node("gate", kind=Kind.GATE), make_node("task", "h")))
        job = await engine.submit(both)
        assert await engine.state(job.job_id) is JobState.RUNNING
        await engine.finish(await engine.claim())
        assert await engine.state(job.job_id) is JobState.WAITING
        with psycopg.connect(database_url) as connection:
            assert connection.execute("select * from app.stuck_jobs").fetchall() == []

    async def test_e7_a_cancelled_wait_never_fires(self, engine: EngineHarness, clock: Clock) -> None:
        job = await engine.submit(Workflow("w", (make_node("wait", kind=Kind.WAIT, duration_seconds=5),)))
        await engine.store.cancel(job.job_id, "test")
        clock.advance(timedelta(seconds=10))
        assert await take_free(engine) == 0
        assert await engine.state(job.job_id) is JobState.CANCELLED


CHILD = Workflow("child", (make_node("work", "h"),), inputs=None)


def parent(count: int = 0, **more: object) -> Declaration:
    """A workflow that runs the child once, or for each of so many items."""
    fields: dict[str, object] = {"workflow": "child", "params": {"n": "{{ item }}" if count else 7}, **more}
    if count:
        fields |= {"source": list(range(count)), "kind": Kind.FAN_OUT}
    node = make_node("sub", **{"kind": Kind.WORKFLOW, **fields})  # type: ignore[arg-type]  # fields of Node
    nested = nest({"child": Declaration(CHILD), "parent": Declaration(Workflow("parent", (node,)))})
    assert not nested.refused
    return nested.declarations["parent"]


async def submit(engine: EngineHarness, declared: Declaration) -> str:
    submission = Submission(declared.workflow, {}, "test", 3, False, "correlation", parts=declared.parts)
    submitted = await engine.store.submit(submission, engine.session)
    await engine.advance(submitted.rights)
    return submitted.job_id


async def spawn(engine: EngineHarness, limit: int = 100) -> list[str]:
    """What a worker does with the tasks that are jobs."""
    child_jobs = ChildJobs(engine.store, Registry(), Definitions(engine.store), engine.session)
    spawned = []
    for claim in await engine.claim(limit, queues=["plan:child"]):
        params: dict[str, Json] = {"n": claim.item if claim.item is not None else 7}
        found = await child_jobs.spawn(claim, params)
        assert found
        assert await child_jobs.spawn(claim, params) == replace(found, rights=())
        await engine.advance(found.rights)
        spawned.append(found.job_id)
    return spawned


class TestChildJobs:
    async def test_the_result_of_the_child_is_the_output_of_the_node(self, engine: EngineHarness) -> None:
        job = await submit(engine, parent())
        (child,) = await spawn(engine)
        assert (await engine.reads.find(child)).priority == 3
        await engine.finish(await engine.claim(), body={"answer": 42})
        assert await engine.state(child) is JobState.COMPLETED
        assert (await engine.reads.job(job)).job.result == {"sub": {"work": {"answer": 42}}}

    async def test_a_fan_out_of_jobs_keeps_to_its_window(self, engine: EngineHarness) -> None:
        job = await submit(engine, parent(5, max_running=2))
        assert len(await spawn(engine)) == 2
        assert await spawn(engine) == []
        for _ in range(3):
            await engine.finish(await engine.claim())
            await spawn(engine)
        assert await engine.state(job) is JobState.COMPLETED

    async def test_a_failed_child_fails_its_task_and_is_tried_as_often_as_the_node_says(
        self, engine: EngineHarness
    ) -> None:
        job = await submit(engine, parent(retry=Retry(max_attempts=2, initial_delay=timedelta(0))))
        (first,) = await spawn(engine)
        await fail(engine, await engine.claim())
        (second,) = await spawn(engine)
        assert first != second
        await fail(engine, await engine.claim())
        detail = await engine.reads.job(job)
        assert detail.job.error is not None
        assert (detail.job.state, detail.job.error.code) == (JobState.FAILED, "child.failed")
        assert second[:12] in str(detail.job.error.message)

    async def test_e7_cancel_cascades(self, engine: EngineHarness) -> None:
        job = await submit(engine, parent(3))
        children = await spawn(engine)
        await engine.store.cancel(job, "test")
        while await engine.store.cancel_orphans():
            pass
        assert {await engine.state(child) for child in children} == {JobState.CANCELLED}
        assert await engine.claim() == []

    async def test_a_failing_sibling_ends_the_other_children(self, engine: EngineHarness) -> None:
        job = await submit(engine, parent(2))
        children = await spawn(engine)
        await fail(engine, (await engine.claim())[:1])
        assert await engine.state(job) is JobState.FAILED
        assert sorted([str(await engine.state(child)) for child in children]) == ["cancelled", "failed"]

    async def test_a_cancelled_child_fails_its_parent(self, engine: EngineHarness) -> None:
        job = await submit(engine, parent())
        (child,) = await spawn(engine)
        await engine.store.cancel(child, "test")
        await take_free(engine)
        assert await engine.state(job) is JobState.FAILED

    async def test_e15_a_child_is_never_shared_with_an_equal_job_of_a_caller(self, engine: EngineHarness) -> None:
        own = await engine.submit(CHILD, n=7)
        await submit(engine, parent())
        (child,) = await spawn(engine)
        assert child != own.job_id

    async def test_a_retry_runs_new_children_for_what_failed_only(self, engine: EngineHarness) -> None:
        job = await submit(engine, parent(3, on_failure=OnFailure.FINISH))
        children = await spawn(engine)
        claims = await engine.claim()
        await engine.finish(claims[:2])
        await fail(engine, claims[2:])
        assert await engine.state(job) is JobState.FAILED
        assert await retry(engine, job) == "retried"
        (again,) = await spawn(engine)
        assert again not in children
        await engine.finish(await engine.claim())
        assert await engine.state(job) is JobState.COMPLETED

    async def test_a_child_is_not_retried_by_itself(self, engine: EngineHarness) -> None:
        await submit(engine, parent())
        (child,) = await spawn(engine)
        await fail(engine, await engine.claim())
        assert await retry(engine, child) == "child"

    async def test_e21_a_spawn_that_nobody_finished_is_taken_over(self, engine: EngineHarness) -> None:
        job = await submit(engine, parent())
        other = await engine.new_session()
        (claim,) = await engine.claim(session=other, queues=["plan:child"])
        await engine.store.end_session(other, "test")
        await engine.sweep()
        child_jobs = ChildJobs(engine.store, Registry(), Definitions(engine.store), other)
        assert await child_jobs.spawn(claim, {"n": 7}) is None
        await spawn(engine)
        await engine.finish(await engine.claim())
        assert await engine.state(job) is JobState.COMPLETED

    async def test_e3_a_retry_counts_on_from_a_child_that_still_runs(self, engine: EngineHarness) -> None:
        job = await submit(engine, parent())
        await spawn(engine)
        await engine.store.cancel(job, "test")
        assert await retry(engine, job, from_node="sub") == "retried"
        (claim,) = await engine.claim(queues=["plan:child"])
        assert claim.attempt == 2

    async def test_e10_a_result_that_is_gone_fails_its_task_alone(self, engine: EngineHarness) -> None:
        job = await submit(engine, parent(retry=Retry(max_attempts=1)))
        await spawn(engine)
        gone: Json = {"href": "nowhere.json", "size": 1, "sha256": "0"}
        _, rights = await engine.end(await engine.claim(), Ended.REFERENCED, gone)
        await engine.advance(rights)
        assert await engine.state(job) is JobState.FAILED

    async def test_tolerated_children_may_fail(self, engine: EngineHarness) -> None:
        job = await submit(engine, parent(3, tolerate=Tolerance(count=1)))
        await spawn(engine)
        first, *others = await engine.claim()
        await fail(engine, [first])
        await engine.finish(others)
        assert await engine.state(job) is JobState.COMPLETED

    async def test_tasks_that_are_jobs_are_shown_as_running(self, engine: EngineHarness) -> None:
        job = await submit(engine, parent(2))
        await spawn(engine, 1)
        row = await engine.reads.find(job)
        tasks = await engine.reads.tasks(row.id, limit=10, after=None, node=None, status=None)
        assert [task.status for task in tasks] == ["running", "ready"]


class TestLimits:
    @pytest.mark.parametrize(("kind", "name"), [("queue", "default"), ("workflow", "fan_out"), ("handler", "do")])
    async def test_never_more_run_at_once_than_the_limit_says(
        self, engine: EngineHarness, kind: str, name: str
    ) -> None:
        await engine.store.limit(LimitKind(kind), name, {"most": 3}, "tester")
        await engine.submit(fan_out(4), a=1)
        await engine.submit(fan_out(4), a=2)
        claims = await engine.claim()
        assert len(claims) == 3
        assert await engine.claim() == []
        await engine.finish(claims[:2])
        assert len(await engine.claim()) == 2

    async def test_a_key_limits_nodes_of_many_jobs_together(self, engine: EngineHarness) -> None:
        workflow = Workflow("w", (make_node("a", "h", limit="{{ inputs.source }}"),))
        await engine.store.limit(LimitKind.KEY, "slow-server", {"most": 1}, "tester")
        for n in range(3):
            await engine.submit(workflow, source="slow-server", n=n)
        await engine.submit(workflow, source="fast-server")
        assert len(await engine.claim()) == 2
        assert await engine.claim() == []

    async def test_a_key_limits_tasks_that_run_as_jobs(self, engine: EngineHarness) -> None:
        await engine.store.limit(LimitKind.KEY, "scarce", {"most": 2}, "tester")
        job = await submit(engine, parent(3, limit="scarce"))
        assert len(await spawn(engine)) == 2
        assert await spawn(engine) == []
        await engine.finish(await engine.claim(1))
        assert len(await spawn(engine)) == 1
        await engine.finish(await engine.claim())
        assert await engine.state(job) is JobState.COMPLETED

    async def test_e13_held_lanes_of_a_queue_that_nobody_serves_take_no_turn(self, engine: EngineHarness) -> None:
        await engine.store.limit(LimitKind.KEY, "scarce", {"most": 1}, "tester")
        for queue in ("unserved", "unserved", "unserved", "default"):
            workflow = Workflow(
                queue, (make_node("a", "h", spread=Spread.FIXED, count=2, queue=queue, limit="scarce"),)
            )
            await engine.submit(workflow, priority=1 if queue == "unserved" else 9, rerun=True)
        (running,) = await engine.claim(queues=["unserved", "default"])
        assert await engine.claim() == []
        await engine.end([running])
        assert len(await engine.claim()) == 1

    async def test_e13_lanes_without_room_are_in_nobodys_way(self, engine: EngineHarness) -> None:
        await engine.store.limit(LimitKind.WORKFLOW, "busy", {"most": 1}, "tester")
        busy = Workflow("busy", (make_node("a", "h"),))
        for n in range(120):
            await engine.submit(busy, n=n)
        await engine.submit(Workflow("other", (make_node("a", "h"),)))
        workflows = [claim.lane.workflow for _ in range(4) for claim in await engine.claim(1)]
        assert sorted(workflows) == ["busy", "other"]

    async def test_a_paused_queue_gives_nothing_until_it_is_resumed(self, engine: EngineHarness) -> None:
        await engine.submit(fan_out(3))
        (running,) = await engine.claim(1)
        await engine.store.limit(LimitKind.QUEUE, "default", {"paused": True, "reason": "works"}, "tester")
        assert await engine.claim() == []
        await engine.end([running])
        assert await engine.claim() == []
        assert await engine.store.limit(LimitKind.QUEUE, "default", {"paused": False}, "tester") is None
        assert len(await engine.claim()) == 2

    async def test_a_pause_keeps_the_limit_that_was_there(self, engine: EngineHarness) -> None:
        await engine.submit(fan_out(3))
        await engine.store.limit(LimitKind.HANDLER, "do", {"most": 1}, "tester")
        await engine.store.limit(LimitKind.HANDLER, "do", {"paused": True}, "tester")
        assert await engine.claim() == []
        await engine.store.limit(LimitKind.HANDLER, "do", {"paused": False}, "tester")
        assert len(await engine.claim()) == 1

    async def test_what_a_vanished_limit_left_held_the_sweeper_lets_go(
        self, engine: EngineHarness, database_url: str
    ) -> None:
        await engine.submit(fan_out(1))
        with psycopg.connect(database_url) as connection:
            connection.execute("update app.lanes set held = 'queue gone'")
        assert await engine.claim() == []
        await engine.sweep()
        assert len(await engine.claim()) == 1

    async def test_claims_at_once_never_pass_the_limit(self, engine: EngineHarness, database_url: str) -> None:
        await engine.store.limit(LimitKind.HANDLER, "do", {"most": 4}, "tester")
        for n in range(6):
            await engine.submit(fan_out(10), n=n)
        for _ in range(5):
            found = await asyncio.gather(*(engine.claim(3) for _ in range(8)))
            claims = [claim for claimed in found for claim in claimed]
            with psycopg.connect(database_url) as connection:
                running = connection.execute("select count(*) from app.claims").fetchone()
            assert running is not None
            assert running[0] <= 4
            await engine.end(claims)


async def test_a_draining_session_claims_nothing_more(engine: EngineHarness) -> None:
    await engine.submit(fan_out(2))
    (running,) = await engine.claim(1)
    assert await engine.store.drain(engine.session, draining=True)
    assert await engine.claim() == []
    assert (await engine.end([running]))[0] == [Answer.APPLIED]
    assert await engine.store.drain(engine.session, draining=False)
    assert len(await engine.claim()) == 1


async def test_e13_very_many_lanes_that_wait_for_one_limit_are_passed_in_a_few_claims(
    engine: EngineHarness, database_url: str
) -> None:
    await engine.submit(Workflow("busy", (make_node("a", "h"),)))
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "insert into app.lanes (job, node, purpose, generation, queue, priority, handler, with_parameters, policy, "
            "width, next_index, running, remaining, failed, tolerated, closed, opened_at, served_at, itemized, ripe) "
            "select job, 'b' || n, purpose, generation, queue, priority, handler, with_parameters, policy, 1, 0, 0, "
            "1, 0, 0, false, opened_at, served_at, itemized, ripe from app.lanes, generate_series(1, 20000) n"
        )
    await engine.store.limit(LimitKind.WORKFLOW, "busy", {"paused": True, "reason": "works"}, "tester")
    await engine.submit(Workflow("other", (make_node("a", "h"),)))
    claims = [claim.lane.workflow for _ in range(4) for claim in await engine.claim()]
    assert claims == ["other"]
    assert await engine.store.limit(LimitKind.WORKFLOW, "busy", {"paused": False}, "tester") is None
    assert len(await engine.claim(32)) == 32


async def test_a_reason_stays_until_another_is_given(engine: EngineHarness) -> None:
    await engine.store.limit(LimitKind.QUEUE, "q", {"paused": True, "reason": "works"}, "anna")
    left = await engine.store.limit(LimitKind.QUEUE, "q", {"most": 3}, "bob")
    assert left is not None
    assert (left.paused, left.most, left.reason) == (True, 3, "works")


async def test_e13_dead_letters_of_one_code_are_found_behind_many_others(engine: EngineHarness) -> None:
    await engine.submit(fan_out(10, on_failure=OnFailure.FINISH))
    claims = sorted(await engine.claim(), key=lambda claim: claim.key)
    await engine.end(claims[:8], Ended.FAILED, {"code": "a", "message": "no"})
    await engine.end(claims[8:], Ended.FAILED, {"code": "b", "message": "no"})
    found = await engine.reads.dead_letters(limit=6, code="b")
    assert [letter.index for letter in found] == [8, 9]


async def test_a19_claims_of_different_limits_do_not_wait_for_each_other(
    engine: EngineHarness, database_url: str
) -> None:
    """Of the same limit the second waits, so that both together keep it."""
    for number, queue in enumerate(("first", "first", "second")):
        workflow = Workflow(queue, (make_node("work", "do", spread=Spread.FIXED, count=5, queue=queue),))
        await engine.submit(workflow, number=number)
        await engine.store.limit(LimitKind.QUEUE, queue, {"most": 3}, "test")
    claim = "select app.claim(%s, %s, 2, '{}', false) #>> '{fresh,0,2}'"
    with psycopg.connect(database_url) as one, psycopg.connect(database_url) as two:
        for connection in (one, two):
            connection.execute("set lock_timeout = '300ms'")
        assert one.execute(claim, [engine.session, ["first"]]).fetchone() == ("2",)
        assert two.execute(claim, [engine.session, ["second"]]).fetchone() == ("2",)
        two.commit()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            two.execute(claim, [engine.session, ["first"]])
        two.rollback()
        one.commit()
        assert two.execute(claim, [engine.session, ["first"]]).fetchone() == ("1",)
    assert await engine.claim(queues=["first"]) == []
