"""Connections in their roles, and errors that keep the password to themselves."""

import traceback

import psycopg
import pytest

from anabranch.adapters.postgres.connect import Role, connect, connect_async, conninfo, layers_conninfo, mask
from anabranch.adapters.postgres.database import Database
from anabranch.errors import AnabranchError, InputError, Unavailable

SETTINGS = ("role", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (None, ["none", "0", "10s", "0"]),
        (Role.OWNER, ["anabranch_owner", "0", "10s", "0"]),
        (Role.APP, ["anabranch_app", "1min", "5s", "10s"]),
        (Role.READER, ["anabranch_reader", "10s", "0", "0"]),
        (Role.HANDLER, ["anabranch_handler", "1min", "10s", "10s"]),
    ],
)
def test_a_connection_has_the_limits_of_its_role(database_url: str, role: Role | None, expected: list[str]) -> None:
    with connect(database_url, role, name="me") as connection:
        shown = [connection.execute(f"show {setting}").fetchone() for setting in (*SETTINGS, "application_name")]
        assert [row and row[0] for row in shown] == [*expected, "me"]
        assert connection.autocommit
        assert connection.info.encoding == "utf-8"


def test_a_connection_for_layers_reads_nothing_else(catalog_url: str) -> None:
    with psycopg.connect(layers_conninfo(catalog_url), autocommit=True) as connection:
        assert connection.execute("select current_user::text").fetchone() == ("anabranch_features",)
        assert connection.execute("select count(*) from app.layers").fetchone() == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select from app.jobs")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("create table geo.mine ()")


async def test_an_asynchronous_connection_is_the_same(database_url: str) -> None:
    async with await connect_async(database_url, Role.APP) as connection:
        row = await (await connection.execute("select current_user, current_setting('timezone')")).fetchone()
    assert row == ("anabranch_app", "UTC")


def test_options_of_the_url_are_kept(database_url: str) -> None:
    url = f"{database_url}?options=-c%20work_mem%3D5MB%20-c%20lock_timeout%3D7s%20-c%20role%3Dpostgres"
    with connect(url, Role.APP) as connection:
        row = connection.execute("select current_setting('work_mem'), current_setting('lock_timeout'), current_user")
        assert row.fetchone() == ("5MB", "7s", "anabranch_app")


def test_the_owner_of_a_url_without_roles_is_sent_to_migrate(database_url: str, empty_database_url: str) -> None:
    with connect(empty_database_url, None) as admin:
        admin.execute("create role stranger login")
    try:
        with pytest.raises(Unavailable) as caught:
            connect(database_url.replace("postgres@", "stranger@"), Role.APP)
    finally:
        with connect(empty_database_url, None) as admin:
            admin.execute("drop role stranger")
    assert caught.value.code == "database.not_migrated"
    assert "anabranch db migrate" in caught.value.remedy


UNREACHABLE = [
    "postgresql://me:s3cret@localhost:1/none",
    "postgresql://me@localhost:1/none?password=s3cret",
    "host=localhost port=1 user=me password=s3cret",
]
MALFORMED = [
    "postgresql://me:s3cret%zz@localhost/none",
    "postgresql://me:a@s3cret@localhost/none",
    "postgresql://me:a/s3cret@localhost/none",
    "postgresql://me:1/s3cret@localhost/none",
    "postgresql://me:a?b@s3cret@localhost/none",
    "postgresql://me:s3cret:5432/none",
    "password=a s3cret",
    "mysql://me:s3cret@localhost/none",
    "",
]


@pytest.mark.parametrize("url", UNREACHABLE + MALFORMED)
async def test_s5_no_error_shows_the_password(url: str) -> None:
    for role in (None, Role.APP):
        with pytest.raises(AnabranchError) as caught:
            connect(url, role)
        with pytest.raises(AnabranchError) as caught_async:
            await connect_async(url, role)
        for error in (caught.value, caught_async.value):
            assert error.code == ("database.unreachable" if url in UNREACHABLE else "database.url_invalid")
            assert "s3cret" not in f"{error!r} {error.remedy} {''.join(traceback.format_exception_only(error))}"


def test_s5_a_database_is_shown_without_its_password() -> None:
    assert mask("postgresql://me:s3cret@there:5433/data") == "me@there:5433/data"
    assert "s3cret" in conninfo("postgresql://me:s3cret@there/data", Role.APP, "me")
    with pytest.raises(InputError):
        mask("nonsense")


def test_a_password_with_every_sign_arrives(database_url: str) -> None:
    password = "a@b:c/d?e#f%g'h\\i j"
    parts = psycopg.conninfo.conninfo_to_dict(conninfo(database_url, Role.APP, "me"))
    text = psycopg.conninfo.make_conninfo("", **{**parts, "password": password})
    assert psycopg.conninfo.conninfo_to_dict(conninfo(text, Role.APP, "me"))["password"] == password


async def test_o4_connections_outlive_a_schema_that_becomes_another(database_url: str) -> None:
    """What reads is asked again by itself; what may act is refused once, and works the next time."""
    database = Database(database_url, Role.READER, name="test", size=1, checked=False)
    await database.open()
    try:
        for kind in ("varchar", "text"):
            for _ in range(8):  # a statement that comes often is prepared
                await database.query("limits")
                await database.call("now")
            with connect(database_url, None) as admin:
                admin.execute(f"alter table app.limits alter column reason type {kind}")
                admin.execute(
                    f"drop function app.now() cascade; create function app.now() returns {kind} return 'late'"
                )
            if kind == "text":
                with pytest.raises(Unavailable):
                    await database.call("now")
                assert await database.call("now") == [{"now": "late"}]
            assert await database.query("limits") == []
    finally:
        await database.close()
