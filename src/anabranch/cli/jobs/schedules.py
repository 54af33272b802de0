"""`schedules`: jobs that are made by the clock, or for what comes into a folder."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.connection import connect
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.jobs.follow import call_as_declared
from anabranch.cli.jobs.parameters import JsonValue, Parameters, read_parameters
from anabranch.cli.terminal.options import Json, WorkflowName, Yes
from anabranch.cli.terminal.output import note, print_json, print_list, print_result, print_table
from anabranch.contract.schedules import BackfillTick, Schedule, ScheduleTick

__all__ = ["add", "backfill", "change", "history", "list_schedules", "pause", "remove", "resume", "run", "show"]

TICK_HEAD = ["scheduled_at", "kind", "state", "job", "status", "object", "reason"]
Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule's name.")]
Platform = Annotated[str | None, typer.Option(help="The platform it belongs to; by default your own.")]
Zone = Annotated[str | None, typer.Option("--timezone", metavar="ZONE", help="A time zone, like Europe/Berlin.")]
Overlap = Annotated[
    str | None,
    typer.Option(
        help="What happens to a tick while the job of an earlier one goes on: skip, queue or cancel_previous."
    ),
]
CatchUp = Annotated[
    str | None, typer.Option(help="Which of the ticks that were missed get a job: none, latest or all.")
]
Watch = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="In place of CRON: a folder whose new and changed objects get a job each."),
]
Pattern = Annotated[str | None, typer.Option(help="What the names of watched objects are like: '*.tif'.")]
Stable = Annotated[
    int | None, typer.Option(metavar="N", help="How long a watched object must be unchanged before it gets its job.")
]
Poll = Annotated[int | None, typer.Option(metavar="N", help="How long after a look at the folder the next one begins.")]
Existing = Annotated[
    str | None, typer.Option(help="Whether watched objects that were there before get jobs: skip or submit.")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "-p", "--param", metavar="KEY=VALUE", help="An input of its jobs: parsed as JSON if it is JSON, otherwise text."
    ),
]
InputsFile = Annotated[
    Path | None, typer.Option("--params", metavar="FILE", help="Inputs as JSON or YAML; - is stdin.")
]
When = Annotated[str, typer.Option(metavar="TIME", help="A time like 2026-01-31T06:00:00Z; without a zone it is UTC.")]


def list_schedules(
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of schedules.")] = 100, json: Json = False
) -> None:
    """List the schedules, the newest first, with their next ticks."""
    with connect() as client:
        found = list(islice(client.schedules.list(), limit))
    head = ["name", "platform", "workflow", "when", "timezone", "status", "next", "last", "state"]
    print_list(found, head, _row, json=json)


def show(schedule: Name, platform: Platform = None, json: Json = False) -> None:
    """Show a schedule."""
    with connect() as client:
        found = client.schedules.show(schedule, platform=platform)
    if json:
        print_json(found)
        return
    print_table(["field", "value"], [[name, value] for name, value in found.raw.items() if value not in (None, {})])


def add(
    schedule: Name,
    workflow: WorkflowName,
    cron: Annotated[
        str | None, typer.Argument(metavar="[CRON]", help="Minute, hour, day of month, month and day of week.")
    ] = None,
    timezone: Zone = None,
    param: Inputs = None,
    params: InputsFile = None,
    overlap: Overlap = None,
    catch_up: CatchUp = None,
    watch: Watch = None,
    pattern: Pattern = None,
    stable_seconds: Stable = None,
    poll_seconds: Poll = None,
    existing: Existing = None,
    platform: Platform = None,
    json: Json = False,
) -> None:
    """Add a schedule: with a cron expression, or with a folder to watch."""
    inputs = _read_inputs(param or (), params)
    with connect() as client:

        def send(values: Mapping[str, JsonValue]) -> Schedule:
            return client.schedules.add(
                schedule, workflow, cron, timezone=timezone, inputs=values, overlap=overlap, catch_up=catch_up,
                watch=watch, pattern=pattern, stable_seconds=stable_seconds, poll_seconds=poll_seconds,
                existing=existing, platform=platform,
            )  # fmt: skip

        made = call_as_declared(send, client, workflow, inputs)
    _print(made, json=json)


def change(
    schedule: Name,
    workflow: Annotated[str | None, typer.Option(help="Another workflow.")] = None,
    cron: Annotated[str | None, typer.Option(help="Minute, hour, day of month, month and day of week.")] = None,
    timezone: Zone = None,
    param: Inputs = None,
    params: InputsFile = None,
    overlap: Overlap = None,
    catch_up: CatchUp = None,
    watch: Watch = None,
    pattern: Pattern = None,
    stable_seconds: Stable = None,
    poll_seconds: Poll = None,
    existing: Existing = None,
    platform: Platform = None,
    json: Json = False,
) -> None:
    """Change what is given of a schedule; inputs replace all that it had."""
    inputs = _read_inputs(param or (), params)
    with connect() as client:

        def send(values: Mapping[str, JsonValue]) -> Schedule:
            return client.schedules.change(
                schedule, workflow=workflow, cron=cron, timezone=timezone,
                inputs=values if param or params else None, overlap=overlap, catch_up=catch_up, watch=watch,
                pattern=pattern, stable_seconds=stable_seconds, poll_seconds=poll_seconds, existing=existing,
                platform=platform,
            )  # fmt: skip

        known = workflow or client.schedules.show(schedule, platform=platform).workflow
        changed = call_as_declared(send, client, known, inputs)
    _print(changed, json=json)


def remove(schedule: Name, platform: Platform = None, yes: Yes = False, json: Json = False) -> None:
    """Remove a schedule with its history; its jobs stay."""
    with connect() as client:
        known = client.schedules.show(schedule, platform=platform)
        if not yes:
            what = f"schedule {known.name} of {known.platform} has a history, which is removed with it"
            raise UsageError("usage", what, remedy="Add --yes.")
        removed = client.schedules.remove(schedule, platform=platform)
    print_result(removed, f"removed {removed.name}", json=json)


def pause(schedule: Name, platform: Platform = None, json: Json = False) -> None:
    """Make no more jobs of a schedule until it is resumed."""
    with connect() as client:
        _print(client.schedules.pause(schedule, platform=platform), json=json)


def resume(schedule: Name, platform: Platform = None, json: Json = False) -> None:
    """Make jobs of a schedule again, from now on."""
    with connect() as client:
        _print(client.schedules.resume(schedule, platform=platform), json=json)


def run(schedule: Name, platform: Platform = None, json: Json = False) -> None:
    """Make a job of a schedule now."""
    with connect() as client:
        made = client.schedules.run(schedule, platform=platform)
    print_result(made, made.job_id or made.state, json=json)


def history(
    schedule: Name,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of ticks.")] = 50,
    platform: Platform = None,
    json: Json = False,
) -> None:
    """List the ticks of a schedule, the newest first, with their jobs."""
    with connect() as client:
        found = list(islice(client.schedules.history(schedule, platform=platform), limit))
    print_list(found, TICK_HEAD, _tick_row, json=json)


def backfill(
    schedule: Name,
    begin: When,
    end: When,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of ticks.")] = 100,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would run.")] = False,
    platform: Platform = None,
    json: Json = False,
) -> None:
    """Make the jobs of ticks of the past, one after another."""
    with connect() as client:
        made = client.schedules.backfill(
            schedule, _read_time(begin), _read_time(end), limit=limit, dry_run=dry_run, platform=platform
        )
    if json:
        print_json(made)
        return
    print_table(["scheduled_at", "before", "runs"], map(_backfill_row, made.ticks))
    note(f"{made.runs} of {len(made.ticks)} ticks {'would get' if made.dry_run else 'get'} a job")


def _read_inputs(given: Sequence[str], file: Path | None) -> Parameters:
    inputs = read_parameters(given, file)
    inputs.require_readable()
    if inputs.files:
        raise UsageError("usage", "a schedule takes no files", remedy="Upload them first and pass their addresses.")
    return inputs


def _read_time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError("usage", f"{text!r} is no time", remedy="Write one like 2026-01-31T06:00:00Z.") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _print(schedule: Schedule, *, json: bool) -> None:
    if schedule.watch and schedule.status == "active":
        following = f"it watches {schedule.watch}"
    else:
        following = "it makes no jobs" if schedule.next_at is None else f"next tick: {schedule.next_at.isoformat()}"
    print_result(schedule, f"{schedule.name} is {schedule.status}; {following}", json=json)


def _row(one: Schedule) -> list[object]:
    comes = f"{one.watch}/{one.pattern or '*'}" if one.watch else one.cron
    facts: list[object] = [one.name, one.platform, one.workflow, comes, one.timezone, one.status]
    return [*facts, one.next_at, one.last_at, one.last_state]


def _tick_row(one: ScheduleTick) -> list[object]:
    job = one.job_id and one.job_id[:12]
    return [one.scheduled_at, one.kind, one.state, job, one.job_status, one.object, one.reason]


def _backfill_row(one: BackfillTick) -> list[object]:
    return [one.scheduled_at, one.state, "yes" if one.runs else "no"]
