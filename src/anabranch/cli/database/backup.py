"""`backup` and `restore`: the database and the tiers, together."""

import time
from pathlib import Path
from typing import Annotated

import typer

from anabranch.backup.manifest import Content, Manifest
from anabranch.backup.restore import restore_backup, verify_backup
from anabranch.backup.write import write_backup
from anabranch.cli.connection import database_url
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.setup import prepare
from anabranch.cli.stack.start import interrupt_on_signals
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import format_size, note, print_json, print_line
from anabranch.settings import Settings
from anabranch.storage.locations import TIERS

__all__ = ["backup", "restore"]

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the backup.")]


def backup(
    folder: Folder,
    without: Annotated[
        list[str] | None, typer.Option(metavar="TIER", help="Leave out a tier whose objects are kept elsewhere.")
    ] = None,
    json: Json = False,
) -> None:
    """Back up the database and the tiers into a new folder, while everything runs."""
    if unknown := set(without or ()) - set(TIERS):
        raise UsageError("storage.tier", f"there is no tier {min(unknown)!r}", remedy=f"Tiers: {', '.join(TIERS)}.")
    settings = prepare(quiet=True)
    url = database_url(settings)
    with interrupt_on_signals():
        written = write_backup(settings, url, folder.absolute(), without=without or (), progress=_Progress())
    if json:
        print_json({**written.manifest.model_dump(mode="json"), "missing": written.missing_count})
    else:
        _show(written.manifest, folder)
    if written.missing_count:
        listed = ", ".join(written.missing)
        note(f"warning: {written.missing_count} objects that the database names are lost or damaged: {listed}")
        note("`anabranch storage audit --checksums` lists all of them")


def restore(
    folder: Folder,
    check: Annotated[bool, typer.Option("--check", help="Only read the whole backup, and change nothing.")] = False,
    overwrite: Annotated[
        Path | None, typer.Option(metavar="HOME", help="Overwrite the database and tiers of this home.")
    ] = None,
    json: Json = False,
) -> None:
    """Restore a backup into an empty home; its stack must be down."""
    settings = prepare(quiet=True)
    if check:
        manifest = verify_backup(folder.absolute())
    else:
        _require_named(settings, overwrite)
        with interrupt_on_signals():
            manifest = restore_backup(settings, folder.absolute(), overwrite=overwrite is not None, progress=note)
    if json:
        print_json(manifest.model_dump(mode="json"))
        return
    _show(manifest, folder)
    note("the backup is whole" if check else f"restored into {settings.home}; start it with `anabranch up --detach`")


def _require_named(settings: Settings, overwrite: Path | None) -> None:
    if overwrite is not None and overwrite.expanduser().resolve() != settings.home.resolve():
        raise UsageError(
            "restore.other_home", f"`--overwrite` names {overwrite}, and the home is {settings.home}",
            remedy="Set ANABRANCH_HOME to the home to restore into, and name the same one.",
        )  # fmt: skip


def _show(manifest: Manifest, folder: Path) -> None:
    print_line(f"backup    {folder}")
    print_line(f"made at   {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC by {manifest.version}")
    print_line(f"database  release {manifest.release} on PostgreSQL {manifest.postgres}")
    for area, content in manifest.areas.items():
        print_line(f"{area:<9} {content.objects} objects, {format_size(content.bytes)}")
    for area in manifest.without:
        print_line(f"{area:<9} left out")


class _Progress:
    """Notes how far a backup is, once a second."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def __call__(self, area: str, content: Content) -> None:
        if time.monotonic() - self._said > 1:
            self._said = time.monotonic()
            note(f"{area}: {content.objects} objects, {format_size(content.bytes)}")
