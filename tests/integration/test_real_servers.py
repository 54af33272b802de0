"""Servers as others run them: with TLS, with passwords that change, and with a standby that takes over."""

import asyncio
import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from psycopg.conninfo import conninfo_to_dict

from anabranch.adapters.postgres.connect import Role, connect, connect_async
from anabranch.adapters.postgres.database import Database
from anabranch.adapters.postgres.server import passwords as passwords_module
from anabranch.adapters.postgres.server.passwords import Passwords
from anabranch.adapters.postgres.server.url import ServerUrl, configured_url
from anabranch.adapters.postgres.snapshot import open_snapshot
from anabranch.backup.postgres_programs import dump
from anabranch.embedded.processes import identify
from anabranch.errors import AnabranchError, Unavailable
from anabranch.serving.stac.pool import Catalog
from anabranch.settings import load_settings
from tests.support.crew import Start, open_stage
from tests.support.database_server import DatabaseServer
from tests.support.tls_server import TlsServer, open_tls_server, sign_client
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.warm import run_warm

PLUGINS = Path(__file__).parent.parent / "data" / "plugins"
KINDS = ["plain", "heavy", "quick", "async"]
ENCRYPTED = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"


@pytest.fixture(scope="module")
def tls_server() -> Iterator[TlsServer]:
    with open_tls_server() as server:
        server.run("create role worker login; grant pg_read_all_stats to anabranch_app, anabranch_reader")
        for role in Role:
            server.run(f"grant {role.value} to worker")
        yield server


@pytest.fixture
def password(tls_server: TlsServer, tmp_path: Path) -> Path:
    """The file of the password that the server has."""
    tls_server.change_password("worker", "first s3cret")
    file = tmp_path / "password"
    file.write_text("first s3cret\n")
    return file


def rotate(server: TlsServer, file: Path, password: str = "second s3cret") -> None:
    server.change_password("worker", password)
    file.write_text(f"{password}\n")
    server.run("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'worker'")


def count_calls(file: Path, calls: Path) -> Passwords:
    """Those of a command that prints the file, and notes that it was called, and for whom."""
    script = f"echo $PGUSER@$PGHOST/$PGDATABASE >> {calls}; cat {file}"
    return Passwords(None, f"sh -c {shlex.quote(script)}")


async def read(catalog: Catalog) -> None:
    """Read something; a connection that was closed a moment ago may be met once."""
    with suppress(Unavailable):
        async with catalog.connection() as served:
            assert await served.fetchval("select 1") == 1
            return
    async with catalog.connection() as served:
        assert await served.fetchval("select 1") == 1


def verified(server: TlsServer) -> str:
    return server.tcp_url("worker", sslmode="verify-full", sslrootcert=server.authority)


async def test_tls_is_verified_by_both_drivers(tls_server: TlsServer, password: Path) -> None:
    url = ServerUrl(verified(tls_server), passwords=Passwords(password))
    with connect(url, Role.APP) as connection:
        assert connection.execute(ENCRYPTED).fetchone() == (True,)
    catalog = Catalog(url, 1)
    async with catalog.connection() as served:
        assert await served.fetchval(ENCRYPTED)
    await catalog.close()


@pytest.mark.parametrize(
    ("host", "authority"), [("localhost", "other_authority"), ("127.0.0.1", "authority"), ("localhost", "none")]
)
async def test_a_server_that_is_another_is_refused(
    tls_server: TlsServer, password: Path, host: str, authority: str
) -> None:
    """Signed by another authority, or for another name, or by none that is known."""
    file = getattr(tls_server, authority, password.with_name("none"))
    text = tls_server.tcp_url("worker", host, sslmode="verify-full", sslrootcert=file)
    url = ServerUrl(text, passwords=Passwords(password))
    with pytest.raises(Unavailable, match="certificate"):
        connect(url, Role.APP)
    catalog = Catalog(url, 1)
    with pytest.raises((AnabranchError, OSError, ValueError)):
        async with catalog.connection():
            pass
    await catalog.close()


async def test_a_password_file_is_read_for_each_connection(tls_server: TlsServer, password: Path) -> None:
    url = ServerUrl(verified(tls_server), passwords=Passwords(password))
    database, catalog = Database(url, Role.APP, name="test", size=2, checked=True), Catalog(url, 1)
    await database.open()
    try:
        for _ in range(2):
            assert await database.call("now")
            await read(catalog)
            rotate(tls_server, password)
    finally:
        await database.close()
        await catalog.close()


async def test_what_a_command_gave_is_asked_again_when_it_is_refused(
    tls_server: TlsServer, password: Path, tmp_path: Path
) -> None:
    passwords = count_calls(password, tmp_path / "calls")
    url = ServerUrl(verified(tls_server), passwords=passwords)
    for _ in range(3):
        connect(url, Role.APP).close()
    assert (tmp_path / "calls").read_text().split() == ["worker@localhost/anabranch"]

    rotate(tls_server, password)
    async with await connect_async(url, Role.APP):
        pass
    connect(url, Role.READER).close()
    assert len((tmp_path / "calls").read_text().split()) == 2

    tls_server.change_password("worker", "third s3cret")  # which the command does not know
    with pytest.raises(Unavailable) as caught:
        connect(url, Role.APP)
    assert "s3cret" not in f"{caught.value!r} {caught.value.remedy}"


async def test_a_pool_of_readers_asks_again(tls_server: TlsServer, password: Path, tmp_path: Path) -> None:
    catalog = Catalog(ServerUrl(verified(tls_server), passwords=count_calls(password, tmp_path / "calls")), 1)
    for _ in range(2):
        await read(catalog)
        rotate(tls_server, password)
    await catalog.close()
    assert len((tmp_path / "calls").read_text().split()) == 2


def test_what_a_command_gave_expires(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("token")
    passwords = count_calls(tmp_path / "password", tmp_path / "calls")
    login = {"host": "there", "user": "me", "dbname": "data"}
    assert [passwords.read(login), passwords.read(login), passwords.read({**login, "user": "you"})] == ["token"] * 3
    assert (tmp_path / "calls").read_text().split() == ["me@there/data", "you@there/data"]
    passwords.seconds = 0
    passwords.read(login)
    assert (tmp_path / "calls").read_text().split()[2:] == ["me@there/data"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("sh -c 'echo s3cret >&2; exit 3'", "status 3"),
        ("true", "printed nothing"),
        ("/nowhere/tool --key s3cret", "can't be run"),
        ("sh -c 'unbalanced", "can't be run"),
        ("yes s3cret", "more than 65536 bytes"),
        ("printf s3cret\\\\377", "not UTF-8"),
    ],
)
def test_s5_a_command_that_fails_is_named_without_what_it_said(command: str, reason: str) -> None:
    with pytest.raises(Unavailable, match=reason) as caught:
        connect(ServerUrl("postgresql://me@localhost:1/none", passwords=Passwords(None, command)), Role.APP)
    assert caught.value.code == "database.password"
    assert "s3cret" not in f"{caught.value!r} {caught.value.remedy} {Passwords(None, command)}"


def test_a_command_that_does_not_end_is_ended_with_what_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those who wait for the same password do not wait for it again."""
    monkeypatch.setattr(passwords_module, "COMMAND_SECONDS", 0.5)
    pids, calls = tmp_path / "pids", tmp_path / "calls"
    passwords = Passwords(None, f"sh -c {shlex.quote(f'echo x >> {calls}; sleep 600 & echo $! >> {pids}; wait')}")

    def fail(_: int) -> str:
        with pytest.raises(Unavailable, match="did not end within") as caught:
            passwords.read({"user": "me"})
        return caught.value.code

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(fail, range(8))) == {"database.password"}
    assert len(calls.read_text().split()) < 8
    begun = [int(pid) for pid in pids.read_text().split()]
    wait_until(lambda: not any(map(identify, begun)), "the end of what it began")


def test_a_folder_has_a_file_for_each_login(tls_server: TlsServer, password: Path) -> None:
    folder = password.parent / "passwords"
    folder.mkdir()
    (folder / "worker").write_text(password.read_text())
    connect(ServerUrl(verified(tls_server), passwords=Passwords(folder)), Role.APP).close()
    with pytest.raises(Unavailable, match="passwords/other"):
        connect(ServerUrl(tls_server.tcp_url("other"), passwords=Passwords(folder)), Role.APP)


def test_pg_dump_gets_the_password(tls_server: TlsServer, tmp_path: Path) -> None:
    tls_server.change_password("postgres", "first s3cret")
    (tmp_path / "password").write_text("first s3cret")
    url = ServerUrl(tls_server.tcp_url("postgres", sslmode="require"), passwords=Passwords(tmp_path / "password"))
    with open_snapshot(url) as snapshot:
        assert b"".join(dump(url, snapshot.name, snapshot.server_major)).startswith(b"PGDMP")


def test_s5_no_password_is_among_the_arguments_of_pg_dump(
    tls_server: TlsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the client's key, either, which it needs to connect."""
    key = tmp_path / "client.key"
    secret = serialization.BestAvailableEncryption(b"key s3cret")
    drawn = ec.generate_private_key(ec.SECP256R1())
    encoding, shape = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key.write_bytes(drawn.private_bytes(encoding, shape, secret))
    key.chmod(0o600)
    certificate = sign_client(drawn, tmp_path / "client.crt")
    tls_server.change_password("postgres", "first s3cret")
    client = {"sslcert": str(certificate), "sslkey": str(key), "sslpassword": "key s3cret"}
    url = tls_server.tcp_url("postgres", sslmode="require", **client).replace("postgres@", "postgres:first%20s3cret@")
    started: list[list[str]] = []
    run = subprocess.Popen

    def note(command: list[str], **given: Any) -> "subprocess.Popen[bytes]":
        started.append(command)
        return run(command, **given)

    with open_snapshot(url) as snapshot:
        monkeypatch.setattr(subprocess, "Popen", note)
        assert b"".join(dump(url, snapshot.name, snapshot.server_major)).startswith(b"PGDMP")
    assert started
    assert "s3cret" not in str(started)


async def test_a_worker_and_its_handlers_live_on_a_password_file(tls_server: TlsServer, password: Path) -> None:
    """Real processes, before and after the password was replaced; what they log holds no secret."""
    url = ServerUrl(verified(tls_server), passwords=Passwords(password))
    async with open_stage(Start(password.parent, PLUGINS, url, lease=30)) as stage:
        (worker,) = await stage.crew.start_ready("worker", database_password_file=password, log_level="debug")
        for value in ("1", "2"):
            job = await stage.complete(await stage.submit("stores", kinds=KINDS, sql=f"select {value}"))
            assert [task.result for task in await stage.tasks(job, "act")] == [[value]] * len(KINDS)
            rotate(tls_server, password)
        asked = await stage.complete(await stage.submit("stores", kinds=KINDS, environment=str(password)))
        assert [task.result for task in await stage.tasks(asked, "act")] == [[]] * len(KINDS)
        assert "s3cret" not in worker.log.read_text()


def test_s5_config_show_masks_urls_and_the_command(tmp_path: Path) -> None:
    ours = {
        "ANABRANCH_HOME": str(tmp_path),
        "ANABRANCH_DATABASE_URL": "postgresql://me@there/data",
        **{f"ANABRANCH_DATABASE_{way}_URL": "postgresql://me:s3cret@there/data" for way in ("DIRECT", "OWNER")},
        "ANABRANCH_DATABASE_PASSWORD_COMMAND": "print s3cret",
    }
    done = run_warm("config", "show", "--json", env={**os.environ, **ours})
    shown = json.loads(done.stdout)["settings"]
    assert shown["database_password_command"]["value"] == "**********"
    assert "s3cret" not in done.stdout + done.stderr


def test_settings_of_a_server_need_its_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    monkeypatch.setenv("ANABRANCH_DATABASE_PASSWORD_COMMAND", "print s3cret")
    with pytest.raises(AnabranchError, match="DATABASE_URL must name") as caught:
        load_settings()
    assert "s3cret" not in str(caught.value)
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", "postgresql://me@there/data")
    assert configured_url(load_settings()) == "postgresql://me@there/data"
    monkeypatch.setenv("ANABRANCH_DATABASE_PASSWORD_FILE", "/run/password")
    with pytest.raises(AnabranchError, match="not both"):
        load_settings()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the user of a server can enter."""
    made = Path(tempfile.mkdtemp(prefix="ab-"))
    made.chmod(0o755)
    yield made
    rmtree(made)


async def test_after_a_failover_the_other_host_of_the_url_is_used(folder: Path) -> None:
    """Writers and readers, of both drivers, while the old server still answers and when it is gone."""
    primary = DatabaseServer(folder / "a")
    standby = primary.follow(folder / "b")
    sockets = [conninfo_to_dict(server.url)["host"] for server in (standby, primary)]
    url = f"postgresql://postgres@/anabranch?host={','.join(map(str, sockets))}&port=5432"
    database, reads = (Database(url, role, name="test", size=2, checked=True) for role in (Role.APP, Role.READER))
    catalog = Catalog(url, 1)
    for pool in (database, reads):
        await pool.open()
    try:
        await _until_all_work(database, reads, catalog)
        primary.turn_read_only()
        standby.promote(primary)
        await _until_all_work(database, reads, catalog)
        with connect(url, Role.APP) as writer:  # the old one still answers, and only reads
            assert writer.info.host == sockets[0]
        primary.stop("immediate")
        await _until_all_work(database, reads, catalog)
    finally:
        for pool in (database, reads):
            await pool.close()
        await catalog.close()
        standby.purge()
        primary.purge()


async def test_readers_do_not_ask_a_standby(folder: Path) -> None:
    """It has not everything yet that was written a moment ago."""
    primary = DatabaseServer(folder / "a")
    standby = primary.follow(folder / "b")
    sockets = [conninfo_to_dict(server.url)["host"] for server in (standby, primary)]
    url = f"postgresql://postgres@/anabranch?host={','.join(map(str, sockets))}&port=5432"
    catalog = Catalog(url, 1)
    try:
        with connect(url, Role.READER) as reader:
            assert reader.execute("select pg_is_in_recovery()").fetchone() == (False,)
        async with catalog.connection() as served:
            assert await served.fetchval("select pg_is_in_recovery()") is False
        with connect(f"{url}&target_session_attrs=any", Role.READER) as asked:
            assert asked.execute("select pg_is_in_recovery()").fetchone() == (True,)
        with connect(url, None) as owner, owner.transaction():  # no standby has its snapshot
            ((name,),) = owner.execute("select pg_export_snapshot()")
            assert b"".join(dump(url, name, owner.info.server_version // 10_000)).startswith(b"PGDMP")
    finally:
        await catalog.close()
        standby.purge()
        primary.purge()


async def _until_all_work(database: Database, reads: Database, catalog: Catalog) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                await database.call("note_turn", "test", 1, timedelta(seconds=1))
                await reads.query("limits")
                async with catalog.connection() as connection:
                    assert await connection.fetchval("select 1") == 1
            except Unavailable:
                await asyncio.sleep(0.1)
            else:
                return
