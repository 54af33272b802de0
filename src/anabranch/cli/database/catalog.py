"""`db catalog`: compares the catalog with what is published, and rebuilds it."""

from dataclasses import asdict

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.adapters.postgres.schema.pgstac import migrate_catalog, require_catalog
from anabranch.cli.connection import database_url
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.setup import prepare
from anabranch.cli.terminal.options import Json, Yes
from anabranch.cli.terminal.output import print_findings, print_result
from anabranch.errors import Conflict
from anabranch.plugins.stac.pgstac.rebuild import check, rebuild

__all__ = ["check_catalog", "rebuild_catalog"]


def check_catalog(json: Json = False) -> None:
    """Check that the catalog matches what is published."""
    url = database_url(prepare(quiet=True))
    require_catalog(url)
    with connect(url, None, name="anabranch catalog") as connection:
        differences = check(connection)
    print_findings(differences, json=json)
    if differences:
        raise Conflict("catalog.differs", f"the catalog differs from what is published in {len(differences)} places")


def rebuild_catalog(yes: Yes = False, json: Json = False) -> None:
    """Empty the catalog and fill it from what is published."""
    if not yes:
        raise UsageError("catalog.unconfirmed", "`db catalog rebuild` empties the catalog before it fills it again")
    url = database_url(prepare(quiet=True))
    migrate(url)
    migrate_catalog(url)
    require_catalog(url)
    with connect(url, None, name="anabranch catalog") as connection:
        rebuilt = rebuild(connection)
    print_result(asdict(rebuilt), f"{rebuilt.items} items in {rebuilt.collections} collections", json=json)
