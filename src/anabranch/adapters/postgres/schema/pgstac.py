"""The catalog's schema: pgstac at our version, by its own migrations, where the server has PostGIS.

A server without PostGIS runs the engine all the same; what it lacks is reported in words.
"""

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import psycopg
import structlog
from psycopg import Connection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow, dict_row

from anabranch.adapters.postgres.connect import conninfo
from anabranch.adapters.postgres.schema.files import read_queries
from anabranch.adapters.postgres.schema.migrate import connected
from anabranch.adapters.postgres.schema.transaction import LOCK_TIMEOUT, hold_lock
from anabranch.adapters.postgres.server.connection import add_password
from anabranch.adapters.postgres.server.url import Role, ServerUrl
from anabranch.errors import Unavailable

__all__ = [
    "EXTENSIONS", "PGSTAC", "Catalog", "Found", "drop_catalog", "find_catalog", "judge", "migrate_catalog",
    "migrate_catalog_held", "require_catalog",
]  # fmt: skip

log = structlog.get_logger(__name__)

# Pinned together with the package that brings it.
PGSTAC = "0.10.0"
EXTENSIONS = ("postgis", "btree_gist", "unaccent")
MAX_TRIES = 5
CONCURRENT_ERRORS = (psycopg.errors.InternalError_, psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject)
PGSTAC_ROLES = ("pgstac_admin", "pgstac_read", "pgstac_ingest")
FIRST_WITH_SET = 160_000
GRANTS = {Role.HANDLER: "pgstac_ingest", Role.READER: "pgstac_read"}


@dataclass(frozen=True)
class Catalog:
    """The status of the catalog's schema; if it can't be used, `problem` and `remedy` say why."""

    postgis: str | None
    pgstac: str | None
    problem: str | None
    remedy: str

    @property
    def current(self) -> bool:
        """Whether the catalog can be used."""
        return self.problem is None

    def __str__(self) -> str:
        return self.problem or f"pgstac {self.pgstac} on PostGIS {self.postgis}"


@dataclass(frozen=True)
class Found:
    """What a server and a database have of what the catalog needs."""

    missing: Sequence[str]
    postgis: str | None
    pgstac: str | None
    granted: bool
    major: int


def find_catalog(url: str) -> Catalog:
    """The status of the catalog's schema; nothing is changed."""
    with connected(url) as connection:
        return judge(_look(connection))


def require_catalog(url: str) -> Catalog:
    """The status of the catalog's schema; Unavailable, with what to do, if it can't be used."""
    found = find_catalog(url)
    if found.problem:
        raise Unavailable("catalog.missing", f"there is no catalog here: {found.problem}", remedy=found.remedy)
    return found


def migrate_catalog(url: str, *, patience: timedelta = LOCK_TIMEOUT) -> Catalog:
    """Bring pgstac to our version where the server can have it; one that is there already stays untouched.

    Schema app must have been migrated before, for its roles are given rights.
    """
    with connected(url) as connection:
        hold_lock(connection, patience)
        return migrate_catalog_held(connection, url)


def migrate_catalog_held(connection: Connection[TupleRow], url: str) -> Catalog:
    """The same while a connection keeps other migrations out already."""
    found = _look(connection)
    if _can_be_brought(found) and (refused := _try_bring(connection, url, found)):
        return refused
    return judge(_look(connection))


def drop_catalog(url: str, *, patience: timedelta = LOCK_TIMEOUT) -> None:
    """Remove pgstac with all it holds; our own rows stay."""
    with connected(url) as connection:
        hold_lock(connection, patience)
        connection.execute("drop schema if exists pgstac cascade")


def _look(connection: Connection[TupleRow]) -> Found:
    with connection.cursor(row_factory=dict_row) as cursor:
        (row,) = cursor.execute(_text("catalog_parts"), {"extensions": list(EXTENSIONS)}).fetchall()
        has = row.pop("has_pgstac")
        versions = cursor.execute(_text("pgstac_version")).fetchall() if has else []
    return Found(pgstac=versions[0]["version"] if versions else None, **row)


def _can_be_brought(found: Found) -> bool:
    wanted = found.pgstac != PGSTAC or not found.granted
    return wanted and not found.missing and not _is_newer(found)


def _is_newer(found: Found) -> bool:
    return found.pgstac is not None and _numbers(found.pgstac) > _numbers(PGSTAC)


def judge(found: Found) -> Catalog:
    """Whether what was found makes a catalog, and what to do where it doesn't."""
    problem, remedy = _find_problem(found)
    return Catalog(found.postgis, found.pgstac, problem, remedy)


def _find_problem(found: Found) -> tuple[str | None, str]:
    migrate = "Run `anabranch db migrate`."
    if found.missing:
        what = f"the server has no extension {', '.join(found.missing)}"
        return (
            what,
            f"Install PostGIS (on Debian: postgresql-{found.major}-postgis-3), then run `anabranch db migrate`.",
        )
    if found.pgstac is None:
        return "pgstac is not installed in this database", migrate
    if found.pgstac != PGSTAC:
        remedy = "Use the release of Anabranch that brought it, or a later one." if _is_newer(found) else migrate
        return f"pgstac is {found.pgstac}, and this release of Anabranch needs {PGSTAC}", remedy
    if not found.granted:
        return "our roles may not use pgstac", migrate
    return None, ""


def _try_bring(connection: Connection[TupleRow], url: str, found: Found) -> Catalog | None:
    """Bring pgstac; what is in the way, where the login user may not."""
    try:
        _bring_patiently(connection, url, found)
    except psycopg.errors.InsufficientPrivilege as error:
        what = f"user {connection.info.user} may not install pgstac: {error.diag.message_primary}"
        remedy = f"Let a superuser run `anabranch db migrate` once, or: {_administrators_part(connection)}"
        return Catalog(found.postgis, found.pgstac, what, remedy)
    except ImportError as error:
        remedy = "Install the extra: pip install 'anabranch[stac]'."
        return Catalog(found.postgis, found.pgstac, f"pgstac can't be brought: {error}", remedy)
    log.info("catalog.migrated", pgstac=PGSTAC, database=connection.info.dbname)
    return None


def _bring_patiently(connection: Connection[TupleRow], url: str, found: Found) -> None:
    # Roles belong to the whole cluster, which our lock does not cover: the second process tries again.
    for chance in range(MAX_TRIES):
        try:
            if found.pgstac != PGSTAC:
                _bring(connection, url)
            for role, pgstac in GRANTS.items():
                grant = sql.SQL("grant {} to {}").format(sql.Identifier(pgstac), sql.Identifier(role.value))
                connection.execute(grant)
            return
        except CONCURRENT_ERRORS:
            if chance == MAX_TRIES - 1:
                raise
            time.sleep(random.uniform(0.05, 0.3))  # noqa: S311  # jitter, no secret


def _bring(connection: Connection[TupleRow], url: str) -> None:
    # Into public, whatever the login user's own path is: pgstac looks for them there.
    for extension in EXTENSIONS:
        connection.execute(f"create extension if not exists {extension} with schema public")
    _make_roles(connection)
    _run_migrations(url)


def _make_roles(connection: Connection[TupleRow]) -> None:
    """Make pgstac's roles and become a member, as which its migrations act; they leave that to a superuser."""
    # Since 16 a role's maker is its administrator, and may still not act as it.
    act = "set" if connection.info.server_version >= FIRST_WITH_SET else "member"
    for role in PGSTAC_ROLES:
        name = sql.Identifier(role)
        if connection.execute("select pg_catalog.to_regrole(%s) is null", [role]).fetchone() == (True,):
            connection.execute(sql.SQL("create role {} nologin").format(name))
        if connection.execute("select pg_catalog.pg_has_role(%s, %s)", [role, act]).fetchone() == (False,):
            connection.execute(sql.SQL("grant {} to session_user").format(name))


def _run_migrations(url: str) -> None:
    """Let pypgstac bring its schema to our version on a connection of its own, and undo what it does to ours."""
    try:
        from pypgstac.db import PgstacDB  # late: a second to import
        from pypgstac.migrate import Migrate
    finally:
        # It has psycopg, for the whole process, read JSON in another way, which loses large integers.
        psycopg.types.json.set_json_dumps(json.dumps)
        psycopg.types.json.set_json_loads(json.loads)
    database = PgstacDB(dsn=_with_path(url))
    try:
        Migrate(database).run_migration(PGSTAC)
    finally:
        pool = database.pool
        database.disconnect()
        if pool:
            pool.close()


def _with_path(url: str) -> str:
    login = ServerUrl.of(url).choose(Role.OWNER)
    text = add_password(login, conninfo(login, None, "anabranch db"))
    options = conninfo_to_dict(text).get("options", "")
    return make_conninfo(text, options=f"{options} -c search_path=pgstac,public")


def _administrators_part(connection: Connection[TupleRow]) -> str:
    user = sql.Identifier(connection.info.user)
    extensions = "".join(f"create extension if not exists {name} with schema public; " for name in EXTENSIONS)
    roles = "".join(f"create role {role}; " for role in PGSTAC_ROLES)
    grants = f"grant {', '.join(PGSTAC_ROLES)} to {{}} with admin option;"
    return f"{extensions}{roles}{sql.SQL(grants).format(user).as_string(connection)}"


def _text(query: str) -> bytes:
    return read_queries()[query].encode()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
