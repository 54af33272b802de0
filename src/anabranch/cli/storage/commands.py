"""`storage`: the objects of the tiers; needs only the settings, no running stack."""

from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress
from itertools import chain, islice
from typing import Annotated

import typer

from anabranch.adapters.postgres.snapshot import hold_removals
from anabranch.adapters.postgres.store.objects.audited import PostgresRecords
from anabranch.app import open_marks, open_tiers
from anabranch.canonical import JsonObject
from anabranch.cli.connection import database_url
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.setup import prepare
from anabranch.cli.storage.require_unpublished import open_catalog
from anabranch.cli.terminal.durations import parse_duration
from anabranch.cli.terminal.options import All, Json, Yes
from anabranch.cli.terminal.output import note, print_json, print_result, print_row, print_table
from anabranch.errors import Conflict, NotFound
from anabranch.storage.addresses import parse_address, parse_folder
from anabranch.storage.audit import Audit, Finding
from anabranch.storage.marks import adopt_storage
from anabranch.storage.tiers import Stat, Storage

__all__ = ["adopt", "audit", "ls", "rm", "stat"]


BATCH_OBJECTS = 1_000
Object = Annotated[str, typer.Argument(metavar="ADDRESS", help="An object, like bronze://uploads/dem.tif.")]


def ls(
    folder: Annotated[str, typer.Argument(metavar="ADDRESS", help="A tier or a folder in it, like silver://jobs.")],
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of objects.")] = 1_000,
    after: Annotated[str, typer.Option(metavar="ADDRESS", help="Start after this address.")] = "",
    all: All = False,
    json: Json = False,
) -> None:
    """List the objects below a folder, sorted by name; for an object's own address, that object."""
    storage, tier = _open(), parse_folder(folder).tier
    if all:
        for found in chain(_find_object(storage, folder), storage.walk(folder)):
            print_json(_to_json(tier, found), indent=None)
        return
    start = parse_address(after).path if after else ""
    own = [found for found in _find_object(storage, folder) if found.key > start]
    page = [*own, *storage.list(folder, after=start, limit=limit + 1)][: limit + 1]
    shown = [_to_json(tier, found) for found in page[:limit]]
    if json:
        print_json(shown)
    else:
        print_table(("size", "modified", "address"), ([row["size"], row["modified"], row["address"]] for row in shown))
    if len(page) > limit:
        note(f"next page: --after '{shown[-1]['address']}'")


def stat(address: Object, json: Json = False) -> None:
    """Show the size, the modification time and the tag of an object."""
    at = parse_address(address)
    facts = _to_json(at.tier, _open().stat(at))
    if json:
        print_json(facts)
        return
    for name, value in facts.items():
        print_row((name, value), (10, 0))


def rm(
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS...", help="Objects; folders with --recursive.")],
    recursive: Annotated[bool, typer.Option("--recursive", help="Remove everything below each folder.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove objects permanently."""
    storage = _open()
    with open_catalog() as require_unpublished:
        for address in addresses:
            for batch in _find_batches(storage, address, recursive=recursive):
                require_unpublished([f"{parse_folder(address).tier}://{key}" for key in batch])
    removed = sum(_remove(storage, address, recursive=recursive, yes=yes) for address in addresses)
    if not yes:
        raise UsageError(
            "storage.unconfirmed", f"objects that would be removed: {removed}", remedy="Remove them with `--yes`."
        )
    print_result({"removed": removed}, f"removed {removed}", json=json)


def audit(
    sweep: Annotated[bool, typer.Option("--sweep", help="Remove unreferenced objects.")] = False,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="Sweep only objects older than this.")] = "1h",
    checksums: Annotated[
        bool, typer.Option("--checksums", help="Read all published objects and compare their checksums.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Compare the tiers with the database: find missing and unreferenced objects."""
    age = parse_duration(older_than)
    if sweep and not yes:
        raise UsageError("storage.unconfirmed", "`--sweep` removes objects permanently")
    settings = prepare(quiet=True)
    url = database_url(settings)
    with (
        hold_removals(url) if sweep else nullcontext(),
        closing(PostgresRecords(url)) as records,
    ):  # a backup may name them
        checking = Audit(open_tiers(settings), records)
        found = list(checking.find(checksums=checksums))
        swept = checking.sweep(found, age) if sweep else 0
    _report(found, swept, json=json)


def adopt(yes: Yes = False, json: Json = False) -> None:
    """Register the configured tiers and work area as those of the database, after they were moved or emptied."""
    if not yes:
        raise UsageError("storage.unconfirmed", "after `adopt`, processes that use another store can't start")
    settings = prepare(quiet=True)
    done = adopt_storage(*open_marks(settings, database_url(settings)))
    if json:
        print_json(done)
    else:
        print_table(("area", "result"), done.items())


def _report(found: list[Finding], swept: int, *, json: bool) -> None:
    if json:
        rows = [{"fault": one.fault, "address": one.address, "size": one.size} for one in found]
        print_json({"findings": rows, "swept": swept})
    elif found:
        print_table(("fault", "size", "address"), ([one.fault, one.size, one.address] for one in found))
    if not json:
        note(f"{len(found)} findings, {swept} swept" if found else "the database and the tiers agree")
    lost = sum(not one.is_unreferenced for one in found)
    if lost:
        raise Conflict("storage.lost", f"published objects or task results that are missing or damaged: {lost}")


def _open() -> Storage:
    return open_tiers(prepare(quiet=True))


def _find_object(storage: Storage, folder: str) -> list[Stat]:
    """The object at exactly this address, if there is one."""
    at = parse_folder(folder)
    with suppress(NotFound):
        return [storage.tier(at.tier).stat(at.path)] if at.path else []
    return []


def _to_json(tier: str, found: Stat) -> JsonObject:
    modified = found.modified.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"address": f"{tier}://{found.key}", "size": found.size, "modified": modified, "tag": found.tag}


def _remove(storage: Storage, address: str, *, recursive: bool, yes: bool) -> int:
    """Remove an object, or all below a folder in batches; returns the count. Without `yes`, only counts."""
    tier, removed = parse_folder(address).tier, 0
    for batch in _find_batches(storage, address, recursive=recursive):
        removed += len(batch)
        if yes:
            storage.tier(tier).delete(batch)
    return removed


def _find_batches(storage: Storage, address: str, *, recursive: bool) -> Iterator[list[str]]:
    """The keys of an object, or of all below a folder."""
    if not recursive:
        _require_object(storage, address)
        yield [parse_address(address).path]
        return
    found = storage.walk(address)
    while batch := [each.key for each in islice(found, BATCH_OBJECTS)]:
        yield batch


def _require_object(storage: Storage, address: str) -> None:
    """Refuse an address that is not an object; for a folder, name the option it needs."""
    if _find_object(storage, address) and not address.endswith("/"):
        return
    if storage.list(address, limit=1):
        raise UsageError("usage", f"{address} is a folder", remedy="Remove everything below it with `--recursive`.")
    storage.stat(address)
