"""Vector layers: a publication shows tables as a view in schema geo, and every action on it moves the view (V3, P5)."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.canonical import Json
from anabranch.contract.catalog import ItemAct
from anabranch.errors import Conflict
from anabranch.plugins.stac.catalog import By, act, ensure_collection
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.plugins.stac.pgstac.rebuild import rebuild
from tests.support.layers import fill_table, publish_layer

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
ANN = By(actor="ann", reason="wrong")


@pytest.fixture
def owner(catalog_url: str) -> Iterator[Connection[Any]]:
    with connect(catalog_url, Role.OWNER) as connection:
        yield connection


@pytest.fixture
def handler(catalog_url: str) -> Iterator[Connection[Any]]:
    with connect(catalog_url, Role.HANDLER) as connection:
        ensure_collection(connection, CollectionFacts(id="layers"))
        yield connection


def labels(connection: Connection[Any], view: str = "roads") -> list[str] | None:
    """What readers see in a view; None where there is none."""
    try:
        return [label for (label,) in connection.execute(f"select label from geo.{view} order by gid, label")]
    except psycopg.errors.UndefinedTable:
        return None


def move(handler: Connection[Any], action: ItemAct, **given: Any) -> None:
    act(handler, action, "layers", "roads", ANN, **given)


def test_v3_every_action_on_an_item_moves_its_view(handler: Connection[Any], owner: Connection[Any]) -> None:
    publish_layer(handler, "roads", [fill_table(owner, "roads_1", ["old", "older"])], A)
    assert labels(owner) == ["old", "older"]
    publish_layer(handler, "roads", [fill_table(owner, "roads_2", ["new"])], B)
    assert labels(owner) == ["new"]
    move(handler, "rollback")
    assert labels(owner) == ["old", "older"]
    move(handler, "withdraw")
    assert labels(owner) is None
    assert owner.execute("select name from app.layers").fetchall() == []
    move(handler, "restore")
    assert labels(owner) == ["old", "older"]
    assert owner.execute("select name, item, number, geometry_type from app.layers").fetchall() == [
        ("roads", "roads", 5, "Point")
    ]


def test_v3_the_view_has_other_columns_and_another_name_when_the_publication_has(
    handler: Connection[Any], owner: Connection[Any]
) -> None:
    wide: list[Json] = [{"name": "code", "type": "text"}, {"name": "label", "type": "text"}]
    publish_layer(handler, "roads", [fill_table(owner, "roads_1", ["old"])], A)
    publish_layer(handler, "roads", [fill_table(owner, "roads_2", ["new"], wide)], B, columns=wide)
    assert owner.execute("select code, label from geo.roads").fetchall() == [("new", "new")]
    publish_layer(handler, "streets", ["roads_1"], C, item="roads")
    assert (labels(owner), labels(owner, "streets")) == (None, ["old"])


def test_v3_several_tables_are_shown_as_one_and_the_index_of_each_is_used(
    handler: Connection[Any], owner: Connection[Any]
) -> None:
    parts = [fill_table(owner, "roads_1", ["a", "b"]), fill_table(owner, "roads_2", ["c"])]
    publish_layer(handler, "roads", parts[:1], A)
    publish_layer(handler, "roads", parts, B)
    assert labels(owner) == ["a", "c", "b"]
    owner.execute("set enable_seqscan = off")
    plan = owner.execute(
        "explain select * from geo.roads where geom OPERATOR(public.&&) public.st_makeenvelope(1, -1, 2, 1, 4326)"
    ).fetchall()
    assert sum("Index" in line and "geom_idx" in line for (line,) in plan) == 2, plan
    move(handler, "rollback")
    assert labels(owner) == ["a", "b"]


def test_a_name_belongs_to_the_item_that_first_took_it(
    catalog_url: str, handler: Connection[Any], owner: Connection[Any]
) -> None:
    publish_layer(handler, "roads", [fill_table(owner, "roads_1", ["old"])], A)
    with pytest.raises(Conflict, match=r"geo\.roads belongs to item layers/roads") as refused:
        publish_layer(handler, "roads", [fill_table(owner, "roads_2", ["new"])], B, item="other")
    assert refused.value.code == "publication.name_taken"
    for theirs in ("create table geo.mine (x integer)", "drop table geo.mine; create view geo.mine as select 1 as x"):
        with connect(catalog_url, Role.GEO) as user:
            user.execute(theirs)
        with pytest.raises(Conflict, match=r"geo\.mine is a table or view of a user") as refused:
            publish_layer(handler, "mine", ["roads_2"], B)
        assert refused.value.code == "publication.name_taken"
    assert owner.execute("select name from app.layers").fetchall() == [("roads",)]


def test_a_view_of_a_user_on_a_layer_is_not_broken(handler: Connection[Any], owner: Connection[Any]) -> None:
    publish_layer(handler, "roads", [fill_table(owner, "roads_1", ["old"])], A)
    owner.execute("create view geo.my_roads as select * from geo.roads")
    publish_layer(handler, "roads", [fill_table(owner, "roads_2", ["new"])], B)
    assert labels(owner, "my_roads") == ["new"]
    with pytest.raises(Conflict, match="roads") as refused:
        move(handler, "withdraw")
    assert refused.value.code == "publication.in_use"
    assert labels(owner) == ["new"]


def test_tables_that_are_not_finished_or_differ_are_not_shown(handler: Connection[Any], owner: Connection[Any]) -> None:
    fill_table(owner, "roads_1", ["old"])
    fill_table(owner, "roads_2", ["new"], [{"name": "label", "type": "text"}, {"name": "more", "type": "text"}])
    with pytest.raises(Conflict) as refused:
        publish_layer(handler, "roads", ["roads_1", "roads_2"], A)
    assert refused.value.code == "publication.tables"
    owner.execute("update app.layer_tables set rows = null where name = 'roads_1'")
    with pytest.raises(Conflict):
        publish_layer(handler, "roads", ["roads_1"], A)
    assert labels(owner) is None


def test_c3_the_views_are_made_again_from_the_publications(
    catalog_url: str, handler: Connection[Any], owner: Connection[Any]
) -> None:
    publish_layer(handler, "roads", [fill_table(owner, "roads_1", ["old"])], A)
    owner.execute("drop view geo.roads")
    with connect(catalog_url, None) as login:
        rebuild(login)
    assert labels(owner) == ["old"]


def test_each_role_sees_what_it_may(catalog_url: str, handler: Connection[Any], owner: Connection[Any]) -> None:
    publish_layer(handler, "roads", [fill_table(owner, "roads_1", ["old"])], A)
    with connect(catalog_url, Role.GEO) as user:
        assert labels(user) == ["old"]
        user.execute("create table geo.scratch as select label from geo.roads")
        for forbidden in ("select * from geo.roads_1", "drop view geo.roads", "select * from app.jobs",
                          "select app.drop_layer_table('roads_1')", "create table app.x (y integer)",
                          "create table public.x (y integer)"):  # fmt: skip
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFunction)):
                user.execute(forbidden)
    with connect(catalog_url, Role.FEATURES) as features:
        assert labels(features) == ["old"]
        assert features.execute("select name from app.layers").fetchall() == [("roads",)]
        for forbidden in ("select * from geo.scratch", "select * from geo.roads_1", "select * from app.publications"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                features.execute(forbidden)


def test_o5_tables_that_nothing_shows_are_dropped(handler: Connection[Any], owner: Connection[Any]) -> None:
    publish_layer(handler, "roads", [fill_table(owner, "roads_1", ["old"])], A)
    publish_layer(handler, "roads", [fill_table(owner, "roads_2", ["new"])], B)
    fill_table(owner, "left_over", ["x"])
    drop = "select app.drop_unused_tables('1 day', 10)"
    assert owner.execute(drop).fetchone() == (1,)
    assert labels(owner, "left_over") is None
    owner.execute("update app.former_publications set hidden_at = now() - interval '40 days'")
    owner.execute("select app.expire_publications('30 days', '30 days', 10)")
    assert owner.execute(drop).fetchone() == (1,)
    assert labels(owner, "roads_1") is None
    assert labels(owner) == ["new"]
    with pytest.raises(Conflict):
        move(handler, "rollback")
