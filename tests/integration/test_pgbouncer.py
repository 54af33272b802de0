"""PgBouncer in transaction mode between the processes and their server."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import psycopg
import pytest

from anabranch.adapters.postgres.connect import Role, connect, connect_async, layers_conninfo
from anabranch.adapters.postgres.database import Database
from anabranch.adapters.postgres.handler_connections import HandlerConnections
from anabranch.adapters.postgres.server.url import ServerUrl
from anabranch.cli.doctor.checks import examine
from anabranch.errors import Unavailable
from tests.support.pgbouncer import PgBouncer, find_pgbouncer
from tests.support.running_stack import run_stack, wait_until

SETTINGS = "select session_user::text, current_user::text, current_setting('statement_timeout')"


@pytest.fixture
def pooler(catalog_url: str) -> Iterator[PgBouncer]:
    program = find_pgbouncer()
    if program is None:
        pytest.skip("PgBouncer is not installed: make pgbouncer")
    with TemporaryDirectory() as folder:  # which another user can enter
        Path(folder).chmod(0o755)
        made = PgBouncer(program, Path(folder) / "pgbouncer", catalog_url)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def server(pooler: PgBouncer, catalog_url: str) -> ServerUrl:
    return ServerUrl(pooler.url(), {"direct": catalog_url})


def test_a_stack_runs_and_publishes_through_a_pooler(pooler: PgBouncer, catalog_url: str) -> None:
    """API, orchestrator and workers: a fan-out, a cancel, published rasters and layers, and what serves them."""
    with run_stack(2, DATABASE_URL=pooler.url(), DATABASE_DIRECT_URL=catalog_url) as stack, stack.client() as client:
        job = client.submit("hello_world", {"n": 40}).job_id
        waiting = client.submit("pause", {"seconds": 3600}).job_id
        assert wait_until(lambda: client.job(job).ended)
        assert client.job(job).succeeded
        wait_until(lambda: client.job(waiting).status == "waiting")
        client.cancel(waiting)
        wait_until(lambda: client.job(waiting).status == "cancelled")

        published = json.loads(stack.call("demo", "--json"))["files"]
        assert [one["verdict"] for one in published].count("completed") == 4
        for one in published:
            for link in (one[name] for name in ("item", "preview", "features") if name in one):
                assert httpx.get(link, timeout=60, follow_redirects=True).status_code == 200, link
        url = client.base_url
        assert len(httpx.get(f"{url}/stac/search", timeout=60).json()["features"]) == 4
        assert client.health().components["database"].status == "ok"

        names = pooler.clients()
        assert {f"anabranch {part}" for part in ("api", "api reads", "api vitals", "orchestrator", "worker")} <= names
        assert {"anabranch api catalog", "anabranch api features"} <= names
        assert not [name for name in names if re.search("heartbeat|doorbell|waiting|db", name)]


async def test_each_transaction_has_the_role_and_the_limits(server: ServerUrl, pooler: PgBouncer) -> None:
    database = Database(server, Role.APP, name="test", size=3, checked=True)
    reads = Database(server, Role.READER, name="test", size=3, checked=False)
    await database.open()
    await reads.open()
    try:
        for _ in range(12):  # a statement that comes often would be prepared
            assert len(await database.call("now")) == 1
            assert await reads.query("limits") == []
        with pytest.raises(Unavailable):  # the reader may not act
            await reads.call("ring", ["light"])
    finally:
        await database.close()
        await reads.close()
    with psycopg.connect(pooler.url(), autocommit=True, prepare_threshold=None) as after:
        assert {after.execute(SETTINGS).fetchone() for _ in range(8)} == {("postgres", "postgres", "0")}


def test_a_handler_may_commit_and_go_on(server: ServerUrl, tmp_path: Path) -> None:
    connections = HandlerConnections(server, tmp_path / "bursts")
    with connections() as connection:
        connection.execute("create table geo.made (id int)")
        connection.commit()
        assert connection.execute(SETTINGS).fetchone() == ("postgres", "anabranch_geo", "1min")
        with connection.cursor().copy("copy geo.made from stdin") as copy:
            copy.write("1\n2\n")
        with connection.cursor("named") as cursor:
            assert cursor.execute("select id from geo.made order by 1").fetchall() == [(1,), (2,)]
    with connections.publishing() as connection:
        assert connection.execute(SETTINGS).fetchone() == ("postgres", "anabranch_handler", "1min")
        with connection.transaction():
            assert connection.execute("select current_setting('search_path')").fetchone() == ("pgstac,public",)
    with connect(server, Role.GEO) as session:
        assert session.execute("select count(*) from geo.made").fetchone() == (2,)


async def test_an_async_handler_has_the_same(server: ServerUrl, tmp_path: Path) -> None:
    async with HandlerConnections(server, tmp_path / "bursts").connection() as connection:
        row = await (await connection.execute(SETTINGS)).fetchone()
    assert row == ("postgres", "anabranch_geo", "1min")


async def test_sessions_go_past_the_pooler(server: ServerUrl, pooler: PgBouncer) -> None:
    with connect(server, Role.APP, name="mine") as one:
        async with await connect_async(server, Role.READER, name="mine too"):
            assert not {"mine", "mine too"} & pooler.clients()
            assert one.execute("select current_setting('role')").fetchone() == ("anabranch_app",)


def test_tools_read_layers_past_the_pooler(server: ServerUrl, pooler: PgBouncer) -> None:
    with psycopg.connect(layers_conninfo(server), application_name="qgis") as connection:
        assert connection.execute("select current_user::text").fetchone() == ("anabranch_features",)
        assert "qgis" not in pooler.clients()


def test_a_pooler_without_a_way_past_it_is_explained(pooler: PgBouncer) -> None:
    with pytest.raises(Unavailable) as caught:
        connect(pooler.url(), Role.APP)
    assert "ANABRANCH_DATABASE_DIRECT_URL" in caught.value.remedy


def test_without_a_pooler_statements_are_prepared(catalog_url: str) -> None:
    with connect(ServerUrl(catalog_url, {"direct": catalog_url}), Role.APP, session=False) as connection:
        for _ in range(8):
            connection.execute("select app.now()")
        assert connection.execute("select count(*) from pg_prepared_statements").fetchone() == (1,)


def test_doctor_names_the_pooler(pooler: PgBouncer, catalog_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", pooler.url())
    monkeypatch.setenv("ANABRANCH_DATABASE_DIRECT_URL", catalog_url)
    (found,) = [finding for finding in examine() if finding.check == "connections"]
    assert (found.status, "through a pooler" in found.message) == ("ok", True), found
