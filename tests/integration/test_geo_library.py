"""`ctx.geo`: a table that a handler made in schema geo becomes a layer, whole or not at all."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.handler_connections import HandlerConnections
from anabranch.app import handler_resources
from anabranch.engine.model import Attempt, JobState, TaskKey
from anabranch.engine.submitting.submission import Order
from anabranch.engine.worker.context import Context, NoLink, TaskFacts
from anabranch.engine.worker.geo_library import PublishedTable
from anabranch.errors import AnabranchError, Conflict, Interrupted, Permanent
from anabranch.manifests.envelope import open_envelope, read_envelope
from anabranch.plugins.stac.catalog import By, act
from anabranch.plugins.vector.user_tables import library
from anabranch.settings import load_settings
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres

PARKS = """
create table {table} as
select n as id, 'park ' || n as label, st_buffer(st_setsrid(st_point(n, 50), 4326), 0.1, 1) as shape
  from generate_series(1, 2) n
"""
PLUGIN = """
from anabranch import Context, handler


@handler("parks.publish")
def publish(params: dict, ctx: Context) -> dict:
    table = ctx.geo.scratch_table(params["name"])
    with ctx.database() as connection:
        connection.execute(f"drop table if exists {table}")
        connection.execute(f"create table {table} as {params['query']}")
    published = ctx.geo.publish_table(table, params["name"], collection=params.get("collection", "parks"))
    if ctx.attempt <= params.get("lost", 0):
        raise ConnectionError("the report is lost")
    return published.model_dump()
"""
WORKFLOW = """
workflow_id: publish_parks
inputs: {name: {type: string, required: true}, query: {type: string, required: true}, collection: {type: string},
         lost: {type: integer, default: 0}}
nodes:
  publish:
    handler: parks.publish
    retry: {max_attempts: 2, initial_delay_seconds: 0}
    params: {name: "{{ inputs.name }}", query: "{{ inputs.query }}", lost: "{{ inputs.lost }}",
             collection: "{{ default(inputs.collection?, 'parks') }}"}
output: {published: "{{ nodes.publish.output }}"}
"""
POINT = "select 7 as code, st_setsrid(st_point(7, 50), 4326) as geom"


@pytest.fixture
def task(catalog_url: str, tmp_path: Path) -> Iterator[Callable[..., Context]]:
    """Makes the context of a task that no engine runs, so that nothing fences it."""
    opened: list[HandlerConnections] = []

    def make(job: str = "a" * 64, index: int = 0, fence: Attempt | None = None) -> Context:
        facts = TaskFacts(
            job_id=job, task_id=f"{job}-node-{index}", node_id="node", index=index, attempt=1, params={},
            correlation_id="test", predecessor=None, scratch=str(tmp_path / "scratch" / job[:8] / str(index)),
            fence=fence,
        )  # fmt: skip
        resources = handler_resources(load_settings(home=tmp_path), catalog_url, tmp_path / "worker")
        assert isinstance(resources.database, HandlerConnections)
        opened.append(resources.database)
        return Context(facts, NoLink(), resources)

    yield make
    for connections in opened:
        connections.close()


@pytest.fixture
def ctx(task: Callable[..., Context]) -> Context:
    return task()


@pytest.fixture
def owner(catalog_url: str) -> Iterator[Connection[Any]]:
    with connect(catalog_url, Role.OWNER) as connection:
        yield connection


def run(ctx: Context, *statements: str) -> None:
    with ctx.database() as connection:
        for statement in statements:
            connection.execute(statement)


def publish(ctx: Context, query: str, name: str = "parks", **given: Any) -> PublishedTable:
    """Make a table of a query, and publish it."""
    table = ctx.geo.scratch_table(name)
    run(ctx, f"create table {table} as {query}")
    return ctx.geo.publish_table(table, name, **given)


def relations(owner: Connection[Any]) -> set[str]:
    """The tables and views of schema geo, without what our own names add."""
    found = owner.execute("select relname, relkind from pg_class where relnamespace = 'geo'::regnamespace").fetchall()
    return {f"{kind} {name}" for name, kind in found if kind in ("r", "v")}


def document(owner: Connection[Any], item: str = "parks") -> Any:
    return owner.execute("select document from app.catalog_items where id = %s", [item]).fetchone()[0]  # type: ignore[index]


def test_e19_a_second_connection_is_taken_only_where_one_is_free(task: Callable[..., Context]) -> None:
    ctx, other = task(), task(index=1)
    with ctx.catalog(), other.catalog_if_free() as second:
        assert second.execute("select 1").fetchone() == (1,)
        with ctx.catalog_if_free() as third:
            assert third is None
    with ctx.catalog_if_free() as again:
        assert again is not None


def test_v3_c1_a_table_becomes_a_layer_with_all_that_is_known_of_it(ctx: Context, owner: Connection[Any]) -> None:
    run(ctx, PARKS.format(table="parks_new"), "comment on column parks_new.label is 'What people call it.'")

    published = ctx.geo.publish_table("parks_new", "parks", collection="green", title="Parks", description="All.")

    assert published == PublishedTable(collection="green", id="parks", table="parks", rows=2)
    found = owner.execute("select gid, id, label, public.st_geometrytype(geom), public.st_srid(geom) from geo.parks")
    assert found.fetchall() == [(1, 1, "park 1", "ST_MultiPolygon", 4326), (2, 2, "park 2", "ST_MultiPolygon", 4326)]
    properties = document(owner)["properties"]
    assert (properties["title"], properties["description"], properties["table:row_count"]) == ("Parks", "All.", 2)
    assert [column["name"] for column in properties["table:columns"]] == ["gid", "geom", "id", "label"]
    assert properties["table:columns"][3]["description"] == "What people call it."
    assert document(owner)["bbox"] == pytest.approx([0.9, 49.9, 2.1, 50.1])
    assert document(owner)["assets"]["data"]["href"] == "geo://parks"
    report = json.loads(ctx.storage.read(document(owner)["assets"]["report"]["href"]))
    assert (report["table"], report["geometry_column"], report["rows"]) == ("geo.parks_new", "shape", 2)
    assert "r parks_new" not in relations(owner)


def test_a_published_table_is_indexed_read_by_readers_and_changed_by_nobody(
    catalog_url: str, ctx: Context, owner: Connection[Any]
) -> None:
    publish(ctx, POINT)
    ((part, kinds),) = owner.execute("""
        select t.table_name, array_agg(i.indisprimary) from app.published_tables t
          join pg_index i on i.indrelid = ('geo.' || t.table_name)::regclass group by 1""").fetchall()
    assert sorted(kinds) == [False, True]
    with connect(catalog_url, Role.FEATURES) as features:
        assert features.execute("select code from parks").fetchall() == [(7,)]
    for statement in (f"insert into {part} values (2)", f"drop table {part}", f"alter table {part} add x text",
                      "delete from parks", "drop view parks"):  # fmt: skip
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run(ctx, statement)


def test_columns_of_other_types_are_stored_as_those_of_a_layer(ctx: Context, owner: Connection[Any]) -> None:
    publish(
        ctx,
        """select 1::smallint as small, 'a'::varchar(3) as short, 'b'::char(2) as fixed, '{}'::json as data,
                  '8c0f0000-0000-0000-0000-000000000000'::uuid as key, '12:00'::time as at,
                  1.50::numeric(5, 2) as price, timestamptz '2026-03-21 10:00+02' as seen,
                  st_setsrid(st_point(1, 2), 4326) as geom""",
    )
    ((columns,),) = owner.execute("select columns from app.layers").fetchall()
    assert {column["name"]: column["type"] for column in columns} == {
        "small": "integer", "short": "text", "fixed": "text", "data": "jsonb", "key": "text", "at": "time",
        "price": "numeric", "seen": "timestamptz",
    }  # fmt: skip
    found = owner.execute("select small, fixed, key, price::text from geo.parks").fetchone()
    assert found == (1, "b", "8c0f0000-0000-0000-0000-000000000000", "1.50")


SHAPES = [
    ("('POINT(1 1)')", "Point", False),
    ("('POINT(1 1)'), ('MULTIPOINT(1 1, 2 2)')", "MultiPoint", False),
    ("('LINESTRING Z (1 1 5, 2 2 6)'), ('LINESTRING(3 3, 4 4)')", "MultiLineString", True),
    ("('LINESTRING M (1 1 5, 2 2 6)')", "MultiLineString", False),
    ("('POLYGON((0 0, 1 0, 1 1, 0 0))')", "MultiPolygon", False),
]


def test_geometries_of_a_layer_have_one_type(ctx: Context, owner: Connection[Any]) -> None:
    for number, (shapes, type_, has_z) in enumerate(SHAPES):
        publish(ctx, f"select st_geomfromtext(x, 4326) as geom from (values {shapes}) v(x)", f"layer_{number}")
        found = owner.execute("select geometry_type, has_z from app.layer_tables order by made_at desc limit 1")
        assert found.fetchone() == (type_, has_z)
        held = f"select distinct public.st_geometrytype(geom), public.st_zmflag(geom) from geo.layer_{number}"
        assert owner.execute(held).fetchall() == [(f"ST_{type_}", 2 if has_z else 0)]


def test_numbers_of_rows_are_kept(ctx: Context, owner: Connection[Any]) -> None:
    publish(ctx, "select 40 + n as gid, st_setsrid(st_point(n, n), 4326) as geom from generate_series(1, 2) n")
    assert owner.execute("select gid from geo.parks order by gid").fetchall() == [(41,), (42,)]


REFUSED = [
    ("select 1 as x", "geo.geometry_column", "has no geometry column"),
    (
        "select geom, geom as other from (" + POINT + ") p",
        "geo.geometry_column",
        "the geometry columns geom, other",
    ),
    ("select st_point(1, 2) as geom", "geo.srid", "has the SRID none; layers are in EPSG:4326"),
    ("select st_setsrid(st_point(1, 2), 25832) as geom", "geo.srid", "has the SRID 25832"),
    (POINT + " union all select 8, null", "geo.no_geometry", "1 of the 2 rows of"),
    (POINT + " union all select 8, 'SRID=4326;POINT EMPTY'", "geo.no_geometry", "1 of the 2 rows of"),
    (POINT + " where false", "geo.no_rows", "has no rows"),
    ("select st_setsrid(st_point(500000, 2), 4326) as geom", "geo.outside", "1 of the 1 rows"),
    ("select 'SRID=4326;POLYGON((0 0, 1 1, 1 0, 0 1, 0 0))'::geometry as geom", "geo.invalid", "1 of the 1 rows"),
    (POINT + " union all select 8, 'SRID=4326;LINESTRING(0 0, 1 1)'", "geo.geometry_type", "LineString, Point"),
    ("select 'SRID=4326;GEOMETRYCOLLECTION(POINT(0 0))'::geometry as geom", "geo.geometry_type", "Collection"),
    ("select array[1] as list, geom from (" + POINT + ") p", "geo.column_type", "list of .* is integer"),
    ("select box2d(geom) as box, geom from (" + POINT + ") p", "geo.column_type", "box of .* is box2d"),
    ('select 1 as "Code", geom from (' + POINT + ") p", "geo.column_name", "'Code' of"),
    ("select 1 as geom, geom as shape from (" + POINT + ") p", "geo.column_name", "'geom' of"),
    ("select 'a' as gid, geom from (" + POINT + ") p", "geo.gid", "gid of .* is text"),
    ("select 1 as gid, geom from (" + POINT + " union all " + POINT + ") p", "geo.gid", "does not number its rows"),
    ("select null::integer as gid, geom from (" + POINT + ") p", "geo.gid", "does not number its rows"),
    ("select -1 as gid, geom from (" + POINT + ") p", "geo.gid", "gid of .* has -1; numbers of rows are 0 or more"),
]


def test_a_table_that_can_not_be_a_layer_is_refused_and_stays(ctx: Context, owner: Connection[Any]) -> None:
    table = ctx.geo.scratch_table("parks")
    for query, code, message in REFUSED:
        with pytest.raises(Permanent, match=message) as refused:
            publish(ctx, query)
        assert refused.value.code == code
        assert refused.value.remedy
        assert relations(owner) == {f"r {table}"}
        run(ctx, f"drop table {table}")
    assert owner.execute("select count(*) from app.layer_tables").fetchone() == (0,)


def test_only_ordinary_tables_of_handlers_are_published(ctx: Context, owner: Connection[Any]) -> None:
    publish(ctx, POINT)
    run(
        ctx,
        "create view seen as select * from parks",
        "create table guarded as select * from parks; alter table guarded enable row level security",
        "create table parted (code integer, geom geometry) partition by list (code)",
        "create table parent as select * from parks; create table child () inherits (parent)",
    )
    owner.execute("create table geo.ours as select * from geo.parks")
    for table in ("seen", "guarded", "parted", "parent", "ours", "missing"):
        with pytest.raises(Permanent, match=f"geo.{table}") as refused:
            ctx.geo.publish_table(table, "other")
        assert refused.value.code == ("geo.no_table" if table == "missing" else "geo.not_a_table")
    run(ctx, "create table used as select code, geom from parks", "create view of_used as select * from used")
    with pytest.raises(Permanent, match=r"view .*of_used depends on table") as refused:
        ctx.geo.publish_table("used", "other")
    assert refused.value.code == "geo.in_use"


@pytest.mark.parametrize(
    "given",
    [
        {"table": "x", "name": "Parks"}, {"table": "x", "name": "x" * 41}, {"table": "parks", "name": "parks"},
        {"table": "x", "name": "y", "collection": "../up"}, {"table": "x", "name": "y", "expected": -1},
    ],
)  # fmt: skip
def test_arguments_that_can_not_be_used_are_refused(ctx: Context, given: dict[str, Any]) -> None:
    with pytest.raises(Permanent) as refused:
        ctx.geo.publish_table(**given)
    assert refused.value.code == "geo.arguments"
    with pytest.raises(Permanent):
        ctx.geo.scratch_table("Not A Name")


def test_s2_no_code_of_the_user_runs_with_the_rights_of_the_owner(ctx: Context, owner: Connection[Any]) -> None:
    """Whatever is attached to a table stays behind, and what a function is given by hand is checked again."""
    run(
        ctx,
        "create table seen (who text)",
        "grant select, insert on seen to public",
        "create function note() returns void language sql as 'insert into geo.seen values (current_user)'",
        """create function spy(integer) returns integer language plpgsql immutable as
           'begin perform geo.note(); return $1; end'""",
        "create function spy() returns trigger language plpgsql as 'begin perform geo.spy(1); return new; end'",
        "create domain odd as integer check (geo.spy(value) = value)",
        "create table trap (code integer, geom geometry, odd odd)",
        "insert into trap values (1, 'SRID=4326;POINT(1 2)', 1)",
        "alter table trap add check (geo.spy(code) = code)",
        "create trigger spies before insert or update or delete on trap for each row execute function spy()",
        "create policy spies on trap using (geo.spy(code) = code)",
        "grant select, delete on trap to anabranch_owner",
        "delete from seen",
    )
    with pytest.raises(Permanent, match="odd"):
        ctx.geo.publish_table("trap", "parks")
    adopt = "select app.adopt_table(%s, 'parks_1', 'job', 'geom', 'Point', false, false, %s)"
    for columns in ('[{"name": "odd", "type": "integer"}]', '[{"name": "code", "type": "geo.odd"}]'):
        with pytest.raises(psycopg.Error) as refused, ctx.catalog() as connection:
            connection.execute(adopt, ["trap", columns])
        assert refused.value.sqlstate == "AN019"
    run(ctx, "alter table trap drop column odd", "alter table trap enable row level security, force row level security")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), ctx.catalog() as connection:
        connection.execute(adopt, ["trap", "[]"])
    run(
        ctx,
        "alter table trap disable row level security",
        "create view view_trap as select geom, spy(code) from trap",
        "grant select, delete on view_trap to anabranch_owner",
    )
    with pytest.raises(psycopg.Error, match="is not a table of a user"), ctx.catalog() as connection:
        connection.execute(adopt, ["view_trap", "[]"])
    run(ctx, "drop view view_trap")
    # The planner computes these when it plans a read of the table.
    for kind, trap in (
        ("index", "create index planned on trap ((geo.spy(1)))"),
        ("index", "create index planned on trap (code) where geo.spy(2) = 2"),
        ("statistics", "create statistics planned on (geo.spy(1)), (code + 1) from trap"),
    ):
        run(ctx, trap, "delete from seen")
        with pytest.raises(psycopg.Error, match="is not a table of a user"), ctx.catalog() as connection:
            connection.execute(adopt, ["trap", "[]"])
        with pytest.raises(Permanent, match="has indexes or statistics of expressions") as planned:
            ctx.geo.publish_table("trap", "parks")
        assert planned.value.code == "geo.not_a_table"
        run(ctx, f"drop {kind} planned")
    run(ctx, "create index on trap (code)", "create statistics plain on code, geom from trap")
    ctx.geo.publish_table("trap", "parks")
    assert owner.execute("select who from geo.seen where who <> 'anabranch_geo'").fetchall() == []


def test_p5_a_second_publication_replaces_the_layer_and_can_be_rolled_back(
    catalog_url: str, task: Callable[..., Context], owner: Connection[Any]
) -> None:
    publish(task("a" * 64), POINT)
    publish(task("b" * 64), POINT.replace("7 as code", "'new' as code"), expected=1)
    assert owner.execute("select code from geo.parks").fetchall() == [("new",)]
    with pytest.raises(Conflict) as moved:
        publish(task("c" * 64), POINT, expected=1)
    assert moved.value.code == "publication.moved"
    with connect(catalog_url, Role.HANDLER) as handler:
        act(handler, "rollback", "process_vector", "parks", By(actor="ann"))
    assert owner.execute("select code from geo.parks").fetchall() == [(7,)]


def test_e4_an_attempt_that_repeats_publishes_nothing_twice(
    task: Callable[..., Context], owner: Connection[Any]
) -> None:
    first = publish(task(), POINT)
    again = publish(task(), POINT)
    table = task().geo.scratch_table("parks")
    assert first == again == task().geo.publish_table(table, "parks")
    assert owner.execute("select count(*) from app.publications where kind = 'item'").fetchone() == (1,)
    assert f"r {table}" not in relations(owner)


def test_an_attempt_publishes_a_table_of_a_name_once(ctx: Context, owner: Connection[Any]) -> None:
    """A second table of the same name is not taken for a repetition, and stays."""
    publish(ctx, POINT)
    with pytest.raises(Permanent, match="has published") as refused:
        publish(ctx, POINT.replace("7 as code", "8 as code"))
    assert refused.value.code == "geo.arguments"
    assert f"r {ctx.geo.scratch_table('parks')}" in relations(owner)
    assert owner.execute("select code from geo.parks").fetchall() == [(7,)]


def test_the_checksum_covers_every_column_whatever_its_name(
    task: Callable[..., Context], owner: Connection[Any]
) -> None:
    found = set()
    for number in (1, 2):
        query = f"select 'same' as t, {number} as other, st_setsrid(st_point(7, 50), 4326) as geom"
        publish(task(f"{number:064}"), query)
        found.add(document(owner)["properties"]["anabranch:rows_sha256"])
    assert len(found) == 2


def test_tasks_of_a_job_have_tables_of_their_own(task: Callable[..., Context], owner: Connection[Any]) -> None:
    publish(task(index=0), POINT)
    publish(task(index=1), POINT.replace("7 as code", "8 as code"))
    assert owner.execute("select code from geo.parks").fetchall() == [(8,)]


def test_e2_nothing_is_left_of_a_publication_that_fails_after_the_table_was_copied(
    ctx: Context, owner: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(library, "publish_items", die)
        with pytest.raises(KeyboardInterrupt):
            publish(ctx, POINT)
    table = ctx.geo.scratch_table("parks")
    assert relations(owner) == {f"r {table}"}
    assert owner.execute("select count(*) from app.layer_tables").fetchone() == (0,)
    assert ctx.geo.publish_table(table, "parks").rows == 1


def test_p5_of_publications_at_once_each_is_whole_and_the_last_is_shown(
    task: Callable[..., Context], owner: Connection[Any]
) -> None:
    tasks = [task(f"{number:064}") for number in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda each: publish(each, POINT.replace("7", each.job_id[-1])), tasks))
    numbers = owner.execute("select number, action::text from app.publications where kind = 'item' order by number")
    assert [number for number, _ in numbers] == [1, 2, 3, 4]
    ((shown,),) = owner.execute("select job_id from app.catalog_items").fetchall()
    assert owner.execute("select code from geo.parks").fetchall() == [(int(shown[-1]),)]


def test_e3_an_attempt_that_lost_its_task_publishes_nothing(
    task: Callable[..., Context], owner: Connection[Any]
) -> None:
    lost = task(fence=Attempt(TaskKey(1, 0), 1, 2))
    with pytest.raises(Interrupted):
        publish(lost, POINT)
    assert relations(owner) == {f"r {lost.geo.scratch_table('parks')}"}


def test_e3_of_attempts_at_once_one_publishes(task: Callable[..., Context], owner: Connection[Any]) -> None:
    table = task().geo.scratch_table("parks")
    run(task(), f"create table {table} as {POINT}")

    def attempt(_: int) -> str:
        try:
            task().geo.publish_table(table, "parks")
        except AnabranchError as error:
            return error.code
        return "published"

    with ThreadPoolExecutor(3) as threads:
        ends = set(threads.map(attempt, range(3)))
    assert "published" in ends
    assert ends <= {"published", "task.lost", "geo.changed", "geo.no_table", "database.interrupted"}
    assert owner.execute("select count(*) from app.publications where kind = 'item'").fetchone() == (1,)


def test_a_name_belongs_to_the_item_that_first_took_it(task: Callable[..., Context], owner: Connection[Any]) -> None:
    publish(task("a" * 64), POINT)
    with pytest.raises(Conflict, match=r"geo\.parks belongs to item process_vector/parks") as refused:
        publish(task("b" * 64), POINT, collection="others")
    assert refused.value.code == "publication.name_taken"
    run(task(), "create table mine (x integer)")
    with pytest.raises(Conflict, match=r"geo\.mine is a table or view of a user"):
        publish(task("c" * 64), POINT, name="mine")
    assert owner.execute("select count(*) from app.layer_tables").fetchone() == (1,)


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "parks.py").write_text(PLUGIN)
    (plugins / "publish_parks.yaml").write_text(WORKFLOW)
    async with asyncio.timeout(PATIENCE_SECONDS), open_stack(catalog_url, tmp_path, [str(plugins)]) as opened:
        yield opened


async def test_e3_a_job_publishes_its_table_signed_also_when_its_first_report_was_lost(
    stack: Stack, owner: Connection[Any]
) -> None:
    job = await stack.run("publish_parks", name="city_parks", query=POINT, lost=1)
    assert job.job.state is JobState.COMPLETED, job.job.error
    published = {"collection": "parks", "id": "city_parks", "table": "city_parks", "rows": 1}
    assert job.job.result == {"published": published}
    assert owner.execute("select count(*) from app.publications where kind = 'item'").fetchone() == (1,)
    items = stack.gateway.reads.items()
    keys = [key.public_key for key in await items.signing_keys()]
    statement, _ = open_envelope(read_envelope(await items.manifest("parks", "city_parks")), keys)
    hashes = {one.name: one.digest.sha256 for one in statement.subject}
    assert hashes["geo.city_parks"] == document(owner, "city_parks")["properties"]["anabranch:rows_sha256"]


async def test_another_owner_takes_neither_the_item_nor_the_name(stack: Stack, owner: Connection[Any]) -> None:
    job = await stack.run("publish_parks", name="city_parks", query=POINT)
    assert job.job.state is JobState.COMPLETED, job.job.error
    for collection, code in (("parks", "catalog.no_collection"), ("others", "publication.name_taken")):
        given = {"name": "city_parks", "query": POINT, "collection": collection}
        order = Order("publish_parks", given, scope="bob", by="bob", correlation_id="test")
        refused = await stack.wait((await stack.gateway.submit(order)).job_id)
        assert refused.job.error
        assert refused.job.error.code == code, refused.job.error
    assert owner.execute("select job_id from app.catalog_items").fetchall() == [(job.job.job_id,)]
