"""Submissions that come at once share a commit, and none of them can hurt another."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.adapters.postgres.connect import connect
from anabranch.canonical import Json
from anabranch.engine.advancing.lanes import OpenLane
from anabranch.engine.model import Claim, JobState
from anabranch.engine.ports import Refused, Submitted
from anabranch.engine.submitting.batcher import SubmitBatcher
from anabranch.engine.submitting.submission import Order, Submission
from anabranch.gateway import Gateway
from anabranch.settings import Settings
from tests.support.engine import EngineHarness, fan_out
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres
FLOW = """
workflow_id: flow
inputs: {items: {type: array, default: []}, size: {type: integer, default: 1}}
nodes:
  check: {type: conditional, condition_field: "{{ inputs.size }}", branches: [{condition: "< 10", next: each},
    {default: true, next: other}]}
  each: {type: fan_out, source: "{{ inputs.items }}", task: {handler: echo, params: {of: "{{ job.id }}"}}, next: all}
  all: {type: fan_in, aggregation: collect}
  other: {handler: echo}
"""

LOOKS = [
    "select state, last_event, started_at is null, error from app.jobs where job_id = %s",
    """select name, position, n.state, output, n.error, opened_at is null, n.finished_at is null
         from app.nodes n join app.jobs j on j.id = n.job where job_id = %s order by position""",
    """select node, purpose, queue, l.priority, handler, width, remaining, tolerated, policy, closed, itemized
         from app.lanes l join app.jobs j on j.id = l.job where job_id = %s order by l.id""",
    """select idx, key, i.parameters from app.items i join app.lanes l on l.id = i.lane join app.jobs j on j.id = l.job
        where job_id = %s order by l.id, idx""",
    "select seq, kind, node, data from app.events e join app.jobs j on j.id = e.job where job_id = %s order by seq",
    "select node, purpose from app.rights r join app.jobs j on j.id = r.job where job_id = %s order by r.id",
]


@pytest.fixture
async def gateway(database_url: str, tmp_path: Path) -> AsyncIterator[Gateway]:
    (tmp_path / "flow.yaml").write_text(FLOW)
    async with Proxy(database_url) as proxy:
        gateway = Gateway(Settings(home=tmp_path / "home", plugins=(str(tmp_path),)), proxy.url)
        gateway.proxy = proxy  # type: ignore[attr-defined]  # for the test to look at
        await gateway.open()
        await gateway.ready()
        yield gateway
        await gateway.close()


def order(size: int, **more: object) -> Order:
    return replace(Order("flow", {"size": size}, "test", "c"), **more)  # type: ignore[arg-type]  # fields of Order


async def submit(gateway: Gateway, size: int, priority: int | None = None) -> Submitted:
    return await gateway.submit(
        Order("flow", {"size": size}, scope="test", by="test", correlation_id="c", priority=priority)
    )


async def test_submissions_at_once_share_a_commit(gateway: Gateway) -> None:
    jobs = await asyncio.gather(*(submit(gateway, size) for size in range(10, 60)))
    calls = gateway.proxy.calls  # type: ignore[attr-defined]  # see above
    assert len({job.job_id for job in jobs}) == 50
    assert calls["submit_batch"] < 10
    assert calls["load_right"] == calls["apply"] == 0, "what its start brings is planned before"


async def test_e10_a_submission_that_the_database_refuses_fails_alone(gateway: Gateway) -> None:
    priorities = [None] * 7 + [99] + [None] * 7
    answers = await asyncio.gather(
        *(submit(gateway, size, priority) for size, priority in enumerate(priorities)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [Submitted] * 7 + [Refused] + [Submitted] * 7


async def test_e10_in_a_batch_each_is_answered_for_itself(gateway: Gateway) -> None:
    orders = [
        order(1),
        order(2, workflow_id="none"),
        order(3, priority=99),
        order(4, parameters={"size": "x"}),
        order(5),
    ]
    answers = await gateway.submit_batch(orders)
    told = [getattr(answer, "code", "made") for answer in answers]
    assert told == ["made", "workflow.not_found", "database.refused", "job.parameters", "made"]


async def test_e10_a_start_that_cannot_be_stored_leaves_the_job_to_its_starter(
    engine: EngineHarness,
) -> None:
    submission = Submission(fan_out(2), {}, "test", 5, rerun=False, correlation_id="c", begins=True)
    assert submission.first_transitions
    broken = [
        replace(one, tolerated=2**40) if isinstance(one, OpenLane) else one for one in submission.first_transitions
    ]
    vars(submission)["first_transitions"] = tuple(broken)

    (answer,) = await SubmitBatcher(engine.store, engine.session).submit_batch([submission])

    assert isinstance(answer, Submitted)
    assert (answer.state, len(answer.rights)) == (JobState.PENDING, 1)
    await engine.advance(answer.rights)
    assert await engine.state(answer.job_id) is JobState.RUNNING


async def test_e11_a_fan_out_of_nothing_at_the_start_is_advanced_to_its_end(
    gateway: Gateway, engine: EngineHarness
) -> None:
    """The lane of no tasks gives its right when the job is submitted; the fan-in's one task is left to do."""
    job = await submit(gateway, 1)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (claims := await engine.claim(1, queues=["plan:"])):
            await asyncio.sleep(0.01)
    await engine.finish(claims, body={"items": [], "count": 0})
    assert await engine.state(job.job_id) is JobState.COMPLETED


async def test_e2_a_start_knows_the_job_by_its_id(gateway: Gateway, engine: EngineHarness) -> None:
    first = await gateway.submit(Order("flow", {"items": [1]}, scope="test", by="test", correlation_id="c"))
    again = await gateway.submit(Order("flow", {"items": [1]}, scope="test", by="test", correlation_id="c", rerun=True))
    claims: list[Claim] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(claims) < 2:
            claims += await engine.claim(2)
    assert {claim.lane.job_id for claim in claims} == {first.job_id, again.job_id}


@pytest.mark.parametrize("given", [{}, {"items": [1, 2, 3]}, {"items": ["x"], "size": 50}], ids=str)
async def test_e17_a_job_that_begins_is_what_one_is_that_was_started_by_its_right(
    gateway: Gateway, engine: EngineHarness, database_url: str, given: dict[str, Json]
) -> None:
    workflow = gateway.declaration("flow")
    apart = Submission(workflow.workflow, workflow.check(given), "apart", 5, rerun=False, correlation_id="c")
    at_once = replace(apart, scope="at once", begins=True)
    by_right = await engine.store.submit(apart, engine.session)
    begun = await engine.store.submit(at_once, engine.session)
    await engine.advance([*by_right.rights, *begun.rights])
    with connect(database_url, None) as connection:
        rows = [
            [connection.execute(look.encode(), [job.job_id]).fetchall() for look in LOOKS] for job in (by_right, begun)
        ]
    assert rows[0] == rows[1]
    assert rows[0][0]
