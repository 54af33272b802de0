"""`items`: what is published."""

from functools import partial
from itertools import islice
from typing import Annotated

import typer

from anabranch.cli.connection import connect
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import ago, escape, note, print_json, print_list
from anabranch.contract.catalog import PublishedItem

__all__ = ["ItemName", "list_items", "print_manifest", "split_name"]

ItemName = Annotated[str, typer.Argument(metavar="COLLECTION/ITEM", help="The item.")]


def list_items(
    collection: Annotated[str | None, typer.Option(help="Only of this collection.")] = None,
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Only those that this job published.")] = None,
    made_by: Annotated[
        str | None, typer.Option(metavar="HANDLER", help="Only those that this handler took part in.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Only by versions of that handler before this one.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of items.")] = 100,
    json: Json = False,
) -> None:
    """List published items with the job and the handlers that made them."""
    if older_than is not None and made_by is None:
        raise UsageError("usage", "--older-than needs a handler", remedy="Add --made-by HANDLER.")
    with connect() as client:
        job_id = None if job is None else client.job(job).job_id
        found = client.published_items(collection, job_id=job_id, made_by=made_by, older_than=older_than)
        items = list(islice(found, limit + 1))
    print_list(items[:limit], ["item", "job", "published", "made by"], partial(_row, made_by=made_by), json=json)
    if collection is not None and not items:
        note(f"collection {escape(repr(collection))} has no such items; `anabranch items list` shows those of all")
    if len(items) > limit:
        note(f"there are more than {limit}: raise --limit")


def print_manifest(item: ItemName) -> None:
    """Print the signed manifest of an item: what it was made from, and by what."""
    with connect() as client:
        print_json(client.manifest(*split_name(item)).raw)


def split_name(name: str) -> tuple[str, str]:
    """The collection and the id of COLLECTION/ITEM."""
    collection, _, item = name.partition("/")
    if not (collection and item):
        raise UsageError("usage", f"{name!r} is not COLLECTION/ITEM", remedy="`anabranch items list` shows the names.")
    return collection, item


def _row(item: PublishedItem, made_by: str | None) -> list[str]:
    handlers = _spell_handlers(item, made_by)
    return [f"{item.collection}/{item.id}", item.job_id[:12], ago(item.published_at), handlers]


def _spell_handlers(item: PublishedItem, only: str | None) -> str:
    shown = item.handlers if only is None else {only: item.handlers.get(only, ())}
    return ", ".join(f"{name} {'/'.join(versions)}" for name, versions in sorted(shown.items()))
