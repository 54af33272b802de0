"""Whatever is ordered and decided, in whatever order, releases are where a simple model says."""

import asyncio
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from anabranch.engine.model import Ended, RightId
from anabranch.engine.ports import Submission, TakenRight
from anabranch.platform.action_by import ActionBy
from anabranch.platform.identity import identify
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import Kind
from tests.support.engine import EngineHarness, open_harness
from tests.support.nodes import make_node

pytestmark = pytest.mark.postgres

WORKFLOW = Workflow("gated", (make_node("work", "do"), make_node("review", kind=Kind.GATE, after=("work",))))
NUMBERS = count()
BY = ActionBy("ddh", "ddh/ann", "so", "test")
Step = tuple[str, int, int]  # what, the version, the content
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "overwrite", "reprocess", "process", "fail", "approve", "reject", "revoke"]),
        st.integers(1, 2),
        st.integers(1, 2),
    ),
    max_size=14,
)


@dataclass
class Model:
    """The revisions of each release: what they were made from, and their status in one word."""

    releases: dict[int, list[list[Any]]] = field(default_factory=dict)

    def newest(self, version: int) -> list[Any] | None:
        return self.releases[version][-1] if version in self.releases else None

    def submit(self, version: int, content: int, how: str) -> str:
        newest = self.newest(version)
        others = [made[-1][1] for number, made in self.releases.items() if number != version]
        unresolved = any(status in ("processing", "review") for status in others)
        verdict = self._judge(newest, content, how, unresolved)
        if verdict in ("create", "next"):
            if newest and newest[1] in ("processing", "review"):
                newest[1] = "cancelled"
            self.releases.setdefault(version, []).append([content, "processing"])
        return verdict

    def _judge(self, newest: list[Any] | None, content: int, how: str, unresolved: bool) -> str:
        if newest is None:
            return "unresolved" if unresolved else "create"
        same, status = newest[0] == content, newest[1]
        if status in ("processing", "review"):
            if how == "overwrite":
                return "next"
            if not same:
                return "processing" if status == "processing" else "different"
            return "same"
        if status == "approved" and how != "reprocess":
            return "approved" if how == "overwrite" else "same" if same else "different"
        return "unresolved" if unresolved else "next"


async def act(engine: EngineHarness, model: Model, dataset: int, steps: list[Step]) -> None:
    platforms = engine.store.platforms()
    for what, version, content in steps:
        refs: dict[str, str | int] = {"dataset_id": dataset, "resource_id": "r", "version_id": version}
        named = identify("ddh", ("dataset_id", "resource_id"), (), "version_id", refs)
        newest = model.newest(version)
        if what in ("submit", "overwrite", "reprocess"):
            assert await submit(engine, named, content, what) == model.submit(version, content, what)
        elif what in ("process", "fail") and newest and newest[1] == "processing":
            claims = [one for one in await engine.claim() if one.lane.handler == "do"]
            _, rights = await engine.end(claims, Ended.COMPLETED if what == "process" else Ended.FAILED)
            await engine.advance(rights)
            newest[1] = "review" if what == "process" else "failed"
        elif what in ("approve", "reject"):
            verdict, _, right = await platforms.decide(named.release_id, None, what == "approve", BY, engine.session)
            await engine.advance([TakenRight(RightId(right), 1)] if right else [])
            wanted = {"approve": "approved", "reject": "rejected"}[what]
            assert verdict == expected_verdict(newest, wanted)
            if newest and verdict == "done":
                newest[1] = wanted
        elif what == "revoke":
            (row,) = await engine.store._database.call("revoke_release", "ddh", named.release_id, "ann", "so", "test")
            made = model.releases.get(version)
            approved = [one for one in made or () if one[1] == "approved"]
            assert row["verdict"] == ("missing" if made is None else "done" if approved else "not_approved")
            for one in approved:
                one[1] = "revoked"
        await compare(engine, model, named.asset_id)


def expected_verdict(newest: list[Any] | None, wanted: str) -> str:
    if newest is None:
        return "missing"
    status = newest[1]
    if status == wanted:
        return "same"
    if status in ("processing", "failed"):
        return "not_completed"
    return "done" if status == "review" else "decided"


async def submit(engine: EngineHarness, named: Any, content: int, how: str) -> str:
    order = {
        **{name: getattr(named, name) for name in ("platform", "version", "asset_id", "release_id", "item_id")},
        "refs": dict(named.refs), "data_type": "raster", "collection": "c", "tags": [], "clearance": "uncleared",
        "approval_required": True, "order_hash": str(content), "overwrite": how == "overwrite",
        "reprocess": how == "reprocess", "body": {}, "actor": "ddh/ann", "correlation_id": "test",
    }  # fmt: skip
    job = Submission(WORKFLOW, {"n": next(NUMBERS)}, "ddh", 5, True, "test")
    done = await engine.store.submit_release(order, job, engine.session, dry_run=False)
    await engine.advance(done.rights)
    return done.verdict


async def compare(engine: EngineHarness, model: Model, asset_id: str) -> None:
    found = await engine.store.platforms().releases("*", {"asset_id": asset_id}, limit=9)
    status = {one["version"]: (one["revision"], in_a_word(one)) for one in found}
    assert status == {str(version): (len(made), made[-1][1]) for version, made in model.releases.items()}
    assert sorted(one["ordinal"] for one in found) == list(range(1, len(found) + 1))
    assert sum(one in ("processing", "review") for _, one in status.values()) <= 1  # P3


def in_a_word(row: Any) -> str:  # of app.release_details
    if row["approval_status"] != "pending_review":
        return "cancelled" if row["approval_status"] == "expired" else str(row["approval_status"])
    return (
        "review"
        if row["processing_status"] == "completed"
        else "failed"
        if row["processing_status"] == "failed"
        else "processing"
    )


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
@example([("submit", 1, 1), ("process", 1, 1), ("approve", 1, 1), ("submit", 2, 1), ("reprocess", 1, 2)])
def test_p3_p4_releases_are_where_the_model_says(database_url: str, steps: list[Step]) -> None:
    async def run() -> None:
        async with open_harness(database_url) as engine:
            for claim in await engine.claim():
                await engine.finish([claim])  # what an earlier example left
            await act(engine, Model(), next(NUMBERS), steps)

    asyncio.run(run())
