"""`db purge`: removes now what retention would remove later."""

import asyncio
import time
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from anabranch.app import open_purge
from anabranch.cli.connection import database_url
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.setup import prepare
from anabranch.cli.terminal.durations import parse_duration
from anabranch.cli.terminal.options import Json, Yes
from anabranch.cli.terminal.output import note, print_json, print_line
from anabranch.engine.ports import Survey
from anabranch.engine.sweeping.retention import Purge, Purged
from anabranch.settings import Settings

__all__ = ["purge"]


def purge(
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Remove jobs that ended longer ago than this, like 30d or 12h; by default `retention_days`.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be removed.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove jobs that ended long ago, and other records past their retention."""
    settings = prepare(quiet=True)
    age = parse_duration(older_than, code="database.age") if older_than else _default_age(settings)
    asyncio.run(_purge(settings, age, dry_run=dry_run, yes=yes, json=json))


async def _purge(settings: Settings, age: timedelta, *, dry_run: bool, yes: bool, json: bool) -> None:
    async with open_purge(settings, database_url(settings), age) as purge:
        survey = await purge.survey()
        if dry_run:
            print_json({"jobs": _count(survey), **asdict(survey)}) if json else print_line(_summarize(survey))
            return
        if not yes:
            raise UsageError("database.unconfirmed", _summarize(survey), remedy="Remove them with `--yes`.")
        purged = await _remove(purge, _count(survey))
    if json:
        print_json(asdict(purged))
        return
    for name, count in asdict(purged).items():
        print_line(f"{name:<10} {count}")


async def _remove(purge: Purge, jobs: int) -> Purged:
    """Purge batch by batch, and print the progress once a second."""
    total, said = Purged(), time.monotonic()
    async for done in purge.batches():
        total += done
        if time.monotonic() - said > 1:
            said = time.monotonic()
            note(f"{total.jobs} of {jobs} jobs, {total.rows} rows, {total.files} files")
    return total


def _count(survey: Survey) -> int:
    return survey.completed + survey.failed + survey.cancelled


def _summarize(survey: Survey) -> str:
    states = f"{survey.completed} completed, {survey.failed} failed, {survey.cancelled} cancelled"
    return f"jobs that would be removed: {_count(survey)} ({states}), with {survey.tasks} tasks"


def _default_age(settings: Settings) -> timedelta:
    if not settings.retention_days:
        raise UsageError(
            "database.age", "`retention_days` is 0, so jobs are kept forever", remedy="Give an age with `--older-than`."
        )
    return timedelta(days=settings.retention_days)
