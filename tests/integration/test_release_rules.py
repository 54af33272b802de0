"""What a release shows is decided by its revisions: not by other jobs, retries, signals, options or purges."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.api.answers.build import build_job
from anabranch.canonical import Json
from anabranch.codes import code_of
from anabranch.engine.model import JobState
from anabranch.engine.submitting.submission import Order
from anabranch.errors import AnabranchError, Conflict, InputError, NotFound
from anabranch.item_actions import ItemAction
from anabranch.job_control import RetryChoice
from tests.support.rasters import hills, make_raster
from tests.support.releases import ADMIN, ANN, BEN, approved, bronze, order, processed, rows, show, stack
from tests.support.stack import Stack
from tests.support.vectors import make_frame, write_frame

__all__ = ["bronze", "stack"]  # fixtures

pytestmark = pytest.mark.postgres

ITEMS = "select collection, id from pgstac.items order by 1, 2"


def policy(**more: Json) -> dict[str, Json]:
    return {
        "title": "Data hub", "required_refs": ["dataset_id", "resource_id"], "optional_refs": [],
        "version_ref": "version_id", "workflows": {"raster": "process_raster", "vector": "process_vector"},
        "approval": "one_approver", "callback_hosts": [], "max_unresolved": None, **more,
    }  # fmt: skip


async def actions(stack: Stack, limit: int) -> list[str]:
    return [line.action for line in await stack.gateway.releases.platforms.audit("ddh", limit=limit)]


async def error_of(doing: Any) -> AnabranchError:  # an awaitable
    with pytest.raises(AnabranchError) as caught:
        await doing
    return caught.value


async def refused(doing: Any) -> str:  # an awaitable
    return (await error_of(doing)).code


async def test_p6_no_other_job_publishes_an_item_of_a_release(stack: Stack, catalog_url: str) -> None:
    async def publish(release: Any) -> str:
        at = {"collection": release["collection"], "item_id": release["item_id"]}
        said = Order(
            "process_raster", {"source": "bronze://ddh/b.tif", **at}, scope="ddh", by="ann", correlation_id="t"
        )
        done = await stack.wait((await stack.gateway.submit(said)).job_id)
        error = build_job(done).error
        assert error is None or "anabranch releases rollback" in error.remedy
        return error.code if error else "none"

    made = await processed(stack)
    assert await publish(await show(stack, made.release_id)) == "publication.release"
    assert rows(catalog_url, ITEMS) == []

    await stack.gateway.releases.decide(made.release_id, True, BEN)
    await stack.wait(str(made.job_id))
    assert await publish(await show(stack, made.release_id)) == "publication.release"
    assert (await show(stack, made.release_id))["number"] == 1


async def test_p6_a_platform_that_asks_for_approvals_publishes_nothing_without_one(
    stack: Stack, catalog_url: str
) -> None:
    """Its partner could order a release; what somebody approved at a gate is published, too."""
    inputs: dict[str, Json] = {"source": "bronze://ddh/b.tif", "collection": "ddh-own", "item_id": "sneak"}
    plain = Order("process_raster", inputs, scope="ddh", by="ann", correlation_id="t")
    error = (await stack.wait((await stack.gateway.submit(plain)).job_id)).job.error
    assert error
    assert error.code == "publication.unapproved"
    asked = Order("process_raster", {**inputs, "approval": True}, scope="ddh", by="ann", correlation_id="t")
    job_id = (await stack.gateway.submit(asked)).job_id
    await stack.until(job_id, lambda job: job.job.state is JobState.WAITING)
    assert rows(catalog_url, ITEMS) == []
    await stack.gateway.controls.signal(job_id, "review", {"approved": True}, "ben")
    assert (await stack.wait(job_id)).job.error is None
    assert rows(catalog_url, ITEMS) == [{"collection": "ddh-own", "id": "sneak"}]


async def test_p4_p6_the_submitter_of_a_job_does_not_approve_it_where_another_person_must(
    stack: Stack, catalog_url: str
) -> None:
    await stack.gateway.releases.save_platform("ddh", policy(approval="other_approver"), ADMIN)

    async def publish(item: str, approver: str) -> str:
        inputs: dict[str, Json] = {"source": "bronze://ddh/b.tif", "collection": "ddh-own", "item_id": item}
        asked = Order(
            "process_raster", {**inputs, "approval": True}, scope="ddh", by="ddh/ann (k1)", correlation_id="t"
        )
        job_id = (await stack.gateway.submit(asked)).job_id
        await stack.until(job_id, lambda job: job.job.state is JobState.WAITING)
        await stack.gateway.controls.signal(job_id, "review", {"approved": True}, approver)
        error = (await stack.wait(job_id)).job.error
        return error.code if error else "none"

    assert await publish("one", "ddh/ann (k9)") == "publication.unapproved"
    assert await publish("two", "default/ann (https://login.example)") == "publication.unapproved"
    assert rows(catalog_url, ITEMS) == []
    assert await publish("three", BEN.actor) == "none"


async def test_p6_all_items_of_a_release_come_and_go_together(stack: Stack, catalog_url: str, bronze: Path) -> None:
    releases = stack.gateway.releases
    write_frame(make_frame(), bronze / "two.gpkg", layer="a")
    write_frame(make_frame(), bronze / "two.gpkg", layer="b")
    await releases.save_platform("ddh", policy(), ADMIN)
    made = await approved(stack, source="two.gpkg", clearance="public")
    shown = await show(stack, made.release_id)
    assert (shown["number"], shown["shown_revision"], len(rows(catalog_url, ITEMS))) == (1, 1, 2)
    assert len({one["name"] for one in shown["artifacts"] if one["kind"] == "table"}) == 2
    public = "select distinct public from app.publication_keys where kind = 'item'"
    assert rows(catalog_url, public) == [{"public": True}]

    other = next(item for item in rows(catalog_url, ITEMS) if item["id"] != shown["item_id"])
    at: dict[str, Json] = {"collection": other["collection"], "item_id": other["id"]}
    said = Order("process_raster", {"source": "bronze://ddh/b.tif", **at}, scope="ddh", by="ann", correlation_id="t")
    done = await stack.wait((await stack.gateway.submit(said)).job_id)
    assert done.job.error
    assert done.job.error.code == "publication.release"

    await releases.clear(made.release_id, "internal", BEN)
    assert rows(catalog_url, public) == [{"public": False}]
    await releases.revoke(made.release_id, ANN)
    assert rows(catalog_url, ITEMS) == []
    assert await refused(releases.submit(order(source="a.tif"), ANN)) == "release.exists"  # of another type


async def test_an_order_does_not_say_what_its_release_decides(stack: Stack) -> None:
    with pytest.raises(InputError, match="dry_run, item_id"):
        await stack.gateway.releases.submit(order(options={"item_id": "x", "dry_run": True, "tiling": "never"}), ANN)


async def test_p6_what_was_revoked_stays_gone(stack: Stack, catalog_url: str) -> None:
    """Also when its job was purged, and when the next revision is published."""
    releases = stack.gateway.releases
    made = await approved(stack)
    first = (await show(stack, made.release_id))["publication"]
    gone = await releases.revoke(made.release_id, ANN)
    with psycopg.connect(catalog_url, autocommit=True) as connection:
        connection.execute("select app.purge(interval '-1 second', 0, 1000, 1000, 100000)")
    restore = ItemAction("restore", gone["collection"], gone["item_id"], "ann", "by mistake", "ddh")
    assert await refused(stack.gateway.publishing.act(restore)) == "publication.not_approved"

    assert (await approved(stack, source="b.tif")).revision == 2
    assert (await show(stack, made.release_id))["shown_revision"] == 2
    (file,) = await stack.gateway.reads._database.query(
        "publication_file", publication=first, file="thumbnail.png", platform=None
    )
    assert file["gone"]
    first_file = f"select tier, key from app.published_files where publication = '{first}' and name like '%.tif'"
    (cog,) = rows(catalog_url, first_file)
    source = f"{cog['tier']}://{cog['key']}"
    said = Order("process_raster", {"source": source, "collection": "mine"}, scope="ddh", by="ann", correlation_id="t")
    done = await stack.wait((await stack.gateway.submit(said)).job_id)
    assert done.job.error
    assert done.job.error.code == "storage.not_readable"


async def test_p4_the_gate_and_the_retries_of_a_release_are_the_releases(stack: Stack, bronze: Path) -> None:
    releases, controls = stack.gateway.releases, stack.gateway.controls
    made = await processed(stack)
    job = str(made.job_id)
    assert await refused(controls.signal(job, "review", {"approved": True}, "ann")) == "release.decides"
    waiting = build_job(await stack.until(job, lambda found: found))
    assert [node.command for node in waiting.nodes if node.command] == [
        f"anabranch approvals approve {made.release_id}"
    ]
    await releases.decide(made.release_id, True, BEN)
    await stack.wait(job)
    make_raster(bronze / "a.tif", hills()[:, ::-1])
    assert await refused(controls.retry(job, RetryChoice(from_node="preflight"), "ann")) == "release.decides"
    assert (await show(stack, made.release_id))["number"] == 1


async def test_p4_a_label_of_the_caller_says_nothing_about_a_gate(stack: Stack) -> None:
    inputs: dict[str, Json] = {"source": "bronze://ddh/b.tif", "collection": "ddh-own", "approval": True}
    labels = {"release": "0" * 32, "platform": "ddh"}
    said = Order("process_raster", inputs, scope="ddh", by="ann", correlation_id="t", labels=labels)
    job = (await stack.gateway.submit(said)).job_id
    waiting = build_job(await stack.until(job, lambda found: found.job.state is JobState.WAITING))
    (command,) = [node.command for node in waiting.nodes if node.command]
    assert command.startswith(f"anabranch signal {job[:12]}")


async def test_p3_a_retry_makes_no_second_unresolved_release(stack: Stack) -> None:
    releases, controls = stack.gateway.releases, stack.gateway.controls
    first = await releases.submit(order(), ANN)
    await controls.cancel(str(first.job_id), "no", "ann")
    assert "release.failed" in await actions(stack, 2)
    await processed(stack, version="2", source="b.tif")
    assert await refused(controls.retry(str(first.job_id), RetryChoice(), "ann")) == "release.decides"
    assert await refused(releases.submit(order(reprocess=True), ANN)) == "release.unresolved"


async def test_p5_an_older_revision_never_replaces_a_newer_one(stack: Stack) -> None:
    releases = stack.gateway.releases
    await releases.save_platform("ddh", policy(approval="none"), ADMIN)
    first = await releases.submit(order(), ANN)
    await stack.gateway.controls.cancel(str(first.job_id), "no", "ann")
    second = await releases.submit(order(source="b.tif"), ANN)
    await stack.wait(str(second.job_id))
    retry = stack.gateway.controls.retry(str(first.job_id), RetryChoice(), "ann")
    assert await refused(retry) == "release.decides"
    assert (await show(stack, first.release_id))["shown_revision"] == 2


async def test_p6_a_release_is_revoked_before_it_is_shown_and_after_it_was_unpublished(
    stack: Stack, catalog_url: str
) -> None:
    releases = stack.gateway.releases
    made = await processed(stack)
    await releases.decide(made.release_id, True, BEN)
    assert (await releases.revoke(made.release_id, ANN))["approval_status"] == "revoked"
    await stack.wait(str(made.job_id))
    assert rows(catalog_url, ITEMS) == []

    made = await approved(stack, source="b.tif")
    found = await show(stack, made.release_id)
    await stack.gateway.publishing.act(ItemAction("withdraw", found["collection"], found["item_id"], "admin", "x"))
    assert await actions(stack, 1) == ["release.withdrawn"]
    await releases.revoke(made.release_id, ANN)
    restore = ItemAction("restore", found["collection"], found["item_id"], "admin", "x")
    assert await refused(stack.gateway.publishing.act(restore)) == "publication.not_approved"


async def test_a_release_that_could_not_be_published_is_submitted_again(stack: Stack, catalog_url: str) -> None:
    releases = stack.gateway.releases
    made = await processed(stack)
    with psycopg.connect(catalog_url) as catalog:
        catalog.execute("select app.lock_catalog()")  # so that nothing is published
        await releases.decide(made.release_id, True, BEN)
        await stack.gateway.controls.cancel(str(made.job_id), "the catalog is full", "ann")
    failed = await show(stack, made.release_id)
    assert (failed["processing_status"], failed["approval_status"], failed["number"]) == ("failed", "approved", None)
    assert await actions(stack, 1) == ["release.failed"]
    assert (await releases.submit(order(), ANN)).verdict == "next"


async def test_p4_a_decision_is_on_the_revision_that_was_reviewed(stack: Stack) -> None:
    releases = stack.gateway.releases
    first = await processed(stack)
    second = await releases.submit(order(source="b.tif", overwrite=True), ANN)
    await stack.until(str(second.job_id), lambda one: one.job.state is JobState.WAITING)
    assert "release.replaced" in await actions(stack, 9)
    assert await refused(releases.decide(first.release_id, True, BEN, revision=1)) == "release.moved"
    assert (await releases.decide(first.release_id, True, BEN, revision=2))["approval_status"] == "approved"


async def test_p6_an_asset_is_deleted_when_nothing_of_it_waits(stack: Stack) -> None:
    made = await processed(stack)
    releases = stack.gateway.releases
    assert await refused(releases.delete_asset(made.asset_id, True, ANN)) == "release.unresolved"
    await releases.decide(made.release_id, False, BEN)
    await releases.delete_asset(made.asset_id, True, ANN)
    assert await refused(releases.submit(order(), ANN)) == "asset.deleted"


async def test_the_limit_of_unresolved_releases_holds_and_an_overwrite_needs_no_room(stack: Stack) -> None:
    releases = stack.gateway.releases
    await releases.save_platform("ddh", policy(max_unresolved=1), ADMIN)
    orders = [order().model_copy(update={"refs": {"dataset_id": n, "resource_id": 1}}) for n in range(6)]
    answers = await asyncio.gather(*(releases.submit(one, ANN) for one in orders), return_exceptions=True)
    (made,) = (one for one in answers if not isinstance(one, BaseException))
    assert [one.code for one in answers if isinstance(one, Conflict)] == ["platform.full"] * 5
    taken = orders[answers.index(made)]
    assert (await releases.submit(taken.model_copy(update={"overwrite": True}), ANN)).verdict == "next"


async def test_what_an_order_says_of_a_release_is_never_dropped(stack: Stack) -> None:
    releases = stack.gateway.releases
    made = await approved(stack, clearance="internal")
    assert await refused(releases.submit(order(clearance="internal", description="new"), ANN)) == "release.exists"
    again = order(reprocess=True, description="new", title="New")
    assert await refused(releases.submit(again.model_copy(update={"clearance": "public"}), ANN)) == "release.clearance"
    await releases.submit(again.model_copy(update={"clearance": "uncleared"}), ANN)
    found = await show(stack, made.release_id)
    assert [found[name] for name in ("clearance", "title", "description")] == ["uncleared", "New", "new"]


async def test_a_new_version_says_what_its_order_says_of_the_asset(stack: Stack) -> None:
    await approved(stack, title="First")
    second = await processed(stack, version="2", source="b.tif", title="Second", description="newer", tags=["t"])
    found = await show(stack, second.release_id)
    assert [found[name] for name in ("title", "description", "tags")] == ["Second", "newer", ["t"]]


async def test_p6_a_revoke_stops_a_reprocess_that_nobody_has_to_approve(stack: Stack, catalog_url: str) -> None:
    releases = stack.gateway.releases
    await releases.save_platform("ddh", policy(approval="none"), ADMIN)
    made = await releases.submit(order(), ANN)
    await stack.wait(str(made.job_id))
    again = await releases.submit(order(source="b.tif", reprocess=True), ANN)
    await releases.revoke(made.release_id, BEN)
    assert (await stack.wait(str(again.job_id))).job.state is JobState.CANCELLED
    found = await show(stack, made.release_id)
    assert (found["approval_status"], found["processing_status"], found["number"]) == ("revoked", "failed", None)
    assert rows(catalog_url, ITEMS) == []


async def test_e2_an_order_that_was_refused_leaves_nothing(stack: Stack, catalog_url: str) -> None:
    releases = stack.gateway.releases
    await releases.save_platform("ddh", policy(max_unresolved=1), ADMIN)
    await releases.submit(order(), ANN)
    other = order().model_copy(update={"refs": {"dataset_id": 9, "resource_id": "x"}})
    assert await refused(releases.submit(other, ANN)) == "platform.full"
    assert [row["dataset"] for row in rows(catalog_url, "select refs ->> 'dataset_id' as dataset from app.assets")] == [
        "38272"
    ]


async def test_p2_a_release_without_a_version_is_not_its_asset(stack: Stack) -> None:
    plain = order().model_copy(update={"refs": {"dataset_id": 38272, "resource_id": "dem"}})
    made = await stack.gateway.releases.submit(plain, ANN)
    assert made.release_id != made.asset_id


async def test_s1_no_platform_takes_the_collection_of_another_in_advance(stack: Stack) -> None:
    """Nor does it learn whose a name is that is taken."""
    releases = stack.gateway.releases
    await releases.save_platform("globex", policy(approval="none", sources=["bronze://ddh"]), ADMIN)
    other = replace(ANN, platform_filter="globex", actor="globex/g (k9)")
    foreign = order(options={"collection": "ddh-raster"}).model_copy(update={"platform": "globex"})
    with pytest.raises(NotFound, match="there is no collection ddh-raster that platform globex may publish to"):
        await releases.submit(foreign, other)
    plain = Order(
        "process_raster", {"source": "bronze://ddh/a.tif", "collection": "ddh-raster"},
        scope="globex", by="g", correlation_id="t",
    )  # fmt: skip
    error = (await stack.wait((await stack.gateway.submit(plain)).job_id)).job.error
    assert error
    assert error.code == "catalog.no_collection"
    assert (await releases.submit(order(), ANN)).verdict == "create"


async def test_s1_a_table_that_is_taken_does_not_say_by_whom(stack: Stack, bronze: Path) -> None:
    releases = stack.gateway.releases
    write_frame(make_frame(), bronze / "one.gpkg", layer="a")
    made = await approved(stack, source="one.gpkg")
    shown = await show(stack, made.release_id)
    await releases.save_platform("globex", policy(approval="none", sources=["bronze://ddh"]), ADMIN)
    taken = next(one["name"] for one in shown["artifacts"] if one["kind"] == "table")
    inputs: dict[str, Json] = {"source": "bronze://ddh/one.gpkg", "collection": "mine", "item_id": "x", "table": taken}
    said = Order("process_vector", inputs, scope="globex", by="g", correlation_id="t")
    error = (await stack.wait((await stack.gateway.submit(said)).job_id)).job.error
    assert error
    assert "another platform" in error.message
    assert shown["item_id"] not in error.message


async def test_p9_who_orders_what_is_published_hears_that_it_is(stack: Stack, catalog_url: str) -> None:
    await approved(stack)
    said = order(callback_url="https://example.com/hook", callback_secret="a secret that both sides know")
    assert (await stack.gateway.releases.submit(said, BEN)).verdict == "same"
    query = "select m.event from app.webhook_deliveries d join app.webhook_messages m on m.id = d.message order by d.id"
    assert [one["event"] for one in rows(catalog_url, query)] == ["release.approved", "release.published"]


async def test_o6_errors_say_what_stands_against_a_decision_and_what_to_do(stack: Stack) -> None:
    releases = stack.gateway.releases
    made = await processed(stack)
    name = f"release {made.release_id}"
    early = await error_of(releases.revoke(made.release_id, BEN))
    assert early.message == f"{name} is not approved: it waits for a review"
    await releases.decide(made.release_id, False, BEN)
    await stack.wait(str(made.job_id))
    by = r"it was rejected by ddh/ben \(k2\) on 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    again = await error_of(releases.decide(made.release_id, True, BEN))
    assert re.fullmatch(f"{name} can't be decided again: {by}", again.message)
    assert re.fullmatch(
        f"{name} is not approved: {by}", (await error_of(releases.revoke(made.release_id, BEN))).message
    )

    second = await processed(stack)
    await stack.gateway.controls.cancel(str(second.job_id), "no", "ann")
    failed = await error_of(releases.decide(made.release_id, True, BEN))
    assert (failed.code, failed.message) == ("release.not_completed", f"the processing of {name} failed")
    assert f"`anabranch releases resubmit {made.release_id}`" in failed.remedy


async def test_o6_an_asset_that_is_shown_says_what_to_revoke(stack: Stack) -> None:
    made = await approved(stack)
    shown = await error_of(stack.gateway.releases.delete_asset(made.asset_id, True, BEN))
    assert (shown.code, "anabranch releases revoke" in code_of(shown).remedy) == ("asset.shown", True)


async def test_o6_a_revoke_that_comes_second_names_what_came_first(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = stack.gateway.releases
    made = await approved(stack)
    withdraw = stack.gateway.publishing.act_in_one_transaction

    async def revoked_before(*given: Any) -> None:
        monkeypatch.undo()
        await releases.revoke(made.release_id, ANN)
        await withdraw(*given)

    monkeypatch.setattr(stack.gateway.publishing, "act_in_one_transaction", revoked_before)
    late = await error_of(releases.revoke(made.release_id, BEN))
    assert "it was revoked by ddh/ann (k1) on" in late.message
