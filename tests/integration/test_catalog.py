"""Publishing: recorded items appear in the catalog, once and complete, and it can be rebuilt from them."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import dict_row

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.schema.pgstac import drop_catalog, migrate_catalog
from anabranch.errors import Conflict, InputError, NotFound, Transient, Unavailable
from anabranch.plugins.stac import catalog
from anabranch.plugins.stac.catalog import Publication, ensure_collection, find_origin, publish
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.plugins.stac.item import Origin, build_item, find_outputs
from anabranch.plugins.stac.pgstac import transaction
from anabranch.plugins.stac.pgstac.rebuild import Difference, Rebuilt, check, rebuild
from anabranch.plugins.stac.publication_file import PublicationFile
from tests.support.items import raster_item

JOB = "j" * 64


def square(west: float, south: float, size: float = 1.0) -> dict[str, Any]:
    east, north = west + size, south + size
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}


def publication(item: str, collection: str = "heights", **changes: Any) -> Publication:
    raster = raster_item(item, **changes)
    return Publication(build_item(collection, raster, Origin(JOB), "0.1.0"), find_outputs(raster))


@pytest.fixture
def handler(catalog_url: str) -> Iterator[Connection[Any]]:
    """A connection as handlers have it, with a collection."""
    with connect(catalog_url, Role.HANDLER) as connection:
        ensure_collection(connection, CollectionFacts(id="heights"))
        yield connection


@pytest.fixture
def login(catalog_url: str) -> Iterator[Connection[Any]]:
    with connect(catalog_url, None) as connection:
        connection.execute("set search_path = pgstac, public")
        yield connection


def texts(login: Connection[Any]) -> list[Any]:
    """Everything that pgstac returns, as text."""
    items = "select content_hydrate(i)::text from pgstac.items i order by collection, id"
    return [
        *login.execute(items).fetchall(),
        *login.execute("select content::text from pgstac.collections order by id"),
    ]


def only(cursor: Any) -> Any:
    """The one value of a query."""
    ((value,),) = cursor.fetchall()
    return value


def extent(login: Connection[Any], collection: str = "heights") -> Any:
    return only(login.execute("select content -> 'extent' from pgstac.collections where id = %s", [collection]))


def test_c1_a_published_item_comes_back_as_it_was_built(handler: Connection[Any], login: Connection[Any]) -> None:
    sent = publication("dem", footprint=square(7.123456789, 50.1))
    done = publish(handler, "heights", JOB, [sent])
    assert (done.items, done.changed) == (("dem",), ("dem",))
    assert login.execute("select get_item('dem', 'heights')").fetchone() == (sent.document,)
    assert check(login) == []


def test_c1_an_interval_and_a_box_across_the_antimeridian_survive(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    parts = [square(179, 0)["coordinates"], square(-180, 0)["coordinates"]]
    times: dict[str, Any] = {
        "datetime": None,
        "start_datetime": "2020-01-01T00:00:00Z",
        "end_datetime": "2021-01-01T00:00:00Z",
    }
    sent = publication("far", footprint={"type": "MultiPolygon", "coordinates": parts}, **times)
    publish(handler, "heights", JOB, [sent])
    found = only(login.execute("select get_item('far')"))
    found["properties"].setdefault("datetime", None)  # pgstac keeps no nulls: our API puts this one back
    assert found == sent.document
    assert check(login) == []
    assert extent(login)["spatial"] == {"bbox": [[179, 0, -179, 1]]}


def test_outputs_are_recorded_with_their_objects(handler: Connection[Any], login: Connection[Any]) -> None:
    publish(handler, "heights", JOB, [publication("dem")])
    with login.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute("select * from app.published_files order by name").fetchall()
    assert [row["name"] for row in rows] == ["dem.thumbnail.png", "dem.tif"]
    current = only(login.execute("select id from app.current_publications where key = 'heights/dem'"))
    assert rows[1] == {
        "publication": current, "name": "dem.tif", "kind": "cog", "tier": "silver", "key": "jobs/1/cog/0/1/dem.tif",
        "media_type": "image/tiff; application=geotiff; profile=cloud-optimized", "size": 123456,
        "sha256": "ab" * 32, "version": None,
    }  # fmt: skip


def test_the_same_item_again_changes_nothing(handler: Connection[Any], login: Connection[Any]) -> None:
    def versions() -> list[Any]:
        tables = ("app.collections", "app.catalog_items", "app.publications", "pgstac.items", "pgstac.collections")
        return [login.execute(f"select xmin::text, ctid::text from {table} order by 2").fetchall() for table in tables]

    publish(handler, "heights", JOB, [publication("dem"), publication("other")])
    before = versions()
    assert publish(handler, "heights", JOB, [publication("dem"), publication("other")]).changed == ()
    assert ensure_collection(handler, CollectionFacts(id="heights")) is False
    assert versions() == before


def test_p5_an_item_published_again_keeps_its_earlier_objects_and_shows_the_new_ones(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    publish(handler, "heights", JOB, [publication("dem")])
    output = {"kind": "cog", "href": "silver://new.tif", "media_type": "image/tiff", "size": 1, "sha256": "00" * 32}
    again = publication("dem", outputs=[output])
    assert publish(handler, "heights", "k" * 64, [again]).changed == ("dem",)
    shown = """select p.job_id, f.key from app.current_publications p
                 join app.published_files f on f.publication = p.source"""
    assert login.execute(shown).fetchall() == [("k" * 64, "new.tif")]
    assert only(login.execute("select count(*) from app.published_files")) == 3
    assert login.execute("select get_item('dem')").fetchone() == (again.document,)
    assert check(login) == []


def test_c2_an_extent_is_the_union_of_the_items(handler: Connection[Any], login: Connection[Any]) -> None:
    assert extent(login)["spatial"] == {"bbox": [[-180, -90, 180, 90]]}
    publish(handler, "heights", JOB, [publication("a", footprint=square(10, 10))])
    assert extent(login)["spatial"] == {"bbox": [[10, 10, 11, 11]]}
    later = publication("b", footprint=square(-5, 2), datetime="2025-01-01T00:00:00Z")
    publish(handler, "heights", JOB, [later])
    wide = {
        "spatial": {"bbox": [[-5, 2, 11, 11]]},
        "temporal": {"interval": [["2024-05-01T10:30:00Z", "2025-01-01T00:00:00Z"]]},
    }
    assert extent(login) == wide

    ensure_collection(handler, CollectionFacts(id="heights", title="Heights of all"))
    assert extent(login) == wide
    publish(handler, "heights", JOB, [publication("b", footprint=square(3, 3, 0.5))])
    assert extent(login) == {
        "spatial": {"bbox": [[3, 3, 11, 11]]},
        "temporal": {"interval": [["2024-05-01T10:30:00Z", "2024-05-01T10:30:00Z"]]},
    }
    assert check(login) == []


def test_a_collection_is_changed_only_where_something_is_said_of_it(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    ensure_collection(handler, CollectionFacts(id="heights", title="Heights", license="CC-BY-4.0"))
    ensure_collection(handler, CollectionFacts(id="heights", keywords=["dem"]))
    content = only(login.execute("select content from collections"))
    assert (content["title"], content["license"], content["keywords"]) == ("Heights", "CC-BY-4.0", ["dem"])


def test_c2_twenty_publishers_at_once_lose_nothing(catalog_url: str, login: Connection[Any]) -> None:
    """Into two collections that are new, through connections of their own, all starting together."""
    together = threading.Barrier(20)

    def work(number: int) -> int:
        collection = f"heights-{number % 2}"
        with connect(catalog_url, Role.HANDLER) as connection:
            together.wait(30)
            ensure_collection(connection, CollectionFacts(id=collection))
            items = [publication(f"item-{number}-{n}", collection, footprint=square(number, n)) for n in range(3)]
            return len(publish(connection, collection, f"{number:064}", items).changed)

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(work, range(20))) == [3] * 20
    assert login.execute("select count(*) from pgstac.items").fetchone() == (60,)
    assert login.execute("select count(*) from app.published_files").fetchone() == (120,)
    assert extent(login, "heights-0")["spatial"] == {"bbox": [[0, 0, 19, 3]]}
    assert extent(login, "heights-1")["spatial"] == {"bbox": [[1, 0, 20, 3]]}
    assert check(login) == []


@pytest.mark.parametrize("collections", [1, 10])
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_c2_many_items_at_once_are_counted_exactly(
    catalog_url: str, login: Connection[Any], count: int, collections: int
) -> None:
    """Of all times and places, by eight publishers."""

    def work(publisher: int) -> None:
        with connect(catalog_url, Role.HANDLER) as connection:
            for number in range(publisher * 5, count, 8 * 5):
                collection = f"c{number // 5 % collections}"
                ensure_collection(connection, CollectionFacts(id=collection))
                items = [item(n, collection) for n in range(number, number + 5)]
                publish(connection, collection, f"{number:064}", items)

    def item(number: int, collection: str) -> Publication:
        moment = f"{2024 - number * 7 % 90}-03-01T00:00:00Z"
        return publication(f"i{number}", collection, footprint=square(number % 170, number % 80), datetime=moment)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert login.execute("select count(*) from pgstac.items").fetchone() == (count,)
    assert login.execute("select count(*) from app.catalog_items").fetchone() == (count,)
    assert check(login) == []


def test_c2_p5_many_items_are_published_batch_by_batch_all_or_none(
    handler: Connection[Any], login: Connection[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(catalog, "BATCH_ITEMS", 2)
    items = [publication(f"i{n}", footprint=square(n, n)) for n in reversed(range(5))]
    good, bad = PublicationFile(tmp_path / "good.ndjson"), PublicationFile(tmp_path / "bad.ndjson")
    good.extend(items)
    bad.extend([replace(items[0], outputs=[*items[0].outputs] * 2), *items[1:]])
    with pytest.raises(Conflict, match="have the same name"):  # in the last batch
        publish(handler, "heights", JOB, bad)
    assert login.execute("select count(*) from pgstac.items").fetchone() == (0,)
    assert extent(login)["spatial"] == {"bbox": [[-180, -90, 180, 90]]}

    assert publish(handler, "heights", JOB, good).changed == ("i0", "i1", "i2", "i3", "i4")
    assert extent(login)["spatial"] == {"bbox": [[0, 0, 5, 5]]}
    assert check(login) == []


def test_an_item_of_the_same_content_is_kept_whichever_job_made_it(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    other = "k" * 64
    publish(handler, "heights", JOB, [publication("a"), publication("b")])
    raster = raster_item("a")
    remade = Publication(build_item("heights", raster, Origin(other, "w"), "0.1.0"), find_outputs(raster))
    newer = Publication(build_item("heights", raster_item("b"), Origin(JOB), "0.2.0"))
    retitled = publication("a", title="Others")
    login.execute("delete from pgstac.items where id = 'a'")
    assert publish(handler, "heights", other, [remade, newer, publication("c")], keep_same=True).changed == ("b", "c")
    assert check(login) == [], "an item that is kept is restored in pgstac, too"
    assert publish(handler, "heights", other, [retitled], keep_same=True).changed == ("a",)
    assert publish(handler, "heights", other, [remade]).changed == ("a",)


def test_a_publisher_of_another_collection_is_not_waited_for(
    handler: Connection[Any], login: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_collection(handler, CollectionFacts(id="other"))
    publish(handler, "heights", JOB, [publication("a")])
    publish(handler, "other", "k" * 64, [publication("b", "other")])
    monkeypatch.setattr(transaction, "LOCK_TIMEOUT", "50ms")
    with login.transaction():
        login.execute("select app.lock_collection('heights')")
        assert ensure_collection(handler, CollectionFacts(id="heights")) is False
        publish(handler, "other", "k" * 64, [publication("c", "other")])
        with pytest.raises(Transient):
            publish(handler, "heights", JOB, [publication("d")])


def test_c3_the_catalog_is_rebuilt_byte_for_byte(handler: Connection[Any], login: Connection[Any]) -> None:
    ensure_collection(handler, CollectionFacts(id="empty", title="Nothing yet"))
    items = [
        publication(f"dem-{n}", footprint=square(n / 7, n / 3), datetime=f"20{n:02}-01-01T00:00:00Z") for n in range(9)
    ]
    publish(handler, "heights", JOB, items)
    publish(handler, "heights", JOB, [publication("dem-3", title="Another")])
    before = texts(login)

    assert rebuild(login) == Rebuilt(collections=2, items=9)
    assert texts(login) == before
    assert check(login) == []


def test_c3_a_catalog_that_is_gone_comes_back(
    catalog_url: str, handler: Connection[Any], login: Connection[Any]
) -> None:
    publish(handler, "heights", JOB, [publication("dem")])
    before = texts(login)
    drop_catalog(catalog_url)
    with pytest.raises(Unavailable) as caught:
        publish(handler, "heights", JOB, [publication("dem")])
    assert caught.value.code == "catalog.missing"

    assert migrate_catalog(catalog_url).current
    rebuild(login)
    assert texts(login) == before


def test_c3_a_check_finds_what_is_missing_unknown_and_different(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    publish(handler, "heights", JOB, [publication("a"), publication("b"), publication("c")])
    login.execute("select delete_item('a', 'heights')")
    login.execute("""update items set content = jsonb_set(content, '{properties,title}', '"Lies"') where id = 'b'""")
    login.execute("insert into app.collections values ('ghost', '{}', now(), now())")
    login.execute("update app.catalog_items set job_id = 'other' where id = 'c'")
    stray = publication("stray", "other").document
    login.execute('select upsert_collection(\'{"id": "other"}\')')
    login.execute("select upsert_item(%s)", [psycopg.types.json.Jsonb(stray)])
    login.execute("""
        update app.collections set document = jsonb_set(document, '{extent,spatial,bbox}', '[[0, 0, 1, 1]]')
         where id = 'heights'""")
    assert set(check(login)) == {
        Difference("missing", "heights", "a"), Difference("different", "heights", "b"),
        Difference("missing", "ghost"), Difference("unknown", "other"), Difference("unknown", "other", "stray"),
        Difference("different", "heights"), Difference("extent", "heights"), Difference("row", "heights", "c"),
    }  # fmt: skip


def test_c3_an_item_that_pgstac_lost_comes_back_when_it_is_published_again(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    publish(handler, "heights", JOB, [publication("a"), publication("b")])
    login.execute("select delete_item('a', 'heights')")
    assert publish(handler, "heights", JOB, [publication("a"), publication("b")]).changed == ()
    assert check(login) == []


def test_a_load_that_loses_an_item_publishes_nothing(handler: Connection[Any], login: Connection[Any]) -> None:
    """As parallel loads have done, silently."""
    login.execute("""
        create function pgstac.lose() returns trigger language plpgsql as 'begin return null; end';
        create trigger lose before insert on pgstac.items
           for each row when (new.id = 'b') execute function pgstac.lose()""")
    with pytest.raises(Transient, match="lost 1 of 2 items of collection heights, b among them") as caught:
        publish(handler, "heights", JOB, [publication("a"), publication("b")])
    assert caught.value.code == "catalog.lost"
    counts = "select (select count(*) from app.catalog_items), (select count(*) from pgstac.items)"
    assert login.execute(counts).fetchone() == (0, 0)


@pytest.mark.parametrize(
    ("collection", "items", "error", "code"),
    [
        ("nowhere", ["a"], NotFound, "catalog.no_collection"),
        ("a/../b", ["a"], InputError, "catalog.collection_id"),
        ("heights'; drop table app.jobs", ["a"], InputError, "catalog.collection_id"),
        ("heights", ["a", "a"], InputError, "catalog.item_twice"),
    ],
)
def test_what_cannot_be_published_is_refused(
    handler: Connection[Any], collection: str, items: list[str], error: type[Exception], code: str
) -> None:
    built = [publication(item, collection if collection.isalpha() else "heights") for item in items]
    with pytest.raises(error) as caught:
        publish(handler, collection, JOB, built)
    assert getattr(caught.value, "code", None) == code


def test_what_pgstac_refuses_is_published_nowhere(handler: Connection[Any], login: Connection[Any]) -> None:
    login.execute("alter table pgstac.items add constraint no_dems check (id <> 'dem')")
    with pytest.raises(InputError, match="no_dems") as caught:
        publish(handler, "heights", JOB, [publication("dem")])
    assert caught.value.code == "catalog.refused"
    assert only(login.execute("select count(*) from app.catalog_items")) == 0


def test_a_connection_that_breaks_is_worth_another_try(handler: Connection[Any], login: Connection[Any]) -> None:
    login.execute("select pg_terminate_backend(%s)", [handler.info.backend_pid])
    with pytest.raises(Transient) as caught:
        publish(handler, "heights", JOB, [publication("dem")])
    assert caught.value.code == "catalog.unreachable"


def test_a1_a_server_that_only_reads_is_no_fault_of_the_items(handler: Connection[Any]) -> None:
    handler.execute("set default_transaction_read_only = on")
    with pytest.raises(Transient) as caught:
        publish(handler, "heights", JOB, [publication("dem")])
    assert caught.value.code == "catalog.unreachable"


def test_an_item_of_another_collection_is_refused(handler: Connection[Any]) -> None:
    with pytest.raises(InputError) as caught:
        publish(handler, "heights", JOB, [publication("a", "depths")])
    assert caught.value.code == "catalog.other_collection"


def test_two_outputs_of_an_item_with_one_name_are_refused(handler: Connection[Any], login: Connection[Any]) -> None:
    output = {"kind": "cog", "href": "silver://new.tif", "media_type": "image/tiff", "size": 1, "sha256": "00" * 32}
    twice = [{**output, "name": "a.tif", "asset": asset} for asset in ("data", "more")]
    with pytest.raises(Conflict) as caught:
        publish(handler, "heights", JOB, [publication("a", outputs=twice)])
    assert caught.value.code == "catalog.name_taken"
    assert login.execute("select count(*) from app.publications where kind = 'item'").fetchone() == (0,)


def test_a_publisher_that_waits_too_long_is_tried_again(
    handler: Connection[Any], login: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "LOCK_TIMEOUT", "50ms")
    with login.transaction():
        login.execute("select app.lock_catalog()")
        with pytest.raises(Transient) as caught:
            publish(handler, "heights", JOB, [publication("a")])
    assert caught.value.code == "catalog.busy"
    assert publish(handler, "heights", JOB, [publication("a")]).changed == ("a",)


def test_e5_the_handler_role_publishes_and_touches_nothing_else(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    every = "select, insert, update, delete, truncate, references, trigger"
    relations = "select relname from pg_class where relnamespace = 'app'::regnamespace and relkind in ('r', 'v')"
    assert login.execute(f"{relations} and has_table_privilege('anabranch_handler', oid, '{every}')").fetchall() == []
    callable_ = """select proname from pg_proc where pronamespace = 'app'::regnamespace
                      and has_function_privilege('anabranch_handler', oid, 'execute') order by 1"""
    names = [name for (name,) in login.execute(callable_)]
    assert names == [
        "adopt_table",
        "begin_chunk",
        "change_items",
        "close_layer_table",
        "complete_layer_table",
        "ensure_collection",
        "find_adopted",
        "find_asset",
        "find_foreign",
        "find_layer",
        "find_made_from",
        "find_name_holder",
        "find_outdated",
        "find_provenance",
        "find_readable",
        "find_shown",
        "finish_layer_table",
        "hold_attempt",
        "index_layer_table",
        "list_documents",
        "list_extents",
        "list_failures",
        "list_files",
        "list_published",
        "make_layer_table",
        "measure_layer_table",
        "mix_layer_table",
        "note_versions",
        "now",
        "remove_collection",
        "renumber_layer_table",
        "replace_extent",
    ]
    for statement in ("select app.use_key('x')", "delete from app.jobs", "select app.lock_catalog()"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            handler.execute(statement)


def test_the_app_role_publishes_nothing(catalog_url: str) -> None:
    with connect(catalog_url, Role.APP) as app, pytest.raises(psycopg.errors.InsufficientPrivilege):
        app.execute("select app.ensure_collection('{}', '{}')")


def test_the_origin_of_an_item_is_the_workflow_of_its_job(handler: Connection[Any], login: Connection[Any]) -> None:
    made = datetime(2026, 3, 21, 10, 15, tzinfo=UTC)
    login.execute("insert into app.workflows values ('h', 'process_raster', '{}', now())")
    login.execute("""
        insert into app.jobs (job_id, identity, ordinal, scope, platform, workflow, workflow_hash, parameters, priority,
                              state, generation, correlation_id, last_event, created_at)
        values (%s, 'i', 0, 's', 's', 'process_raster', 'h', '{}', 5, 'running', 1, 'c', 0, %s)""",
        [JOB, made])  # fmt: skip
    assert find_origin(handler, JOB) == Origin(JOB, "process_raster", "h", made)
    assert find_origin(handler, "gone") == Origin("gone")


def test_c2_a_collection_that_pgstac_shows_otherwise_is_put_right(
    handler: Connection[Any], login: Connection[Any]
) -> None:
    login.execute("update pgstac.collections set content = jsonb_set(content, '{title}', '\"else\"')")
    assert [found.kind for found in check(login)] == ["different"]
    assert not ensure_collection(handler, CollectionFacts(id="heights"))
    assert check(login) == []
