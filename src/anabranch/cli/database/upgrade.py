"""`upgrade`: says what this version changes in the database, and changes it."""

from dataclasses import asdict
from typing import Annotated

import typer

from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.adapters.postgres.schema.pgstac import PGSTAC, Catalog, find_catalog, migrate_catalog
from anabranch.adapters.postgres.schema.upgrade import Upgrade, plan_upgrade
from anabranch.cli.connection import database_url
from anabranch.cli.setup import prepare
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import note, print_json, print_line
from anabranch.errors import Conflict

__all__ = ["upgrade"]


def upgrade(
    check: Annotated[bool, typer.Option("--check", help="Only say what would change; exit 6 if it can't be.")] = False,
    json: Json = False,
) -> None:
    """Migrate the database to this version, if the running processes can share it."""
    url = database_url(prepare(quiet=True))
    plan, catalog = plan_upgrade(url), find_catalog(url)
    _show(plan, catalog, json=json)
    if plan.status.problem:
        raise Conflict("database.newer", plan.status.problem, remedy="Use the version that made it, or a later one.")
    if wrong := plan.incompatible:
        raise Conflict(
            "upgrade.incompatible",
            f"processes that can't use release {plan.status.files_release} run: {', '.join(map(str, wrong))}",
            remedy="Stop them first (`anabranch down`, or their service), or upgrade by a version between.",
        )
    if check:
        return
    migrate(url)
    migrate_catalog(url)
    note("upgraded; now restart the processes, one after the other" if plan.processes else "upgraded")


def _show(plan: Upgrade, catalog: Catalog, *, json: bool) -> None:
    found = plan.status
    if json:
        processes = [{**asdict(one), "judgement": plan.judge(one)} for one in plan.processes]
        facts = {"release": found.release, "to": found.files_release, "oldest": plan.oldest, "current": found.current}
        changes = {"migrations": found.pending, "slow": plan.slow, "functions": not found.functions_current}
        print_json({**facts, **changes, "pgstac": catalog.pgstac, "processes": processes})
        return
    print_line(
        f"release    {found.release or 'none'} to {found.files_release}, for processes of {plan.oldest} and later"
    )
    print_line(f"applies    {', '.join(found.pending) or 'no migration'}")
    print_line(f"functions  {'stay' if found.functions_current or found.is_later else 'are replaced, all at once'}")
    print_line(f"catalog    pgstac {catalog.pgstac or 'none'} to {PGSTAC}")
    for one in plan.processes:
        built = one.schema_release or "unknown"
        print_line(f"process    {one}, built for release {built}: {plan.judge(one)}")
    for name in plan.slow:
        note(f"{name} runs beside all others, and may take long on large tables")
