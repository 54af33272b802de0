"""The items of a release of several layers move together."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.api.platform.build import build_release
from anabranch.errors import Conflict, NotFound
from anabranch.item_actions import ItemAction
from anabranch.platform.notifications.ports import EndpointChange
from tests.support.data_hub import make_policy
from tests.support.releases import ADMIN, ANN, BEN, approved, bronze, processed, rows, show, stack
from tests.support.stack import Stack
from tests.support.vectors import make_frame, write_frame

__all__ = ["bronze", "stack"]  # fixtures

pytestmark = pytest.mark.postgres

SHOWN = """select split_part(k.key, '/', 2) as item, r.revision from app.publication_keys k
             join app.publications p on p.id = k.current and p.action <> 'withdraw'
             join app.published_revisions r on r.publication = p.source where k.kind = 'item' order by k.key"""


@pytest.fixture
async def layers(stack: Stack, bronze: Path) -> None:
    """Files of a vector platform: abc.gpkg has the layers a, b and c, and so on."""
    for name in ("abc", "ab", "b", "cd"):
        for layer in name:
            write_frame(make_frame(), bronze / f"{name}.gpkg", layer=layer)
    await stack.gateway.releases.save_platform("ddh", make_policy("one_approver", vector="process_vector"), ADMIN)


def shown(url: str) -> dict[str, int]:
    """The revision that each item shows, by the last letter of its name; both catalogs agree."""
    found = rows(url, SHOWN)
    ids = [row["id"] for row in rows(url, "select id from pgstac.items order by 1")]
    assert ids == [row["id"] for row in rows(url, "select id from app.catalog_items order by 1")]
    assert ids == [row["item"] for row in found]
    return {row["item"][-1] if "_" in row["item"] else "only": row["revision"] for row in found}


async def publish(stack: Stack, *sources: str, **more: Any) -> Any:
    """A release with a revision for each file."""
    return [await approved(stack, source=source, reprocess=source != sources[0], **more) for source in sources][-1]


@pytest.mark.usefixtures("layers")
async def test_p5_an_item_that_the_next_revision_has_not_is_withdrawn_with_its_publication(
    stack: Stack, catalog_url: str
) -> None:
    made = await publish(stack, "abc.gpkg", "b.gpkg")
    assert shown(catalog_url) == {"only": 2}
    (line,) = await stack.gateway.releases.platforms.audit("ddh", limit=1)
    assert (line.action, line.actor, line.revision) == ("item.withdrawn", ANN.actor, 1)
    assert line.reason == "revision 2 of the release does not have this item"
    withdrawn: Any = line.data["items"]
    assert [(one["item"][-1], one["number"]) for one in withdrawn] == [("a", 2), ("b", 2), ("c", 2)]

    await stack.gateway.releases.clear(made.release_id, "public", BEN)
    collection, item = withdrawn[0]["item"].split("/")
    await stack.gateway.publishing.act(ItemAction("restore", collection, item, "ann", "needed", "ddh"))
    assert len(shown(catalog_url)) == 2
    assert rows(catalog_url, "select distinct public from app.publication_keys where kind = 'item'") == [
        {"public": True}
    ]
    await stack.gateway.releases.revoke(made.release_id, BEN)
    assert shown(catalog_url) == {}


@pytest.mark.usefixtures("layers")
async def test_p5_the_publication_and_the_withdrawals_are_one_transaction(stack: Stack, catalog_url: str) -> None:
    await publish(stack, "abc.gpkg", "ab.gpkg")
    second = "select action::text, xmin::text as made_in from app.publications where kind = 'item' and number = 2"
    found = rows(catalog_url, second)
    assert sorted(row["action"] for row in found) == ["replace", "replace", "withdraw"]
    assert len({row["made_in"] for row in found}) == 1


@pytest.mark.usefixtures("layers")
async def test_p5_a_rollback_shows_all_items_of_the_revision_before_and_no_other(
    stack: Stack, catalog_url: str
) -> None:
    releases = stack.gateway.releases
    made = await publish(stack, "abc.gpkg", "ab.gpkg", "cd.gpkg")
    assert shown(catalog_url) == {"c": 3, "d": 3}

    back = await releases.roll_back(made.release_id, None, BEN)
    assert shown(catalog_url) == {"a": 2, "b": 2}
    assert (back["number"], back["shown_revision"]) == (4, 2)
    with pytest.raises(Conflict) as repeated:
        await releases.roll_back(made.release_id, None, BEN, expected=3)
    assert repeated.value.code == "publication.moved"
    await releases.roll_back(made.release_id, None, BEN, expected=4)
    assert shown(catalog_url) == {"a": 1, "b": 1, "c": 1}
    with pytest.raises(NotFound, match="no earlier revision"):
        await releases.roll_back(made.release_id, None, BEN)

    await releases.roll_back(made.release_id, None, BEN, revision=3)
    assert shown(catalog_url) == {"c": 3, "d": 3}
    for absent in (3, 9):
        with pytest.raises(NotFound, match=f"no published revision {absent}"):
            await releases.roll_back(made.release_id, None, BEN, revision=absent)
    await releases.roll_back(made.release_id, None, BEN)
    await releases.roll_back(made.release_id, 1, BEN)
    assert shown(catalog_url) == {"a": 1, "b": 1, "c": 1}
    with pytest.raises(Conflict) as same:
        await releases.roll_back(made.release_id, 1, BEN)
    assert same.value.code == "publication.same"
    with pytest.raises(NotFound, match="number 99"):
        await releases.roll_back(made.release_id, 99, BEN)
    actions = [line.action for line in await releases.platforms.audit("ddh", limit=100)]
    assert "release.withdrawn" not in actions  # something of it was always shown


@pytest.mark.usefixtures("layers")
async def test_p9_a_message_has_all_items_that_a_publication_or_a_rollback_moves(
    stack: Stack, catalog_url: str
) -> None:
    endpoint = EndpointChange("https://example.org/", None, ("*",), "standard", "", timeout_seconds=15, retries=5)
    await stack.gateway.webhooks.add("ddh", endpoint, None, ANN)
    made = await publish(stack, "ab.gpkg", "abc.gpkg")
    await stack.gateway.releases.roll_back(made.release_id, None, BEN)
    await stack.gateway.releases.revoke(made.release_id, BEN)
    query = """select event, data -> 'items' as items from app.webhook_messages
                where event in ('release.published', 'release.rolled_back', 'release.withdrawn') order by made_at"""
    said = [
        (row["event"], [(one["item"][-1], one["number"]) for one in row["items"]]) for row in rows(catalog_url, query)
    ]
    assert said == [
        ("release.published", [("a", 1), ("b", 1)]),
        ("release.published", [("a", 2), ("b", 2), ("c", 1)]),
        ("release.rolled_back", [("a", 3), ("b", 3)]),
        ("release.withdrawn", [("a", 4), ("b", 4)]),
    ]


@pytest.mark.usefixtures("layers")
async def test_p5_a_rollback_shows_what_the_revision_showed_last(stack: Stack, catalog_url: str) -> None:
    """With its exports, which child jobs have published after it, and also when its jobs were purged."""
    made = await publish(stack, "ab.gpkg", "abc.gpkg", options={"exports": ["csv"]})
    assert shown(catalog_url) == {"a": 2, "b": 2, "c": 2}
    with psycopg.connect(catalog_url, autocommit=True) as connection:
        connection.execute("select app.purge(interval '-1 second', 0, 1000, 1000, 100000)")
    await stack.gateway.releases.roll_back(made.release_id, None, BEN)
    assert shown(catalog_url) == {"a": 1, "b": 1}
    files = """select count(*) as n from app.publication_keys k join app.publications p on p.id = k.current
                 join app.published_files f on f.publication = p.source
                where p.action <> 'withdraw' and f.name like '%.csv'"""
    assert rows(catalog_url, files) == [{"n": 2}]


@pytest.mark.usefixtures("layers")
async def test_p5_a_release_without_another_revision_is_not_rolled_back(stack: Stack, catalog_url: str) -> None:
    releases = stack.gateway.releases
    made = await processed(stack, source="ab.gpkg")
    for _ in range(2):
        with pytest.raises(NotFound) as missing:
            await releases.roll_back(made.release_id, None, BEN)
        assert missing.value.code == "publication.not_found"
        if not shown(catalog_url):
            await releases.decide(made.release_id, True, BEN)
            await stack.wait(str(made.job_id))


@pytest.mark.usefixtures("layers")
async def test_p5_a_rollback_that_one_item_can_not_follow_changes_none(stack: Stack, catalog_url: str) -> None:
    made = await publish(stack, "abc.gpkg", "ab.gpkg")
    with psycopg.connect(catalog_url, autocommit=True) as connection:  # what was withdrawn is kept for no time at all
        connection.execute("select app.expire_publications('1 year', '-1 second', 100)")
    with pytest.raises(Conflict) as expired:
        await stack.gateway.releases.roll_back(made.release_id, None, BEN)
    assert expired.value.code == "publication.expired"
    assert shown(catalog_url) == {"a": 2, "b": 2}


@pytest.mark.usefixtures("layers")
async def test_p5_where_one_layer_can_not_be_published_none_is(stack: Stack, catalog_url: str) -> None:
    made = await publish(stack, "ab.gpkg")
    again = await processed(stack, source="abc.gpkg", reprocess=True)
    taken = next(row["item"] for row in rows(catalog_url, SHOWN))[:-1] + "c"
    with psycopg.connect(catalog_url, autocommit=True) as connection:
        connection.execute(f"create table geo.{taken} (gid bigint)")
    await stack.gateway.releases.decide(made.release_id, True, BEN)
    await stack.wait(str(again.job_id))
    found = await show(stack, made.release_id)
    assert (found["processing_status"], found["shown_revision"]) == ("failed", 1)
    assert shown(catalog_url) == {"a": 1, "b": 1}


@pytest.mark.usefixtures("layers")
async def test_a_release_of_several_items_lists_them_with_their_links(stack: Stack, catalog_url: str) -> None:
    made = await publish(stack, "ab.gpkg")
    release = build_release(await show(stack, made.release_id))
    ids = [row["item"] for row in rows(catalog_url, SHOWN)]
    assert [(one.collection, one.id, one.number) for one in release.items] == [("ddh-vector", one, 1) for one in ids]
    assert [one.links["features"] for one in release.items] == [f"/features/collections/{one}" for one in ids]
    assert release.links.keys() == {"status", "job", "latest"}
    urls = {one["url"] for one in release.artifacts if "url" in one}
    assert urls == {f"/files/current/ddh-vector/{one}/report.json" for one in ids}

    await stack.gateway.releases.revoke(made.release_id, BEN)
    assert build_release(await show(stack, made.release_id)).items == ()


@pytest.mark.usefixtures("layers")
async def test_a_release_of_one_layer_links_its_item(stack: Stack) -> None:
    made = await publish(stack, "b.gpkg")
    row = await show(stack, made.release_id)
    release = build_release(row)
    (item,) = release.items
    assert item.id == row["item_id"]
    assert release.links == {**item.links, **{name: release.links[name] for name in ("status", "job", "latest")}}
    assert item.links.keys() == {"item", "history", "features"}
