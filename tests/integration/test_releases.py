"""Releases have an order, and each changes a database whole: its tables and its functions together."""

import importlib.util
import re
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import TupleRow
from structlog.testing import capture_logs

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.schema.check import check
from anabranch.adapters.postgres.schema.files import ROOT, Files
from anabranch.adapters.postgres.schema.migrate import Applied, migrate, redeploy, status
from anabranch.app import run_orchestrator, run_worker
from anabranch.errors import Conflict, DefinitionError
from anabranch.gateway import Gateway
from anabranch.settings import Settings
from tests.support.small_schema import SmallSchema

REPOSITORY = Path(__file__).parents[2]
SOON = timedelta(milliseconds=300)
SLOW_INDEX = "create index concurrently if not exists things_size on app.things (size);\n"


def run(url: str, statement: str, role: Role | None = None) -> list[TupleRow]:
    with connect(url, role) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def number(schema: SmallSchema, release: int, oldest: int = 1) -> Files:
    schema.write("release.txt", f"release {release}\noldest {oldest}\nchecksum none\n")
    return schema.files


@pytest.fixture
def schema(tmp_path: Path) -> SmallSchema:
    (tmp_path / "old").mkdir()
    return SmallSchema(tmp_path / "old")


@pytest.fixture
def newer(schema: SmallSchema, tmp_path: Path) -> SmallSchema:
    """The release after that: its function differs."""
    (tmp_path / "new").mkdir()
    found = SmallSchema(tmp_path / "new")
    number(found, 2)
    found.edit("functions/step.sql", "1", "2")
    return found


@pytest.fixture
def small(empty_database_url: str, schema: SmallSchema) -> str:
    migrate(empty_database_url, files=schema.files)
    run(empty_database_url, "insert into app.things (id, size) values (1, 0)")
    return empty_database_url


def test_a8_x82_an_older_release_leaves_newer_functions_alone(
    small: str, schema: SmallSchema, newer: SmallSchema
) -> None:
    assert migrate(small, files=newer.files) == Applied((), redeployed=True)
    with capture_logs() as logs:
        assert migrate(small, files=schema.files) == Applied((), redeployed=False)
    assert [(log["event"], log["deployed"], log["release"]) for log in logs] == [("functions.left_alone", 2, 1)]
    assert run(small, "select app.step()") == [(2,)]
    found = status(small, files=schema.files)
    assert (found.release, found.files_release, found.current, found.is_later) == (2, 1, True, True)
    assert not found.functions_current


def test_a8_an_older_release_does_not_redeploy_even_when_asked_to(
    small: str, schema: SmallSchema, newer: SmallSchema
) -> None:
    migrate(small, files=newer.files)
    for act in (redeploy, check):
        with pytest.raises(Conflict, match="release 2 of the schema; this is 1") as caught:
            act(small, files=schema.files)
        assert caught.value.code == "database.newer"
    assert run(small, "select app.step()") == [(2,)]


def test_a8_an_older_release_leaves_newer_tables_alone(small: str, schema: SmallSchema, newer: SmallSchema) -> None:
    newer.write("migrations/0002_more.sql", "alter table app.things add more text;")
    migrate(small, files=newer.files)
    assert migrate(small, files=schema.files) == Applied((), redeployed=False)
    assert status(small, files=schema.files).problem is None


def test_a8_a_release_that_can_t_use_the_database_is_refused(
    small: str, schema: SmallSchema, newer: SmallSchema
) -> None:
    migrate(small, files=number(newer, 3, oldest=2))
    with pytest.raises(Conflict, match="release 3 of the schema, for release 2 and later; this is 1") as caught:
        migrate(small, files=schema.files)
    assert caught.value.code == "database.newer"
    assert status(small, files=schema.files).problem == caught.value.message
    assert not status(small, files=schema.files).current


@pytest.mark.parametrize("start", [run_worker, run_orchestrator])
def test_a8_a_process_of_a_release_that_can_t_use_the_database_does_not_start(
    database_url: str, tmp_path: Path, start: Callable[[Settings, str], None]
) -> None:
    run(database_url, "update app.deployment set release = 9999, oldest_release = 9998")
    with pytest.raises(Conflict, match="release 9999 of the schema, for release 9998 and later; this is") as caught:
        start(Settings(home=tmp_path), database_url)
    assert caught.value.code == "database.newer"
    assert run(database_url, "select from app.sessions") == []


async def test_a8_an_api_of_a_release_that_can_t_use_the_database_does_not_start(
    database_url: str, tmp_path: Path
) -> None:
    run(database_url, "update app.deployment set release = 9999, oldest_release = 9998")
    gateway = Gateway(Settings(home=tmp_path), database_url)
    await gateway.open()
    try:
        with pytest.raises(Conflict, match="for release 9998 and later"):
            await gateway.ready()
    finally:
        await gateway.close()


def test_a8_a_file_that_changes_without_a_new_number_is_deployed(small: str, schema: SmallSchema) -> None:
    """A developer sees a changed function at the next start."""
    schema.edit("functions/step.sql", "1", "5")
    assert migrate(small, files=schema.files) == Applied((), redeployed=True)
    assert run(small, "select app.step()") == [(5,)]


def test_a8_x39_tables_never_change_without_their_functions(
    small: str, schema: SmallSchema, newer: SmallSchema
) -> None:
    """A release that can't be deployed leaves the older one whole."""
    newer.write("migrations/0002_bulk.sql", "drop view app.sizes; alter table app.things rename size to bulk;")
    with pytest.raises(DefinitionError, match=r"views/sizes\.sql"):
        migrate(small, files=newer.files)
    assert status(small, files=newer.files).pending == ("0002_bulk",)
    assert run(small, "select app.grow(1)", Role.APP) == [(1,)]
    assert status(small, files=schema.files).current


def test_a8_x39_callers_meet_the_old_release_or_the_new_one(small: str, newer: SmallSchema) -> None:
    """A call that waits for the table as it changes is refused once; the next one meets the new function."""
    newer.write("migrations/0002_bulk.sql", "drop view app.sizes; alter table app.things rename size to bulk;")
    for path in ("functions/grow.sql", "functions/guard.sql"):
        newer.edit(path, "size", "bulk")
    newer.edit("functions/grow.sql", "app.bulks", "app.sizes")
    newer.write("views/sizes.sql", "create view app.sizes as select id, bulk, app.step() as step from app.things;\n")
    over, calls = threading.Event(), [0]

    def call() -> int:
        failures = 0
        with connect(small, Role.APP) as connection:
            while not over.is_set():
                try:
                    connection.execute("select app.grow(1)")
                    calls[0] += 1
                except psycopg.errors.UndefinedColumn:
                    failures += 1
        return failures

    with ThreadPoolExecutor(3) as pool:
        callers = [pool.submit(call) for _ in range(3)]
        try:
            migrate(small, files=newer.files)
        finally:
            over.set()
    assert max(caller.result() for caller in callers) <= 1
    assert calls[0]


def test_a8_the_number_rises_with_every_change_of_the_schema() -> None:
    assert Files().release.checksum == Files().checksum, "the schema changed: run `make reference`"


def test_a8_make_reference_raises_the_number_once(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("reference", REPOSITORY / "scripts" / "reference.py")
    assert spec
    assert spec.loader
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    root = tmp_path / "files"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    before = Files(root).release.number
    now = root / "functions" / "clock" / "now.sql"
    now.write_text("-- Another one.\n" + now.read_text())
    for _ in range(2):
        reference.raise_release(Files(root))
    assert (Files(root).release.number, Files(root).release.checksum) == (before + 1, Files(root).checksum)


def test_a8_arguments_that_older_processes_do_not_send_have_defaults() -> None:
    """They call by position, with what their own files name: a new argument comes last and has a default."""
    known = re.compile(r"create function app\.(\w+)\((.*?)\)\s*(?:returns|language|\n)", re.DOTALL)
    for file in Files().functions:
        found = known.search(file.text)
        arguments = [] if found is None else [one for one in found[2].split(",") if one.split()[:1] != ["out"]]
        defaults = [" default " in one for one in arguments]
        assert defaults == sorted(defaults), f"{file.path}: an argument without a default follows one that has it"


def test_b12_a_migration_may_run_outside_a_transaction(small: str, schema: SmallSchema) -> None:
    schema.write("migrations/0002_list.sql", f"-- Outside a transaction: others write meanwhile.\n{SLOW_INDEX}")
    schema.write("migrations/0003_more.sql", "alter table app.things add more text;")
    schema.edit("schema.sql", "default 'good'\n", "default 'good',\n    more text\n")
    schema.edit("schema.sql", "create index", "create index things_size on app.things (size);\ncreate index")
    assert migrate(small, files=schema.files) == Applied(("0002_list", "0003_more"), redeployed=True)
    assert check(small, files=schema.files) == []
    assert status(small, files=schema.files).current


def test_b12_writers_do_not_wait_for_such_a_migration_and_it_is_resumed(small: str, schema: SmallSchema) -> None:
    """It waits for a transaction that is open; given up, it leaves an index that is of no use, and is done again."""
    schema.write("migrations/0002_list.sql", f"-- Outside a transaction: others write meanwhile.\n{SLOW_INDEX}")
    with connect(small, None) as busy, busy.transaction():
        busy.execute("update app.things set size = size + 1")
        with pytest.raises(Conflict) as caught:
            migrate(small, files=schema.files, patience=SOON)
        assert caught.value.code == "database.busy"
        assert run(small, "insert into app.things (id, size) values (2, 0) returning id") == [(2,)]
    valid = "select indisvalid from pg_index where indexrelid = 'app.things_size'::regclass"
    assert run(small, valid) == [(False,)]
    assert status(small, files=schema.files).pending == ("0002_list",)

    assert migrate(small, files=schema.files) == Applied(("0002_list",), redeployed=False)
    assert run(small, valid) == [(True,)]


def test_b12_two_processes_that_migrate_do_not_wait_for_each_other_for_ever(small: str, schema: SmallSchema) -> None:
    """The second waits for the first, whose index waits for every transaction that was open before."""
    schema.write("migrations/0002_list.sql", f"-- Outside a transaction: others write meanwhile.\n{SLOW_INDEX}")
    run(small, "insert into app.things (id, size) select n, n from generate_series(2, 50000) n")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: migrate(small, files=schema.files), range(4)))
    assert sorted(applied.migrations for applied in found) == [(), (), (), ("0002_list",)]
