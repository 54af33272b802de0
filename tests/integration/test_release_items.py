"""The items of a release of several layers move together."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.item_actions import ItemAction
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
    lines = await stack.gateway.releases.platforms.audit("ddh", limit=3)
    assert [(line.action, line.actor, line.revision) for line in lines] == [("item.withdrawn", ANN.actor, 1)] * 3
    assert {line.reason for line in lines} == {"revision 2 of the release does not have this item"}

    await stack.gateway.releases.clear(made.release_id, "public", BEN)
    collection, item = str(lines[0].data["item"]).split("/")
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
