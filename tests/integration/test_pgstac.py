"""The catalog's schema: brought where it can be had, told of in words where it can't."""

import json
import tomllib
from pathlib import Path

import psycopg
import pytest

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.schema import pgstac as module
from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.adapters.postgres.schema.pgstac import (
    PGSTAC,
    drop_catalog,
    find_catalog,
    migrate_catalog,
    require_catalog,
)
from anabranch.adapters.postgres.store.vitals import PostgresVitals
from anabranch.api.health.diagnosis import diagnose_catalog
from anabranch.errors import Unavailable


def run(url: str, statement: str) -> None:
    with connect(url, None) as connection:
        connection.execute(statement)


def test_pgstac_and_its_package_are_pinned_together() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert f"pypgstac[psycopg]=={PGSTAC}" in project["optional-dependencies"]["stac"]


def test_pgstac_is_brought_once_and_then_left_alone(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate(empty_database_url)
    assert find_catalog(empty_database_url).problem == "pgstac is not installed in this database"
    brought = migrate_catalog(empty_database_url)
    assert (brought.pgstac, brought.current) == (PGSTAC, True)

    monkeypatch.setattr(module, "_try_bring", lambda *_: pytest.fail("there was nothing to do"))
    assert migrate_catalog(empty_database_url) == brought


def test_bringing_it_leaves_numbers_of_json_as_they_were(catalog_url: str) -> None:
    """pypgstac gives psycopg another reader of JSON, for the whole process."""
    drop_catalog(catalog_url)
    migrate_catalog(catalog_url)
    large = 2**70 + 1
    with connect(catalog_url, None) as connection:
        assert connection.execute("select %s::text::jsonb", [json.dumps(large)]).fetchone() == (large,)


def test_a_server_without_postgis_is_told_what_it_lacks(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXTENSIONS", ("postgis_of_nowhere",))
    found = migrate_catalog(database_url)
    assert found.problem == "the server has no extension postgis_of_nowhere"
    assert "postgis-3" in found.remedy
    with pytest.raises(Unavailable, match="has no extension") as caught:
        require_catalog(database_url)
    assert caught.value.code == "catalog.missing"


def test_a_login_that_may_not_bring_it_learns_what_to_ask_for(database_url: str) -> None:
    run(database_url, "create role mortal login")
    try:
        run(database_url, "grant anabranch_owner to mortal")
        found = migrate_catalog(database_url.replace("postgres@", "mortal@"))
        assert "user mortal may not install pgstac" in (found.problem or "")
        assert "create extension if not exists postgis" in found.remedy
    finally:
        run(database_url, "drop role mortal")


def test_a_newer_pgstac_is_left_alone_and_told(catalog_url: str) -> None:
    run(catalog_url, "insert into pgstac.migrations (version, datetime) values ('99.1.0', now() + interval '1 day')")
    found = migrate_catalog(catalog_url)
    assert found == find_catalog(catalog_url)
    assert "99.1.0" in (found.problem or "")
    assert "or a later one" in found.remedy


def test_a_catalog_without_rights_is_given_them(catalog_url: str) -> None:
    found = migrate_catalog(catalog_url)
    assert found.current
    with connect(catalog_url, Role.HANDLER) as handler:
        handler.execute('select pgstac.upsert_collection(\'{"id": "a"}\')')
    with connect(catalog_url, Role.READER) as reader:
        assert reader.execute("select id from pgstac.collections").fetchall() == [("a",)]
        reader.execute("set default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("delete from pgstac.collections")


def test_o4_an_older_pgstac_is_migrated_with_what_it_holds(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(empty_database_url)
    with monkeypatch.context() as earlier:
        earlier.setattr(module, "PGSTAC", "0.9.9")
        assert migrate_catalog(empty_database_url).current
    run(empty_database_url, 'select pgstac.upsert_collection(\'{"id": "old"}\')')

    assert "pgstac is 0.9.9" in str(find_catalog(empty_database_url))
    assert migrate_catalog(empty_database_url).current
    with connect(empty_database_url, Role.READER) as reader:
        assert reader.execute("select id from pgstac.collections").fetchall() == [("old",)]


async def test_o1_health_tells_what_the_catalog_lacks(database_url: str, catalog_url: str) -> None:
    told = {}
    for name, url in (("without", database_url), ("with", catalog_url)):
        signs = PostgresVitals(url, name="test")
        await signs.open()
        told[name] = diagnose_catalog(await signs.catalog())
        await signs.close()
    assert (told["with"].status, told["with"].remedy) == ("ok", "")
    assert told["without"].detail == "nothing can be published: pgstac is not installed in this database"
    assert told["without"].remedy == "Run `anabranch db migrate`."


def test_o1_a_catalog_of_another_version_is_not_well() -> None:
    found = module.judge(module.Found((), "3.3.2", "0.9.9", granted=True, major=15))
    assert diagnose_catalog(found).status == "degraded"
