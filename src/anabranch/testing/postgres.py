"""pytest fixtures: one private PostgreSQL for a run, one database for each test."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.adapters.postgres.schema.pgstac import migrate_catalog
from anabranch.embedded.cluster import Cluster
from anabranch.testing.clock import Clock
from anabranch.testing.shared_cluster import SharedCluster

__all__ = [
    "Databases",
    "catalog_template",
    "catalog_url",
    "clock",
    "database_url",
    "databases",
    "empty_database_url",
    "postgres",
]

TEMPLATE = "anabranch_template"
CATALOG_TEMPLATE = "anabranch_catalog_template"
SHARED = pytest.StashKey[SharedCluster]()


class Databases:
    """Makes databases for tests, and drops those of the test before: by then nobody is connected whom that awaits."""

    def __init__(self, cluster: Cluster, admin: Connection[TupleRow]) -> None:
        self._cluster = cluster
        self._admin = admin
        self._made: list[str] = []
        self._left: list[str] = []

    def make(self, template: str = TEMPLATE) -> str:
        """The URL of a new database: migrated, or empty from `template0`."""
        name = f"test_{secrets.token_hex(6)}"
        # Copying files beats writing a template's every page to the log.
        create = sql.SQL("create database {} template {} strategy file_copy")
        self._admin.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        self._made.append(name)
        return self._cluster.url(name)

    def leave(self) -> None:
        """A test has ended; what is left of the last one goes with the cluster."""
        for name in self._left:
            self._admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
        self._left, self._made = self._made, []


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> Cluster:
    """The run's cluster, with a migrated template."""
    return pytestconfig.stash[SHARED].start(_make_template)


@pytest.fixture(scope="session")
def postgres_admin(postgres: Cluster) -> Iterator[Connection[TupleRow]]:
    """A connection that may do anything to the run's cluster."""
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def all_databases(postgres: Cluster, postgres_admin: Connection[TupleRow]) -> Databases:
    """The databases of all tests of this process."""
    return Databases(postgres, postgres_admin)


@pytest.fixture
def databases(all_databases: Databases) -> Iterator[Databases]:
    """For tests that need several databases."""
    yield all_databases
    all_databases.leave()


@pytest.fixture
def database_url(databases: Databases) -> str:
    """A migrated database of this test's own."""
    return databases.make()


@pytest.fixture
def empty_database_url(databases: Databases) -> str:
    """An empty database of this test's own."""
    return databases.make("template0")


@pytest.fixture(scope="session")
def catalog_template(postgres: Cluster, pytestconfig: pytest.Config) -> str:
    """The template of migrated databases with pgstac; it is made when the first test asks for it."""
    pytestconfig.stash[SHARED].once("catalog", _make_catalog_template)
    return CATALOG_TEMPLATE


@pytest.fixture
def catalog_url(databases: Databases, catalog_template: str) -> str:
    """A migrated database of this test's own, with pgstac."""
    return databases.make(catalog_template)


@pytest.fixture
def clock(database_url: str) -> Iterator[Clock]:
    """The stopped clock of `database_url`."""
    with Clock(database_url) as stopped:
        yield stopped


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "postgres: needs a PostgreSQL server.")
    given = getattr(config, "workerinput", None)
    config.stash[SHARED] = SharedCluster(Path(given["anabranch_cluster"])) if given else SharedCluster.make()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # xdist's, which has no types
    node.workerinput["anabranch_cluster"] = str(node.config.stash[SHARED].folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[SHARED].remove()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.postgres)


def _make_template(cluster: Cluster) -> None:
    cluster.ensure_database(TEMPLATE)
    migrate(cluster.url(TEMPLATE))
    _close_template(cluster, TEMPLATE)


def _make_catalog_template(cluster: Cluster) -> None:
    cluster.ensure_database(CATALOG_TEMPLATE)
    migrate(cluster.url(CATALOG_TEMPLATE))
    found = migrate_catalog(cluster.url(CATALOG_TEMPLATE))
    assert found.current, f"{found}. {found.remedy}"
    _close_template(cluster, CATALOG_TEMPLATE)


def _close_template(cluster: Cluster, name: str) -> None:
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as connection:
        # Nobody may be connected to a template while it is copied.
        connection.execute(f"alter database {name} with is_template true allow_connections false")
