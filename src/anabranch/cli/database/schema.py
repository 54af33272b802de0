"""`db`: the schema of the database."""

from dataclasses import asdict
from typing import Annotated

import typer

from anabranch.adapters.postgres.connect import layers_conninfo
from anabranch.adapters.postgres.schema.check import check
from anabranch.adapters.postgres.schema.migrate import Applied, Status, migrate, redeploy, reset, status
from anabranch.adapters.postgres.schema.pgstac import Catalog, drop_catalog, find_catalog, migrate_catalog
from anabranch.adapters.postgres.schema.table_values import ROW_TYPES
from anabranch.adapters.postgres.store.invariants import audit
from anabranch.cli.connection import database_url
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.setup import prepare
from anabranch.cli.terminal.durations import parse_duration
from anabranch.cli.terminal.options import Json, Yes
from anabranch.cli.terminal.output import note, print_findings, print_json, print_line, print_result
from anabranch.errors import AnabranchError, Conflict

__all__ = [
    "audit_state",
    "check_schema",
    "migrate_database",
    "print_url",
    "redeploy_functions",
    "reset_database",
    "show_status",
]


def migrate_database(json: Json = False) -> None:
    """Migrate the database to the newest schema and functions, and the catalog if the server has PostGIS."""
    url = _url()
    _show(migrate(url), json, migrate_catalog(url))


def show_status(json: Json = False) -> None:
    """Show the applied and the pending migrations."""
    url = _url()
    found, catalog = status(url), find_catalog(url)
    if json:
        print_json({**asdict(found), "current": found.current, "catalog": _describe(catalog)})
        return
    print_line(f"database   {found.database}")
    print_line(f"server     PostgreSQL {found.server_version}")
    print_line(f"applied    {', '.join(found.applied) or 'nothing'}")
    print_line(f"pending    {', '.join(found.pending) or 'nothing'}")
    print_line(f"functions  {_describe_functions(found)}")
    print_line(f"release    {found.release or 'none'}; this one is {found.files_release}")
    print_line(f"catalog    {catalog}")
    if not found.current:
        note(found.problem or "Run `anabranch db migrate`.")
    elif not catalog.current:
        note(catalog.remedy)


def redeploy_functions(json: Json = False) -> None:
    """Recreate functions, views, triggers and grants."""
    _show(redeploy(_url()), json)


def check_schema(json: Json = False) -> None:
    """Check that the schema matches the files and the models."""
    url = _url()
    differences = check(url, ROW_TYPES)
    _warn_if_no_catalog(find_catalog(url))
    print_findings(differences, json=json)
    if differences:
        raise Conflict("database.differs", f"the database differs from the files in {len(differences)} places")


def audit_state(
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="Check ended jobs only if they ended within this time, like 7d.")
    ] = None,
    json: Json = False,
) -> None:
    """Check the engine's state against its invariants; it may be running."""
    found = audit(_url(), since=parse_duration(since, code="database.age") if since else None)
    print_findings(found, json=json)
    if found:
        raise AnabranchError(
            "database.unsound",
            f"{len(found)} violations of the engine's invariants were found",
            remedy="It is a bug in Anabranch, or somebody changed rows by hand: report it with this list.",
        )


def reset_database(yes: Yes = False, json: Json = False) -> None:
    """Remove the schema app with all jobs, and the catalog, and create both again."""
    if not yes:
        raise UsageError("database.unconfirmed", "`db reset` removes all jobs, their history and the catalog")
    url = _url()
    applied = reset(url)  # it refuses a database of another application, so it comes first
    drop_catalog(url)
    _show(applied, json, migrate_catalog(url))


def print_url(
    json: Json = False,
    layers: Annotated[
        bool, typer.Option("--layers", help="Print how to connect to read the published layers only.")
    ] = False,
) -> None:
    """Print the database's URL, with its password if it has one."""
    found = layers_conninfo(_url()) if layers else _url()
    print_result({"url": found}, found, json=json)


def _describe_functions(found: Status) -> str:
    if found.is_later:
        return "of a later release, not changed"
    return "current" if found.functions_current else "not current"


def _url() -> str:
    return database_url(prepare(quiet=True))


def _show(applied: Applied, json: bool, catalog: Catalog | None = None) -> None:
    if json:
        print_json(asdict(applied) | ({"catalog": _describe(catalog)} if catalog else {}))
        return
    for migration in applied.migrations:
        print_line(f"applied {migration}")
    print_line("functions deployed" if applied.redeployed else "nothing to do")
    if catalog:
        print_line(f"catalog: {catalog}")
        _warn_if_no_catalog(catalog)


def _warn_if_no_catalog(catalog: Catalog) -> None:
    """Warn that there is no usable catalog, and why; everything else works without one."""
    if not catalog.current:
        note(f"There is no catalog: {catalog.problem}. {catalog.remedy}")


def _describe(catalog: Catalog) -> dict[str, object]:
    return {**asdict(catalog), "current": catalog.current}
