"""Orders of partners become assets, releases and revisions; decisions on them move gates and publications."""

import asyncio
from dataclasses import replace

import psycopg
import pytest
from psycopg.rows import dict_row

from anabranch.api.platform.build import build_release
from anabranch.canonical import Json
from anabranch.engine.model import JobState
from anabranch.errors import AnabranchError, Conflict, Denied, InputError, NotFound
from tests.support.data_hub import make_policy
from tests.support.releases import ADMIN, ANN, BEN, OTHER, approved, bronze, order, processed, rows, show, stack
from tests.support.stack import Stack

__all__ = ["bronze", "stack"]  # fixtures

pytestmark = pytest.mark.postgres


async def test_p1_p4_p6_a_release_is_published_when_it_is_approved_and_not_before(
    stack: Stack, catalog_url: str
) -> None:
    releases = stack.gateway.releases
    accepted = await processed(stack, title="Heights")
    waiting = await show(stack, accepted.release_id)
    assert (waiting["processing_status"], waiting["approval_status"]) == ("completed", "pending_review")
    assert waiting["number"] is None
    assert rows(catalog_url, "select id from pgstac.items") == []

    await releases.decide(accepted.release_id, True, BEN)
    await stack.wait(str(accepted.job_id))
    done = await show(stack, accepted.release_id)
    assert (done["approval_status"], done["decided_by"], done["number"], done["latest"]) == (
        "approved", BEN.actor, 1, True,
    )  # fmt: skip
    assert {artifact["kind"] for artifact in done["artifacts"]} == {"cog", "report", "thumbnail"}
    assert [row["id"] for row in rows(catalog_url, "select id from pgstac.items")] == [done["item_id"]]
    shown = build_release(done)
    assert shown.links.keys() == {"status", "job", "item", "history", "latest", "tiles"}
    assert all(artifact["url"].startswith("/files/current/ddh-raster/") for artifact in shown.artifacts)
    lines = await releases.platforms.audit("ddh", limit=9)
    assert ("release.approved", BEN.actor) in [(line.action, line.actor) for line in lines]
    ((_, asked),) = await releases.platforms.requests("ddh", limit=9)
    assert (asked.job_id, asked.body["title"]) == (accepted.job_id, "Heights")


async def test_s1_what_is_cleared_as_public_is_public_from_its_publication_until_it_is_not(
    stack: Stack, catalog_url: str
) -> None:
    public = "select public from app.publication_keys where kind = 'item' order by key"
    accepted = await approved(stack, clearance="public")
    assert rows(catalog_url, public) == [{"public": True}]
    await stack.gateway.releases.clear(accepted.release_id, "internal", BEN)
    assert rows(catalog_url, public) == [{"public": False}]
    await stack.gateway.releases.clear(accepted.release_id, "public", BEN)
    assert rows(catalog_url, public) == [{"public": True}]


async def test_p2_p5_a_reprocess_is_reviewed_while_the_approved_revision_is_served(stack: Stack) -> None:
    """The revision is ours: the partner's references, version and asset stay as they are."""
    releases = stack.gateway.releases
    first = await approved(stack)
    shown = await show(stack, first.release_id)
    refs, version = shown["refs"], shown["version"]
    with pytest.raises(Conflict, match="is approved"):
        await releases.submit(order(source="b.tif", overwrite=True), ANN)

    again = await releases.submit(order(source="b.tif", reprocess=True), ANN)
    assert (again.asset_id, again.release_id, again.revision) == (first.asset_id, first.release_id, 2)
    await stack.until(str(again.job_id), lambda job: job.job.state is JobState.WAITING)
    now = await show(stack, first.release_id)
    assert (now["refs"], now["version"], now["revision"], now["shown_revision"]) == (refs, version, 2, 1)

    await releases.decide(first.release_id, True, BEN)
    await stack.wait(str(again.job_id))
    assert [(await show(stack, first.release_id))[name] for name in ("shown_revision", "number")] == [2, 2]
    with pytest.raises(InputError, match="reason"):
        await releases.roll_back(first.release_id, None, replace(ANN, reason=" "))
    back = await releases.roll_back(first.release_id, None, ANN)
    assert (back["shown_revision"], back["number"]) == (1, 3)


async def test_p6_nothing_of_a_revoked_release_is_shown_again_without_another_review(
    stack: Stack, catalog_url: str
) -> None:
    from anabranch.item_actions import ItemAction

    releases = stack.gateway.releases
    made = await approved(stack)
    revoked = await releases.revoke(made.release_id, ANN)
    assert (revoked["approval_status"], revoked["number"]) == ("revoked", None)
    assert rows(catalog_url, "select id from pgstac.items") == []

    restore = ItemAction("restore", revoked["collection"], revoked["item_id"], "admin", "by mistake")
    with pytest.raises(Conflict) as refused:
        await stack.gateway.publishing.act(restore)
    assert refused.value.code == "publication.not_approved"
    with pytest.raises(Conflict, match="revoked"):
        await releases.revoke(made.release_id, ANN)

    again = await processed(stack)
    assert again.revision == 2
    await releases.decide(again.release_id, False, replace(BEN, reason="blurred"))
    await stack.wait(str(again.job_id))
    assert (await show(stack, again.release_id))["approval_status"] == "rejected"
    assert rows(catalog_url, "select id from pgstac.items") == []


async def test_p3_an_asset_has_one_unresolved_release_and_the_same_order_is_the_same(stack: Stack) -> None:
    releases = stack.gateway.releases
    answers = await asyncio.gather(
        *(releases.submit(order(version=str(n % 2)), ANN) for n in range(8)), return_exceptions=True
    )
    made = [one for one in answers if not isinstance(one, BaseException)]
    assert len({one.release_id for one in made}) == len({one.request_id for one in made}) == 1
    assert {one.code for one in answers if isinstance(one, AnabranchError)} == {"release.unresolved"}
    assert [one.verdict for one in made].count("create") == 1

    await stack.until(str(made[0].job_id), lambda job: job.job.state is JobState.WAITING)
    with pytest.raises(Conflict, match="another source"):
        await releases.submit(order(version="0" if made[0] is answers[0] else "1", source="b.tif"), ANN)


async def test_an_overwrite_cancels_what_waits_and_makes_the_next_revision(stack: Stack) -> None:
    releases = stack.gateway.releases
    first = await processed(stack)
    planned = await releases.submit(order(source="b.tif", overwrite=True), ANN, dry_run=True)
    assert (planned.verdict, planned.revision, planned.job_id) == ("next", 2, None)
    second = await releases.submit(order(source="b.tif", overwrite=True), ANN)
    assert (second.release_id, second.revision) == (first.release_id, 2)
    assert (await stack.wait(str(first.job_id))).job.state is JobState.CANCELLED
    found = await show(stack, first.release_id)
    assert (found["revision"], found["job_id"], found["approval_status"]) == (2, second.job_id, "pending_review")


async def test_p4_p7_who_decides_must_be_allowed_to(stack: Stack) -> None:
    releases = stack.gateway.releases
    policy: dict[str, Json] = {
        "title": "Data hub", "required_refs": ["dataset_id", "resource_id"], "optional_refs": [],
        "version_ref": "version_id", "workflows": {"raster": "process_raster"}, "approval": "other_approver",
        "callback_hosts": [], "max_unresolved": 1,
    }  # fmt: skip
    await releases.save_platform("ddh", policy, ADMIN)
    accepted = await releases.submit(order(), ANN)
    with pytest.raises(Conflict, match="as many unresolved"):
        await releases.submit(order().model_copy(update={"refs": {"dataset_id": 1, "resource_id": 1}}), ANN)
    with pytest.raises(Conflict, match="not processed"):
        await releases.decide(accepted.release_id, True, BEN)
    await stack.until(str(accepted.job_id), lambda job: job.job.state is JobState.WAITING)
    same = ("ddh/ann (k1)", "ddh/ann (k9)", "ddh/ann (https://login.example)", "default/ann (k2)")
    for own in (*same, "ddh/ann  (k2)", "ddh/ ann (k2)", "ddh/Ann (k2)", "ddh/\uff41nn (k2)"):
        with pytest.raises(Denied, match="another person must approve"):
            await releases.decide(accepted.release_id, True, replace(ANN, actor=own))
    with pytest.raises(NotFound):
        await releases.decide(accepted.release_id, True, OTHER)
    assert await releases.platforms.releases(OTHER.platform_filter, {}, limit=9) == []
    await releases.decide(accepted.release_id, True, BEN)


async def test_p1_references_of_a_platform_change_until_it_has_an_asset(stack: Stack) -> None:
    releases = stack.gateway.releases
    other = make_policy("none", raster="process_raster") | {"required_refs": ["name"], "version_ref": None}
    saved = await releases.save_platform("ddh", other, ADMIN)
    assert (saved.required_refs, saved.version_ref) == (("name",), None)
    made = order().model_copy(update={"refs": {"name": "dem"}})
    await releases.submit(made, ANN)
    with pytest.raises(Conflict, match="has assets"):
        await releases.save_platform("ddh", make_policy("none", raster="process_raster"), ADMIN)


async def test_p8_a_platform_that_is_retired_keeps_its_assets(stack: Stack) -> None:
    releases = stack.gateway.releases
    made = await approved(stack)
    assert (await releases.save_platform("ddh", None, ADMIN)).retired
    with pytest.raises(Conflict, match="no more orders"):
        await releases.submit(order(version="2"), ANN)
    assert (await show(stack, made.release_id))["number"] == 1
    with pytest.raises(Conflict, match="is published"):
        await releases.delete_asset(made.asset_id, True, ANN)
    await releases.revoke(made.release_id, ANN)
    await releases.delete_asset(made.asset_id, True, ANN)
    assert (await show(stack, made.release_id))["deleted"]


async def test_p7_the_database_keeps_the_fields_of_each_side_and_the_audit(stack: Stack, catalog_url: str) -> None:
    made = await processed(stack)
    wrong = (
        "update app.revisions set processing_status = 'failed'",
        "update app.revisions set content_hash = 'x'",
        "update app.revisions set approval_status = 'revoked'",
        "update app.revisions set submitted_by = 'x'",
        "update app.audit set actor = 'x'",
        "delete from app.audit",
    )
    for statement in wrong:
        with psycopg.connect(catalog_url) as connection:
            connection.execute("select app.set_platform_filter('*')")
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute(statement)
    assert (await show(stack, made.release_id))["approval_status"] == "pending_review"


async def test_s1_rows_of_platforms_are_invisible_without_a_platform(stack: Stack, catalog_url: str) -> None:
    await processed(stack)
    counts = "select count(*) as n from app.revisions"
    with psycopg.connect(catalog_url, row_factory=dict_row) as connection:
        connection.execute("set role anabranch_owner")
        assert connection.execute(counts).fetchall() == [{"n": 0}]
        for platform_filter, seen in (("arcgis", 0), ("ddh", 1), ("*", 1)):
            connection.execute("select set_config('anabranch.platform', %s, false)", [platform_filter])
            assert connection.execute(counts).fetchall() == [{"n": seen}]
