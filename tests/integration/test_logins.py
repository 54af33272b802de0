"""Separate logins on a server as it is rented: nobody is a superuser, and a handler can't become the owner (B1)."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from tempfile import mkdtemp

import httpx
import psycopg
import pytest

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.handler_connections import HandlerConnections
from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.adapters.postgres.schema.pgstac import migrate_catalog
from anabranch.adapters.postgres.server.url import ServerUrl, Way
from anabranch.cli.doctor.checks import examine
from anabranch.cli.doctor.connections import check_connections
from anabranch.embedded.binaries import find_clients
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home
from anabranch.engine.model import TERMINAL_STATES
from anabranch.errors import InputError
from tests.support.crew import Start, open_stage
from tests.support.pages import read_blocks
from tests.support.running_stack import run_stack

PLUGINS = Path(__file__).parent.parent / "data" / "plugins"
EXTENSIONS = "create extension postgis; create extension btree_gist; create extension unaccent"
TRIED = ("set role anabranch_owner", "set role anabranch_app", "set session authorization manager", "reset role")
HANDLERS = ["plain", "heavy", "quick", "async"]


@pytest.fixture(scope="module")
def rented() -> Iterator[Cluster]:
    """A server whose administrator gave us a login that makes roles and databases, and PostGIS."""
    folder = Path(mkdtemp(prefix="ab-"))
    folder.chmod(0o755)
    cluster = Cluster(Home(folder / "server"), durable=False, state=folder / "state")
    try:
        cluster.start()
        run(cluster.url("postgres"), "create role manager login createrole createdb")
        for login in ("anb_app", "anb_reader", "anb_handler"):
            run(url_of(cluster, "manager", "postgres"), f"create role {login} login")
        yield cluster
    finally:
        cluster.purge()
        cluster.home.release()
        rmtree(folder)


def run(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements.split(";"):
            connection.execute(statement.encode())


def url_of(cluster: Cluster, login: str, database: str) -> str:
    return cluster.url(database).replace("postgres@", f"{login}@")


@pytest.fixture
def rented_server(rented: Cluster) -> ServerUrl:
    """A database of the test's own on it."""
    name = f"data_{token_hex(4)}"
    run(url_of(rented, "manager", "postgres"), f"create database {name}")
    run(rented.url(name), EXTENSIONS)
    ways: dict[Way, str] = {
        "owner": url_of(rented, "manager", name),
        "reader": url_of(rented, "anb_reader", name),
        "handler": url_of(rented, "anb_handler", name),
    }
    return ServerUrl(url_of(rented, "anb_app", name), ways)


@pytest.fixture
def server(rented_server: ServerUrl) -> ServerUrl:
    """The same, migrated."""
    migrate(rented_server)
    return rented_server


def as_settings(server: ServerUrl) -> dict[str, str]:
    return {f"DATABASE_{way.upper()}_URL": url for way, url in server.ways.items()}


def test_the_page_prepares_a_rented_server(rented: Cluster, tmp_path: Path) -> None:
    """Its statements, run by the administrator; then the login migrates, and gives each login its roles."""
    server, logins = (block.text for block in read_blocks("docs/howto/database-servers.md", "sql"))
    (tmp_path / "page.sql").write_text(server + logins)
    psql = [find_clients(15)["psql"], "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-"]
    with (tmp_path / "page.sql").open() as page:
        subprocess.run([*psql, rented.url("postgres")], stdin=page, check=True, capture_output=True)
    names = {"owner": "anabranch", "reader": "anabranch_reads", "handler": "anabranch_handlers"}
    ways: dict[Way, str] = {"owner": "", "reader": "", "handler": ""}
    for way in ways:
        ways[way] = url_of(rented, names[way], "anabranch")
    url = ServerUrl(url_of(rented, "anabranch_processes", "anabranch"), ways)
    migrate(url)
    assert migrate_catalog(url).current
    assert check_connections(url).status == "ok"


def test_a_stack_runs_and_publishes_without_a_superuser(rented: Cluster, rented_server: ServerUrl) -> None:
    with run_stack(1, DATABASE_URL=rented_server, **as_settings(rented_server)) as stack, stack.client() as client:
        files = json.loads(stack.call("demo", "--json"))["files"]
        assert [one["verdict"] for one in files].count("completed") == 4, files
        for one in files:
            for link in (one[name] for name in ("item", "preview", "features") if name in one):
                assert httpx.get(link, timeout=60, follow_redirects=True).status_code == 200, link
        with psycopg.connect(rented.url("postgres")) as admin:
            logins: dict[str, str] = dict(
                admin.execute("select application_name, usename from pg_stat_activity").fetchall()
            )
        assert logins["anabranch worker"] == logins["anabranch api"] == "anb_app"
        assert logins["anabranch api reads"] == "anb_reader"
        assert client.health().components["database"].status == "ok"
        stack.call("db", "check")


async def test_b1_a_handler_can_not_become_another(server: ServerUrl, tmp_path: Path) -> None:
    """Wherever it runs; and without its role it is nobody of ours."""
    processes = ServerUrl(server, {way: url for way, url in server.ways.items() if way != "owner"})
    async with open_stage(Start(tmp_path, PLUGINS, processes, lease=30)) as stage:
        await stage.crew.start_ready("worker", **as_settings(processes))
        for tried in (
            "set role anabranch_owner",
            "set role anabranch_app",
            "set session authorization manager",
            "reset role",
        ):
            sql = f"do $$ begin {tried}; perform from app.jobs; end $$; select 'it could'"
            job = await stage.submit("stores", kinds=HANDLERS, sql=sql)
            ended = await stage.until(job, lambda one: one.job.state in TERMINAL_STATES)
            for task in await stage.tasks(ended, "act"):
                assert "permission denied" in str(task.error), (tried, task)


def test_b1_the_url_of_handlers_leads_nowhere_else(server: ServerUrl, tmp_path: Path) -> None:
    handlers = HandlerConnections(server, tmp_path)
    kept = vars(handlers)["_url"]
    assert kept == server.ways["handler"]
    assert kept.ways == {}


def test_each_login_is_a_member_of_what_it_takes(server: ServerUrl) -> None:
    members = (
        "select r.rolname from pg_roles r where pg_has_role(%s::name, r.oid, 'member') and r.rolname ~ '^anabranch_'"
    )
    with connect(server, None) as owner:
        found = {
            login: {name for (name,) in owner.execute(members, [login])}
            for login in ("anb_app", "anb_reader", "anb_handler")
        }
    assert found == {
        "anb_app": {role.value for role in Role} - {"anabranch_owner"},
        "anb_reader": {"anabranch_reader", "anabranch_features"},
        "anb_handler": {"anabranch_handler", "anabranch_geo"},
    }


def test_doctor_names_the_logins_and_one_that_could_become_the_owner(server: ServerUrl, rented: Cluster) -> None:
    found = check_connections(server)
    assert found.status == "ok", found
    assert all(f": {login} at" in found.message for login in ("manager", "anb_app", "anb_reader", "anb_handler"))
    careless = ServerUrl(server, {**server.ways, "handler": url_of(rented, "manager", "postgres")})
    assert (found := check_connections(careless)).status == "warn"
    assert "revoke anabranch_owner" in found.remedy


def test_doctor_needs_no_login_of_the_owner(server: ServerUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the machines of processes there is none."""
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", server)
    for way in ("reader", "handler"):
        monkeypatch.setenv(f"ANABRANCH_DATABASE_{way.upper()}_URL", server.ways[way])
    found = {finding.check: finding for finding in examine()}
    for check in ("database", "connections", "migrations", "schema", "budget", "clock"):
        assert found[check].status == "ok", found[check]
    assert "manager" not in found["connections"].message


def test_a_login_that_is_missing_is_named(server: ServerUrl, rented: Cluster) -> None:
    with pytest.raises(InputError, match="there is no login nobody_yet") as caught:
        migrate(ServerUrl(server, {**server.ways, "reader": url_of(rented, "nobody_yet", "postgres")}))
    assert 'create role "nobody_yet" login' in caught.value.remedy


def test_one_login_is_for_everything_by_default(database_url: str) -> None:
    assert ServerUrl.of(database_url).members() == {}
    assert check_connections(database_url).status == "ok"
