"""`db catalog`: the catalog held against what is published, and made anew from it."""

from dataclasses import asdict

import typer

from anabranch.cli.connection import database_url
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.options import Json, Yes
from anabranch.cli.setup import prepare
from anabranch.cli.show import coloured, print_json, print_line
from anabranch.errors import Conflict

__all__ = ["cli"]

cli = typer.Typer(name="catalog", help="Hold the catalog against what is published, and make it anew.")


@cli.command()
def check(json: Json = False) -> None:
    """Prove that the catalog is what is published."""
    from anabranch.adapters.postgres.connect import connect
    from anabranch.adapters.postgres.pgstac import require_catalog
    from anabranch.plugins.stac.renewal import check

    url = database_url(prepare(quiet=True))
    require_catalog(url)
    with connect(url, None, name="anabranch catalog") as connection:
        differences = check(connection)
    if json:
        print_json([asdict(difference) for difference in differences])
    else:
        print_line("\n".join(map(str, differences)) or coloured("ok"))
    if differences:
        raise Conflict(
            "catalog.differs",
            f"the catalog differs from what is published in {len(differences)} places",
            remedy="Make it anew with `anabranch db catalog rebuild --yes`.",
        )


@cli.command()
def rebuild(yes: Yes = False, json: Json = False) -> None:
    """Empty the catalog and fill it from what is published."""
    from anabranch.adapters.postgres.connect import connect
    from anabranch.adapters.postgres.migrate import migrate
    from anabranch.adapters.postgres.pgstac import migrate_catalog, require_catalog
    from anabranch.plugins.stac.renewal import rebuild

    if not yes:
        raise UsageError(
            "catalog.unconfirmed",
            "`db catalog rebuild` empties the catalog before it fills it",
            remedy="Say so with `--yes`.",
        )
    url = database_url(prepare(quiet=True))
    migrate(url)
    migrate_catalog(url)
    require_catalog(url)
    with connect(url, None, name="anabranch catalog") as connection:
        rebuilt = rebuild(connection)
    if json:
        print_json(asdict(rebuilt))
    else:
        print_line(f"{rebuilt.items} items in {rebuilt.collections} collections")
