"""`storage`: the objects of the tiers, by the settings alone; nothing needs to run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli.connection import database_url
from anabranch.cli.durations import parse_duration
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.options import All, Json, Yes
from anabranch.cli.setup import prepare
from anabranch.cli.show import note, print_json, print_line, print_row, print_table

if TYPE_CHECKING:
    from anabranch.audit import Finding
    from anabranch.storage.tiers import Stat, Storage

__all__ = ["cli"]

cli = typer.Typer(name="storage", help="List, copy, remove and audit the objects of the tiers.")

BATCH_OBJECTS = 1_000
Object = Annotated[str, typer.Argument(metavar="ADDRESS", help="An object, like bronze://uploads/dem.tif.")]
FileOrAddress = Annotated[str, typer.Argument(help="A file, or the address of an object.")]


@cli.command()
def ls(
    folder: Annotated[str, typer.Argument(metavar="ADDRESS", help="A tier or a folder of it, like silver://jobs.")],
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 1_000,
    after: Annotated[str, typer.Option(metavar="ADDRESS", help="Go on behind this one.")] = "",
    all: All = False,
    json: Json = False,
) -> None:
    """List the objects below a folder, in the order of their names; of an object's own address, that object."""
    from itertools import chain

    from anabranch.storage.addresses import parse_address, parse_folder

    storage, tier = _open(), parse_folder(folder).tier
    if all:
        for found in chain(_itself(storage, folder), storage.walk(folder)):
            print_json(_tell(tier, found), indent=None)
        return
    start = parse_address(after).path if after else ""
    own = [found for found in _itself(storage, folder) if found.key > start]
    page = [*own, *storage.list(folder, after=start, limit=limit + 1)][: limit + 1]
    shown = [_tell(tier, found) for found in page[:limit]]
    if json:
        print_json(shown)
    else:
        print_table(("size", "modified", "address"), ([row["size"], row["modified"], row["address"]] for row in shown))
    if len(page) > limit:
        note(f"There are more: --after '{shown[-1]['address']}'")


@cli.command()
def stat(address: Object, json: Json = False) -> None:
    """Show what is known of an object."""
    from anabranch.storage.addresses import parse_address

    at = parse_address(address)
    told = _tell(at.tier, _open().stat(at))
    if json:
        print_json(told)
        return
    for name, value in told.items():
        print_row((name, value), (10, 0))


@cli.command()
def cp(
    source: FileOrAddress,
    target: FileOrAddress,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    json: Json = False,
) -> None:
    """Copy an object, from or to a file or from tier to tier, and print where it is and its SHA-256."""
    if "://" not in source and "://" not in target:
        raise UsageError("usage", "neither is an address", remedy="Give one of them like silver://path.")
    size, digest = _copy(_open(), source, target, overwrite=overwrite)
    if json:
        print_json({"address": target, "size": size, "sha256": digest})
    else:
        print_line(f"{digest}  {target}")


@cli.command()
def rm(
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS...", help="Objects; with --recursive folders.")],
    recursive: Annotated[bool, typer.Option("--recursive", help="All that is below each of them.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove objects for good."""
    storage = _open()
    removed = sum(_remove(storage, address, recursive=recursive, yes=yes) for address in addresses)
    if not yes:
        raise UsageError("storage.unconfirmed", f"objects that would go: {removed}", remedy="Remove them with `--yes`.")
    print_json({"removed": removed}) if json else print_line(f"removed {removed}")


@cli.command()
def audit(
    sweep: Annotated[bool, typer.Option("--sweep", help="Remove what nothing refers to.")] = False,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="Sweep only what is so old.")] = "1h",
    checksums: Annotated[bool, typer.Option("--checksums", help="Read all that is published, and compare.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Compare the tiers with the database: what is published and gone, and what is there and nobody's."""
    from anabranch.adapters.postgres.records import PostgresRecords
    from anabranch.app import open_tiers
    from anabranch.audit import Audit

    if (age := parse_duration(older_than)) is None:
        raise UsageError("usage", f"{older_than!r} is not an age", remedy="Write it as 30d, 12h, 45m or 30s.")
    if sweep and not yes:
        raise UsageError("storage.unconfirmed", "`--sweep` removes objects for good", remedy="Say so with `--yes`.")
    settings = prepare(quiet=True)
    with PostgresRecords(database_url(settings)) as records:
        checking = Audit(open_tiers(settings), records)
        found = list(checking.find(checksums=checksums))
    swept = checking.sweep(found, age) if sweep else 0
    _report(found, swept, json=json)


@cli.command()
def adopt(yes: Yes = False, json: Json = False) -> None:
    """Make the tiers and the work area of these settings those of the database, after they were moved or emptied."""
    from anabranch.app import open_marks
    from anabranch.storage.marks import adopt_storage

    if not yes:
        raise UsageError(
            "storage.unconfirmed",
            "processes that use another store don't start any more after `adopt`",
            remedy="Say so with `--yes`.",
        )
    settings = prepare(quiet=True)
    done = adopt_storage(*open_marks(settings, database_url(settings)))
    if json:
        print_json(done)
    else:
        print_table(("area", "result"), done.items())


def _report(found: "list[Finding]", swept: int, *, json: bool) -> None:
    from anabranch.errors import Conflict

    if json:
        rows = [{"fault": one.fault, "address": one.address, "size": one.size} for one in found]
        print_json({"findings": rows, "swept": swept})
    elif found:
        print_table(("fault", "size", "address"), ([one.fault, one.size, one.address] for one in found))
    if not json:
        note(f"{len(found)} findings, {swept} swept" if found else "rows and objects agree")
    lost = sum(not one.can_go for one in found)
    if lost:
        raise Conflict(
            "storage.lost",
            f"objects that are published, or results of tasks, and are gone or damaged: {lost}",
            remedy="Bring them back from a backup, or publish their sources again with `--rerun`.",
        )


def _open() -> "Storage":
    from anabranch.app import open_tiers

    return open_tiers(prepare(quiet=True))


def _itself(storage: "Storage", folder: str) -> "list[Stat]":
    """The object of this very address, if there is one."""
    from contextlib import suppress

    from anabranch.errors import NotFound
    from anabranch.storage.addresses import parse_folder

    at = parse_folder(folder)
    with suppress(NotFound):
        return [storage.tier(at.tier).stat(at.path)] if at.path else []
    return []


def _tell(tier: str, found: "Stat") -> dict[str, Any]:
    modified = found.modified.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"address": f"{tier}://{found.key}", "size": found.size, "modified": modified, "tag": found.tag}


def _copy(storage: "Storage", source: str, target: str, *, overwrite: bool) -> tuple[int, str]:
    if "://" not in source:
        return _upload(storage, Path(source), target, overwrite=overwrite)
    if "://" not in target:
        return _download(storage, source, Path(target), overwrite=overwrite)
    from tempfile import TemporaryDirectory

    home = prepare(quiet=True).home  # /tmp may be memory
    home.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=home) as folder:
        spool = Path(folder) / "object"
        storage.download(source, spool)
        return _upload(storage, spool, target, overwrite=overwrite)


def _upload(storage: "Storage", file: Path, target: str, *, overwrite: bool) -> tuple[int, str]:
    from mimetypes import guess_type

    from anabranch.errors import InputError, NotFound

    try:
        stored = storage.upload(target, file, if_absent=not overwrite, media_type=guess_type(target)[0])
    except FileNotFoundError:
        raise NotFound("file.not_found", f"there is no file {file}", remedy="Name one that is there.") from None
    except OSError as error:
        raise InputError("upload.unreadable", f"{file} can't be read: {error.strerror}") from None
    return stored.size, stored.sha256


def _download(storage: "Storage", source: str, file: Path, *, overwrite: bool) -> tuple[int, str]:
    """Write aside and rename, so that a file is whole or not there (W7)."""
    from anabranch.errors import Conflict, Unavailable
    from anabranch.storage.addresses import parse_address

    place = file / parse_address(source).name if file.is_dir() else file
    if place.exists() and not overwrite:
        raise Conflict("storage.exists", f"there is a file {place} already", remedy="Replace it with `--overwrite`.")
    aside = place.with_name(f".{place.name[:200]}.part")
    try:
        got = storage.download(source, aside)
        aside.replace(place)
    except OSError as error:
        raise Unavailable("storage.unwritable", f"{place} can't be written: {error.strerror}") from None
    finally:
        aside.unlink(missing_ok=True)
    return got.stat.size, got.sha256


def _remove(storage: "Storage", address: str, *, recursive: bool, yes: bool) -> int:
    """Remove an object or all below a folder, batch by batch; how many, also where it is only counted."""
    from itertools import islice

    from anabranch.storage.addresses import parse_address, parse_folder

    if not recursive:
        _require_object(storage, address)
        if yes:
            storage.delete([parse_address(address)])
        return 1
    tier, removed = parse_folder(address).tier, 0
    found = storage.walk(address)
    while batch := [each.key for each in islice(found, BATCH_OBJECTS)]:
        removed += len(batch)
        if yes:
            storage.tier(tier).delete(batch)
    return removed


def _require_object(storage: "Storage", address: str) -> None:
    """Refuse what is no object; a folder with the option that it needs."""
    if _itself(storage, address) and not address.endswith("/"):
        return
    if storage.list(address, limit=1):
        raise UsageError("usage", f"{address} is a folder", remedy="Remove all that is below it with `--recursive`.")
    storage.stat(address)
