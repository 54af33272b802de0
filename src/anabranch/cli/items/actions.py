"""`items`: the way back: history, unpublish, restore, rollback and replace."""

from functools import partial
from typing import Annotated

import typer

from anabranch.cli.connection import connect
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.items.items import ItemName, split_name
from anabranch.cli.jobs.follow import call_as_declared, follow, note_existing, print_end
from anabranch.cli.jobs.parameters import read_parameters
from anabranch.cli.jobs.uploads import Uploads
from anabranch.cli.terminal.options import Json, ParameterList, Timeout, Yes
from anabranch.cli.terminal.output import (
    ago,
    format_size,
    print_json,
    print_line,
    print_list,
    print_result,
    print_table,
)
from anabranch.client import ItemChange, Publication
from anabranch.contract.catalog import choose_workflow

__all__ = [
    "remove_collection",
    "replace",
    "restore",
    "rollback",
    "show_history",
    "show_item",
    "show_writers",
    "unpublish",
]

Reason = Annotated[str, typer.Option(help="Why; stored in the item's history.")]
Expected = Annotated[
    int | None, typer.Option(metavar="NUMBER", help="Refuse if this is not the item's newest number any more.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, and show what would be done.")]


def show_item(item: ItemName, json: Json = False) -> None:
    """Show a published item: its number, its files, and the job that made it."""
    with connect() as client:
        found = client.published_item(*split_name(item))
        document = client.item(*split_name(item))
    if json:
        print_json({**found.raw, "item": document.raw})
        return
    for name, value in {
        "item": f"{found.collection}/{found.id}", "time": document.time, "number": found.number, "job": found.job_id,
        "published": ago(found.published_at),
    }.items():  # fmt: skip
        print_line(f"{name:10}{value}")
    width = max([9, *map(len, document.assets)])
    for name, asset in document.assets.items():
        print_line(f"{name:{width}} {asset.get('href')}")


def show_history(item: ItemName, json: Json = False) -> None:
    """Show the history of an item: what was done, by whom, when and why."""
    with connect() as client:
        found = list(client.publications(*split_name(item)))
    print_list(found, ["number", "action", "shows", "when", "by", "kept", "reason"], _row, json=json)


def unpublish(
    item: ItemName,
    reason: Reason,
    expected: Expected = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Withdraw an item from its readers, with its files; it can be restored for a while."""
    name = split_name(item)
    with connect() as client:
        found = client.unpublish(*name, reason, expected=expected, dry_run=True)
        if not dry_run and not yes:
            what = f"{item} would be withdrawn; objects: {found.objects}, {format_size(found.bytes)}"
            raise UsageError("items.unconfirmed", what, remedy="Look at it with `--dry-run`, and confirm with `--yes`.")
        if not dry_run:
            found = client.unpublish(*name, reason, expected=expected, confirm=True)
    _show(found, json=json)


def restore(
    item: ItemName, reason: Reason, expected: Expected = None, dry_run: DryRun = False, json: Json = False
) -> None:
    """Show an item again as it was before it was withdrawn."""
    with connect() as client:
        _show(client.restore(*split_name(item), reason, expected=expected, dry_run=dry_run), json=json)


def rollback(
    item: ItemName,
    reason: Reason,
    to: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Show this number again; without it, what was shown before.")
    ] = None,
    expected: Expected = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Show what a former publication of an item showed."""
    with connect() as client:
        found = client.rollback(*split_name(item), reason, number=to, expected=expected, dry_run=dry_run)
        _show(found, json=json)


def replace(
    item: ItemName,
    reason: Reason,
    param: ParameterList = None,
    workflow: Annotated[
        str | None, typer.Option(metavar="WORKFLOW", help="One with the inputs collection, item_id and reason.")
    ] = None,
    expected: Expected = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the job to end; exit 7 if it failed.")] = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Submit a job that makes new content for an item; the former stays readable at its own address for a while."""
    name, given = split_name(item), read_parameters(param or (), None)
    given.require_readable()
    with connect() as client:
        client.published_item(*name)  # before a file is sent
        workflow = workflow or choose_workflow(client.item(*name).raw)
        send = partial(client.replace, *name, reason=reason, workflow=workflow, expected=expected)
        submitted = call_as_declared(send, client, workflow, given.send_files(Uploads(client, quiet=json)))
        if wait or timeout is not None:
            print_end(client, follow(client, submitted.job_id, timeout, json=json), json=json)
        elif json:
            print_json(submitted)
        else:
            note_existing(submitted)
            print_line(submitted.job_id)


def remove_collection(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help="A collection without items.")],
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove a collection that has no items."""
    if not yes:
        what = f"this removes collection {collection} with its title, description and license"
        raise UsageError("items.unconfirmed", what, remedy="Confirm with `--yes`.")
    with connect() as client:
        removed = client.remove_collection(collection)
    print_result(removed.raw, f"removed collection {removed.collection}", json=json)


def show_writers(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help="A collection.")],
    add: Annotated[str | None, typer.Option(metavar="PLATFORM", help="Let this platform publish into it.")] = None,
    remove: Annotated[str | None, typer.Option(metavar="PLATFORM", help="Let it no longer do so.")] = None,
    json: Json = False,
) -> None:
    """Show or change the platforms that may publish into a collection."""
    with connect() as client:
        found = client.collection_writers(collection)
        if add:
            found = client.add_writer(collection, add)
        if remove:
            found = client.remove_writer(collection, remove)
    said = f"{found.collection} belongs to {found.platform}; writers: {', '.join(found.writers) or 'none'}"
    print_result(found.raw, said, json=json)


def _row(one: Publication) -> list[str]:
    return [
        f"{one.number}{' *' if one.current else ''}", one.action, "-" if one.shows is None else str(one.shows),
        ago(one.at), one.actor, _spell_kept(one), one.reason or "",
    ]  # fmt: skip


def _spell_kept(one: Publication) -> str:
    """Whether the content that a publication shows is kept; a withdrawal shows none."""
    return "-" if one.shows is None else "yes" if one.available else "no"


def _show(change: ItemChange, *, json: bool) -> None:
    if json:
        print_json(change.raw)
        return
    print_table(["file", "size", "address"], ([f.name, format_size(f.size), f.address] for f in change.files))
    name, would = f"{change.collection}/{change.id}", change.dry_run
    if change.shows is None:
        print_line(f"{name} {'would not be' if would else 'is not'} published (publication {change.number})")
    else:
        shows = f"{'would show' if would else 'shows'} the content of publication {change.shows}"
        print_line(f"{name}: publication {change.number} {shows}")
    if change.restorable_days:
        print_line(f"it can be restored for {change.restorable_days} days")
