"""Migrations, redeployments and the roles they leave behind."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.schema import migrate as module
from anabranch.adapters.postgres.schema.check import check
from anabranch.adapters.postgres.schema.files import ROOT, Files
from anabranch.adapters.postgres.schema.migrate import Applied, migrate, redeploy, reset, status
from anabranch.adapters.postgres.schema.transaction import hold_lock
from anabranch.embedded.cluster import Cluster
from anabranch.errors import AnabranchError, Conflict, DefinitionError, InputError, Unavailable
from anabranch.testing.postgres import Databases
from anabranch.testing.shared_cluster import SharedCluster
from tests.support.small_schema import SmallSchema, make_folded

SOON = timedelta(milliseconds=100)


@pytest.fixture
def schema(tmp_path: Path) -> SmallSchema:
    return SmallSchema(tmp_path)


@pytest.fixture
def small(empty_database_url: str, schema: SmallSchema) -> str:
    """A database with the small schema and one thing in it."""
    migrate(empty_database_url, files=schema.files)
    run(empty_database_url, "insert into app.things (id, size) values (1, 0)")
    return empty_database_url


def run(url: str, statement: str, role: Role | None = None) -> list[TupleRow]:
    with connect(url, role) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_an_empty_database_is_migrated_once(empty_database_url: str) -> None:
    names = tuple(migration.name for migration in Files().migrations)
    assert status(empty_database_url).pending == names
    assert migrate(empty_database_url) == Applied(names, redeployed=True)

    assert migrate(empty_database_url) == Applied((), redeployed=False)
    assert status(empty_database_url).current


def test_o4_four_processes_migrate_one_database_at_once(empty_database_url: str) -> None:
    module = "anabranch.adapters.postgres.schema.migrate"
    code = f"import sys; from {module} import *\nexit(len(migrate(sys.argv[1]).migrations))"
    processes = [subprocess.Popen([sys.executable, "-c", code, empty_database_url]) for _ in range(4)]
    codes = [process.wait() for process in processes]
    assert sorted(codes) == [0, 0, 0, len(Files().migrations)]
    assert status(empty_database_url).current


def test_databases_of_one_cluster_make_the_roles_at_once(databases: Databases) -> None:
    """Roles belong to the cluster, where the lock of a database keeps nobody out."""
    text = (ROOT / "roles.sql").read_text().replace("anabranch_", "racing_")
    urls = [databases.make("template0") for _ in range(4)]
    try:
        with ThreadPoolExecutor(len(urls)) as pool:
            list(pool.map(lambda url: run(url, text), urls * 3))
        assert len(run(urls[0], "select rolname from pg_roles where rolname like 'racing%'")) == len(Role)
    finally:
        run(urls[0], "drop role if exists racing_owner, racing_app, racing_reader, racing_handler")


def test_a_second_migration_waits_and_gives_up_in_time(database_url: str) -> None:
    with connect(database_url, None) as first:
        hold_lock(first, SOON)
        with pytest.raises(Conflict, match=r"did not end in 0\.1 s") as caught:
            migrate(database_url, patience=SOON)
    assert caught.value.code == "database.locked"
    assert migrate(database_url, patience=SOON) == Applied((), redeployed=False)


Ledger = tuple[tuple[str, str], ...]
FIRST, SECOND = Files().folded


@pytest.mark.parametrize("ledger", [FIRST + SECOND[1:], SECOND], ids=["folded twice", "folded once"])
def test_o4_a_database_with_all_old_migrations_has_the_baseline(
    empty_database_url: str, tmp_path: Path, ledger: Ledger
) -> None:
    make_folded(empty_database_url, tmp_path, ledger)
    later = tuple(migration.name for migration in Files().migrations[1:])
    assert (status(empty_database_url).pending, status(empty_database_url).problem) == (later, None)
    assert migrate(empty_database_url).migrations == later
    assert status(empty_database_url).current
    assert check(empty_database_url) == []


@pytest.mark.parametrize(
    ("ledger", "last", "needed"),
    [
        (FIRST[:12], "0012_ended_jobs", "0018_open_jobs"),
        (FIRST, "0018_baseline", "0034_release_lists"),
        (SECOND[:5], "0022_limits", "0034_release_lists"),
    ],
)
def test_o4_a_database_with_some_old_migrations_is_refused_with_what_to_do(
    empty_database_url: str, tmp_path: Path, ledger: Ledger, last: str, needed: str
) -> None:
    make_folded(empty_database_url, tmp_path, ledger)
    with pytest.raises(Conflict, match="ends with migration") as caught:
        migrate(empty_database_url)
    assert caught.value.code == "database.migration_missing"
    assert last in caught.value.message
    assert needed in (caught.value.remedy or "")
    assert not status(empty_database_url).current


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda s: s.edit("migrations/0001_things.sql", "size", "bulk"), "database.migration_changed"),
        (lambda s: (s.root / "migrations/0001_things.sql").rename(s.root / "migrations/0001_other.sql"),
         "database.migration_changed"),
        (lambda s: s.write("migrations/0003_later.sql", "select 1"), "database.migrations_invalid"),
        (lambda s: s.write("migrations/0001_again.sql", "select 1"), "database.migrations_invalid"),
        (lambda s: s.write("migrations/2_second.sql", "select 1"), "database.migrations_invalid"),
        (lambda s: shutil.rmtree(s.root / "migrations"), "database.migrations_invalid"),
    ],
    ids=["changed", "renamed", "gap", "duplicate", "misnamed", "none"],
)  # fmt: skip
def test_o4_files_that_tell_another_story_are_refused(
    small: str, schema: SmallSchema, change: Callable[[SmallSchema], object], code: str
) -> None:
    change(schema)
    schema.edit("functions/step.sql", "1", "2")
    with pytest.raises(AnabranchError) as caught:
        migrate(small, files=schema.files)
    assert caught.value.code == code
    assert run(small, "select app.step()") == [(1,)], "nothing was changed"


def test_o4_a_database_that_is_newer_than_the_files_is_refused(small: str, schema: SmallSchema) -> None:
    schema.write("migrations/0002_more.sql", "alter table app.things add more text;")
    migrate(small, files=schema.files)
    schema.remove("migrations/0002_more.sql")
    with pytest.raises(Conflict, match="0002_more, which this release") as caught:
        migrate(small, files=schema.files)
    assert caught.value.code == "database.newer"
    assert status(small, files=schema.files).problem == caught.value.message


def test_o4_a_file_that_is_gone_is_missed(small: str, schema: SmallSchema) -> None:
    run(small, "insert into app.migrations values (0, '0000_gone', '', now())")
    with pytest.raises(Conflict, match="0000_gone was applied, and its file is gone"):
        migrate(small, files=schema.files)


def test_o4_a_migration_that_fails_leaves_nothing_of_itself(small: str, schema: SmallSchema) -> None:
    schema.write("migrations/0002_good.sql", "alter table app.things add good text;")
    schema.write("migrations/0003_bad.sql", "alter table app.things add bad text;\n\nselect nonsense;")
    with pytest.raises(DefinitionError, match=r'migrations/0003_bad.sql, line 3: column "nonsense" does not exist'):
        migrate(small, files=schema.files)
    assert status(small, files=schema.files).pending == ("0002_good", "0003_bad")
    assert status(small, files=schema.files).functions_current

    schema.write("migrations/0003_bad.sql", "alter table app.things add bad text;")
    assert migrate(small, files=schema.files) == Applied(("0002_good", "0003_bad"), redeployed=True)
    assert run(small, "select size, good, bad from app.things") == [(0, None, None)]


def test_an_old_server_is_refused(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MINIMUM_SERVER", 99)
    with pytest.raises(Unavailable) as caught:
        migrate(database_url)
    assert caught.value.code == "database.too_old"


def test_a_schema_of_somebody_else_is_refused(empty_database_url: str) -> None:
    run(empty_database_url, "create schema app; create table app.precious ()")
    for act in (migrate, redeploy, reset):
        with pytest.raises(Conflict, match="belongs to postgres"):
            act(empty_database_url)
    assert run(empty_database_url, "select * from app.precious") == []


def test_only_changed_functions_are_deployed_again(small: str, schema: SmallSchema) -> None:
    assert not migrate(small, files=schema.files).redeployed
    schema.edit("functions/step.sql", "1", "5")
    assert not status(small, files=schema.files).functions_current
    assert migrate(small, files=schema.files) == Applied((), redeployed=True)
    assert run(small, "select app.grow(1)", Role.APP) == [(5,)]


def test_o4_a_redeployment_undoes_what_was_done_by_hand(small: str, schema: SmallSchema) -> None:
    run(small, """
        create or replace function app.step() returns integer language sql stable as 'select 1000';
        create function app.extra() returns integer language sql as 'select 1';
        create trigger extra before update on app.things for each row execute function app.guard();
        alter function app.guard owner to postgres;
        alter table app.things disable trigger guard;
        drop view app.sizes;
        grant all on app.things to anabranch_app, public;
        revoke all on function app.grow from anabranch_app""")  # fmt: skip
    redeploy(small, files=schema.files)
    assert check(small, files=schema.files) == []
    assert run(small, "select app.grow(1)", Role.APP) == [(1,)]


def test_o4_functions_may_change_their_result(small: str, schema: SmallSchema) -> None:
    schema.write(
        "functions/step.sql", "create function app.step() returns bigint language sql stable as 'select 7::bigint';"
    )
    schema.remove("functions/guard.sql")
    migrate(small, files=schema.files)
    assert check(small, files=schema.files) == []
    assert run(small, "select app.grow(1)", Role.APP) == [(7,)]
    run(small, "update app.things set size = 0")


def test_o4_functions_may_change_their_arguments(small: str, schema: SmallSchema) -> None:
    """The view over the old one goes with it, and comes back over the new one."""
    schema.edit("functions/step.sql", "step()", "step(_times integer default 1)")
    migrate(small, files=schema.files)
    assert check(small, files=schema.files) == []
    assert run(small, "select step from app.sizes", Role.READER) == [(1,)]


def test_o4_views_over_views_follow_them(small: str, schema: SmallSchema) -> None:
    schema.write("views/all_sizes.sql", "create view app.all_sizes as select sum(size) from app.sizes;")
    with pytest.raises(DefinitionError, match=r"views/all_sizes\.sql"):
        reset(small, files=schema.files)
    schema.remove("views/all_sizes.sql")
    schema.write("views/total.sql", "create view app.total as select sum(size) from app.sizes;")
    reset(small, files=schema.files)
    schema.edit("views/sizes.sql", "as step", "as pace")
    schema.edit("views/total.sql", "sum(size)", "sum(size * pace)")
    migrate(small, files=schema.files)
    assert check(small, files=schema.files) == []


def test_o4_a_broken_function_is_not_deployed(small: str, schema: SmallSchema) -> None:
    schema.edit("functions/step.sql", "1", "2")
    schema.write("functions/total.sql", "create function app.total() returns bigint language sql as 'select no_such';")
    with pytest.raises(DefinitionError, match=r"functions/total\.sql.*no_such"):
        migrate(small, files=schema.files)
    assert run(small, "select app.grow(1)", Role.APP) == [(1,)]


def test_functions_are_not_deployed_over_old_tables(small: str, schema: SmallSchema) -> None:
    schema.write("migrations/0002_more.sql", "alter table app.things add more text;")
    with pytest.raises(Conflict, match="lacks migration 0002_more"):
        redeploy(small, files=schema.files)


def test_o4_callers_never_notice_a_redeployment(small: str, schema: SmallSchema) -> None:
    run(small, "insert into app.things (id, size) select n, 0 from generate_series(2, 4) n")
    over, calls = threading.Event(), []

    def call(thing: int, statement: str) -> None:
        with connect(small, Role.APP) as connection:
            while not over.is_set():
                connection.execute(statement, [thing])
                calls.append(thing)

    statements = ["select app.grow(%s)"] * 3 + ["select app.step() + %s"]
    with ThreadPoolExecutor(4) as pool:
        callers = [pool.submit(call, thing, text) for thing, text in enumerate(statements, 1)]
        try:
            for _ in range(20):
                redeploy(small, files=schema.files)
        finally:
            over.set()
    assert [caller.exception() for caller in callers] == [None] * 4
    assert set(calls) == {1, 2, 3, 4}


def test_o4_functions_are_deployed_under_a_long_transaction(small: str, schema: SmallSchema) -> None:
    """Triggers and views that are as they should be are left alone, so there is nothing to wait for."""
    with connect(small, None) as busy, busy.transaction():
        busy.execute("update app.things set size = size + 1; select * from app.sizes")
        schema.edit("functions/step.sql", "1", "5")
        migrate(small, files=schema.files, patience=SOON)
        assert busy.execute("select app.grow(1)").fetchone() == (6,)


def test_o4_a_new_trigger_gives_way_to_a_long_transaction(small: str, schema: SmallSchema) -> None:
    schema.edit("functions/guard.sql", "before update", "before insert or update")
    with connect(small, None) as busy, busy.transaction():
        busy.execute("update app.things set size = size + 1")
        with pytest.raises(Conflict) as caught:
            migrate(small, files=schema.files, patience=SOON)
        assert busy.execute("select app.grow(1)").fetchone() == (2,)
    assert caught.value.code == "database.busy"


def test_reset_makes_everything_anew(small: str, schema: SmallSchema) -> None:
    schema.edit("migrations/0001_things.sql", ");", "); -- another history")
    assert reset(small, files=schema.files) == Applied(("0001_things",), redeployed=True)
    assert run(small, "select * from app.things") == []
    assert check(small, files=schema.files) == []


@pytest.fixture
def fresh() -> Iterator[Cluster]:
    """A cluster that never saw our roles, with a login that may only connect and one that may make roles."""
    shared = SharedCluster.make()
    try:
        cluster = shared.start(lambda _: None)
        run(cluster.url("postgres"), "create role plain login; create role maker login createrole")
        run(cluster.url("postgres"), "grant create on database postgres to maker")
        yield cluster
    finally:
        shared.remove()


def test_a_login_learns_what_an_administrator_must_run(fresh: Cluster) -> None:
    url = fresh.url("postgres").replace("postgres@", "plain@")
    with pytest.raises(InputError) as caught:
        migrate(url)
    assert caught.value.code == "database.not_allowed"
    assert caught.value.remedy == (
        'Let an administrator run: create role "anabranch_owner" nologin; create role "anabranch_app" nologin; '
        'create role "anabranch_reader" nologin; create role "anabranch_handler" nologin; '
        'create role "anabranch_geo" nologin; create role "anabranch_features" nologin; '
        'create role "anabranch_scaler" nologin; '
        'grant "anabranch_owner", "anabranch_app", "anabranch_reader", "anabranch_handler", "anabranch_geo", '
        '"anabranch_features", "anabranch_scaler" to "plain"; '
        'grant create on database "postgres" to "plain";'
    )
    run(fresh.url("postgres"), caught.value.remedy.removeprefix("Let an administrator run: "))
    assert migrate(url).redeployed
    assert check(url) == []


def test_a_login_that_may_make_roles_needs_no_administrator(fresh: Cluster) -> None:
    url = fresh.url("postgres").replace("postgres@", "maker@")
    with pytest.raises(Unavailable, match="anabranch_app"):
        connect(url, Role.APP)
    assert migrate(url).redeployed
    assert run(url, "select app.now() is not null", Role.APP) == [(True,)]
    assert reset(url).redeployed
    assert check(url) == []


RELATIONS = (
    "select oid::regclass::text from pg_class where relnamespace = 'app'::regnamespace and relkind in ('r', 'v')"
)


def test_e5_the_app_role_touches_no_table(database_url: str, small: str) -> None:
    every = "select, insert, update, delete, truncate, references, trigger"
    assert run(database_url, f"{RELATIONS} and has_table_privilege('anabranch_app', oid, '{every}')") == []
    with connect(small, Role.APP) as app:
        for act in ("select from {}", "insert into {} default values", "update {} set size = 9", "delete from {}"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute(act.format("app.things"))


def test_e3_the_app_role_calls_whole_transitions_and_not_their_parts(database_url: str, small: str) -> None:
    for part in ("app.set_job(1, '{}')", "app.add_event(1, '', '', '{}')", "app.release('[]')", "app.make_right(1, 1)"):
        with connect(database_url, Role.APP) as app, pytest.raises(psycopg.errors.InsufficientPrivilege):
            app.execute(f"select {part}")
    run(database_url, "select app.report(null, '[]')", Role.APP)
    assert run(small, "select app.grow(1)", Role.APP) == [(1,)]


def test_the_reader_reads_everything_but_hashes_of_keys_and_writes_nothing(database_url: str, small: str) -> None:
    with connect(database_url, Role.READER) as reader:
        for (relation,) in run(database_url, RELATIONS):
            if relation not in ("app.keys", "app.webhook_endpoints"):
                reader.execute(f"select * from {relation} limit 1")
        for statement in (
            "select digest from app.keys",
            "select digest from app.find_key('')",
            "select secret from app.webhook_endpoints",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(statement)
    with connect(small, Role.READER) as reader:
        for statement in ("create temporary table scratch ()", "delete from app.things"):
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                reader.execute(statement)
        reader.execute("set default_transaction_read_only = off")
        for statement in ("delete from app.things", "select app.grow(1)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(statement)


def test_the_reader_calls_only_functions_that_read(database_url: str) -> None:
    rights = """
        select provolatile = 'v', array_agg(distinct has_function_privilege('anabranch_reader', oid, 'execute')),
               bool_or(has_function_privilege('public', oid, 'execute'))
          from pg_proc where pronamespace = 'app'::regnamespace group by 1 order by 1"""
    assert run(database_url, rights) == [(False, [True], False), (True, [False], False)]


def test_functions_run_as_the_owner_with_a_path_of_their_own(small: str, schema: SmallSchema) -> None:
    head = "returns integer stable language sql"
    schema.write("functions/step.sql", f"create function app.step() {head} security invoker as 'select 1';")
    schema.write("functions/own.sql", f"create function app.own() {head} set search_path = app, pg_temp as 'select 1';")
    migrate(small, files=schema.files)
    settings = "select proname, prosecdef, array_to_string(proconfig, '') from pg_proc"
    assert run(small, f"{settings} where pronamespace = 'app'::regnamespace order by 1") == [
        ("grow", True, "search_path=pg_catalog, pg_temp"),
        ("guard", True, "search_path=pg_catalog, pg_temp"),
        ("own", True, "search_path=app, pg_temp"),
        ("step", False, None),
    ]


def test_no_extension_is_needed(database_url: str) -> None:
    assert run(database_url, "select count(*) from pg_extension where extname <> 'plpgsql'") == [(0,)]
