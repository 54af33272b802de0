"""`anabranch db` and the catalog: told in words, compared, made anew only when told to."""

import json
from pathlib import Path

import pytest

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.schema import pgstac
from anabranch.cli.main import call
from anabranch.plugins.stac.catalog import ensure_collection, publish
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.plugins.stac.handlers import build_publications
from anabranch.plugins.stac.item import Origin
from tests.support.items import raster_item


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    return monkeypatch


@pytest.fixture
def published(catalog_url: str, place: pytest.MonkeyPatch) -> str:
    """A catalog with one item."""
    place.setenv("ANABRANCH_DATABASE_URL", catalog_url)
    with connect(catalog_url, Role.HANDLER) as connection:
        ensure_collection(connection, CollectionFacts(id="heights"))
        publish(connection, "heights", "j" * 64, list(build_publications("heights", [raster_item()], Origin("j" * 64))))
    return catalog_url


def test_c3_a_damaged_catalog_is_found_and_mended(published: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["db", "catalog", "check"]) == 0
    with connect(published, None) as connection:
        connection.execute("delete from pgstac.items")
    assert call(["db", "catalog", "check", "--json"]) == 6
    told = capsys.readouterr()
    assert json.loads(told.out.removeprefix("ok\n")) == [{"kind": "missing", "collection": "heights", "item": "dem"}]
    assert "anabranch db catalog rebuild --yes" in told.err

    assert call(["db", "catalog", "rebuild"]) == 2
    assert call(["db", "catalog", "rebuild", "--yes"]) == 0
    assert call(["db", "catalog", "check"]) == 0
    assert "1 items in 1 collections\nok\n" in capsys.readouterr().out


def test_migrate_brings_the_catalog_and_status_tells_of_it(
    database_url: str, place: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place.setenv("ANABRANCH_DATABASE_URL", database_url)
    assert call(["db", "status"]) == 0
    assert "catalog    pgstac is not installed in this database" in capsys.readouterr().out
    assert call(["db", "migrate"]) == 0
    assert "catalog: pgstac 0.10.0 on PostGIS" in capsys.readouterr().out
    assert call(["db", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["catalog"]["current"]


def test_a_server_without_postgis_works_and_says_what_it_lacks(
    database_url: str, place: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place.setenv("ANABRANCH_DATABASE_URL", database_url)
    place.setattr(pgstac, "EXTENSIONS", ("postgis_of_nowhere",))
    for command in ("migrate", "status", "check"):
        assert call(["db", command]) == 0
        told = capsys.readouterr()
        assert "Install PostGIS" in told.err
    assert call(["db", "catalog", "check"]) == 9
    assert "the server has no extension postgis_of_nowhere" in capsys.readouterr().err


def test_a_reset_empties_the_catalog_too(published: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["db", "reset", "--yes"]) == 0
    with connect(published, None) as connection:
        rows = connection.execute(
            "select (select count(*) from pgstac.collections), (select count(*) from app.published_files)"
        )
        assert rows.fetchone() == (0, 0)
    assert call(["db", "catalog", "check"]) == 0


def test_what_a_published_item_uses_is_not_removed_or_replaced(
    published: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(published, None) as connection:
        ((address,),) = connection.execute("select tier || '://' || key from app.published_files limit 1").fetchall()
    file, stored = tmp_path / "file.tif", tmp_path / address.replace("://", "/")
    file.write_bytes(b"another")
    stored.parent.mkdir(parents=True)
    stored.write_bytes(b"published")
    folder = address.rpartition("/")[0]
    for command in (
        ["rm", address, "--yes"],
        ["rm", folder, "--recursive", "--yes"],
        ["cp", str(file), address, "--overwrite"],
    ):
        assert call(["storage", *command]) == 6
        assert f"{address} is used by the published item heights/dem" in capsys.readouterr().err
    assert stored.read_bytes() == b"published"
    assert call(["storage", "cp", str(file), f"{folder}/other.tif"]) == 0
    assert call(["storage", "cp", str(file), f"{folder}/other.tif", "--overwrite"]) == 0
    assert call(["storage", "rm", f"{folder}/other.tif", "--yes"]) == 0
