"""`db`: the schema of the database."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.connection import database_url
from anabranch.cli.database.catalog import cli as catalog_cli
from anabranch.cli.database.purge import purge, read_age
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.setup import prepare
from anabranch.cli.terminal.options import Json, Yes
from anabranch.cli.terminal.output import coloured, note, print_json, print_line
from anabranch.errors import AnabranchError, Conflict

if TYPE_CHECKING:
    from anabranch.adapters.postgres.schema.migrate import Applied, Status
    from anabranch.adapters.postgres.schema.pgstac import Catalog

__all__ = ["cli"]

cli = typer.Typer(name="db", help="Create, check and reset the database schema, and purge old jobs.")


@cli.command()
def migrate(json: Json = False) -> None:
    """Migrate the database to the newest schema and functions, and the catalog if the server has PostGIS."""
    from anabranch.adapters.postgres.schema.migrate import migrate
    from anabranch.adapters.postgres.schema.pgstac import migrate_catalog

    url = _url()
    _show(migrate(url), json, migrate_catalog(url))


@cli.command()
def status(json: Json = False) -> None:
    """Show the applied and the pending migrations."""
    from anabranch.adapters.postgres.schema.migrate import status
    from anabranch.adapters.postgres.schema.pgstac import find_catalog

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


@cli.command()
def redeploy(json: Json = False) -> None:
    """Recreate functions, views, triggers and grants."""
    from anabranch.adapters.postgres.schema.migrate import redeploy

    _show(redeploy(_url()), json)


@cli.command()
def check(json: Json = False) -> None:
    """Check that the schema matches the files and the models."""
    from anabranch.adapters.postgres.schema.check import check
    from anabranch.adapters.postgres.schema.pgstac import find_catalog
    from anabranch.adapters.postgres.schema.table_values import ROWS

    url = _url()
    differences = check(url, ROWS)
    _warn_if_no_catalog(find_catalog(url))
    if json:
        print_json([asdict(difference) for difference in differences])
    else:
        for difference in differences:
            print_line(str(difference))
    if differences:
        raise Conflict(
            "database.differs",
            f"the database differs from the files in {len(differences)} places",
            remedy="`anabranch db redeploy` repairs functions, views, triggers and grants; tables need a migration.",
        )
    if not json:
        print_line(coloured("ok"))


@cli.command()
def audit(
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="Check ended jobs only if they ended within this time, like 7d.")
    ] = None,
    json: Json = False,
) -> None:
    """Check the engine's state against its invariants; it may be running."""
    from anabranch.adapters.postgres.store.audit import audit

    found = audit(_url(), since=read_age(since) if since else None)
    if json:
        print_json([asdict(violation) for violation in found])
    else:
        for violation in found:
            print_line(str(violation))
    if found:
        raise AnabranchError(
            "database.unsound",
            f"{len(found)} violations of the engine's invariants were found",
            remedy="It is a bug in Anabranch, or somebody changed rows by hand: report it with this list.",
        )
    if not json:
        print_line(coloured("ok"))


@cli.command()
def reset(yes: Yes = False, json: Json = False) -> None:
    """Remove the schema app with all jobs, and the catalog, and create both again."""
    from anabranch.adapters.postgres.schema.migrate import reset
    from anabranch.adapters.postgres.schema.pgstac import drop_catalog, migrate_catalog

    if not yes:
        raise UsageError(
            "database.unconfirmed",
            "`db reset` removes all jobs, their history and the catalog",
            remedy="Confirm with `--yes`.",
        )
    url = _url()
    applied = reset(url)  # it refuses a database of another application, so it comes first
    drop_catalog(url)
    _show(applied, json, migrate_catalog(url))


cli.command()(purge)
cli.add_typer(catalog_cli)


@cli.command()
def url(json: Json = False) -> None:
    """Print the database's URL, with its password if it has one."""
    found = _url()
    if json:
        print_json({"url": found})
    else:
        print_line(found)


def _describe_functions(found: "Status") -> str:
    if found.is_later:
        return "of a later release, not changed"
    return "current" if found.functions_current else "not current"


def _url() -> str:
    return database_url(prepare(quiet=True))


def _show(applied: "Applied", json: bool, catalog: "Catalog | None" = None) -> None:
    if json:
        print_json(asdict(applied) | ({"catalog": _describe(catalog)} if catalog else {}))
        return
    for migration in applied.migrations:
        print_line(f"applied {migration}")
    print_line("functions deployed" if applied.redeployed else "nothing to do")
    if catalog:
        print_line(f"catalog: {catalog}")
        _warn_if_no_catalog(catalog)


def _warn_if_no_catalog(catalog: "Catalog") -> None:
    """Warn that there is no usable catalog, and why; everything else works without one."""
    if not catalog.current:
        note(f"There is no catalog: {catalog.problem}. {catalog.remedy}")


def _describe(catalog: "Catalog") -> dict[str, object]:
    return {**asdict(catalog), "current": catalog.current}
