"""Writes a backup while everything runs."""

import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlsplit

from anabranch.adapters.postgres.schema.pgstac import find_catalog
from anabranch.adapters.postgres.snapshot import hold_removals, open_snapshot
from anabranch.app import open_tiers
from anabranch.backup.archive import DUMP, KEYS, OBJECTS, Archive, Copied, line_of
from anabranch.backup.manifest import Content, Manifest, Part, write_manifest
from anabranch.backup.named_objects import NamedObjects
from anabranch.backup.postgres_programs import TablesMoved, dump
from anabranch.errors import Conflict, InputError, NotFound
from anabranch.settings import Settings
from anabranch.storage.locations import AREAS
from anabranch.storage.tiers import Stat, Tier

__all__ = ["KEY_NAMES", "Written", "key_files", "write_backup"]

NAMED = ".named"
KEY_NAMES = ("signing-key.pem", "webhook-key")
MAX_TRIES = 3
MAX_LISTED = 20


class Written:
    """A backup that was written, and the objects that the database names and no tier has."""

    def __init__(self, manifest: Manifest, missing: Sequence[str], missing_count: int) -> None:
        """`missing` are the first of them."""
        self.manifest = manifest
        self.missing = missing
        self.missing_count = missing_count


Progress = Callable[[str, Content], None]


def write_backup(
    settings: Settings, url: str, folder: Path, *, without: Sequence[str] = (), progress: Progress = lambda *_: None
) -> Written:
    """Write a backup into a folder that is empty or does not exist; on failure nothing is left of it."""
    _require_empty(settings, folder)
    archive = Archive(folder)
    existed = folder.exists()
    try:
        archive.make()
        with hold_removals(url) as require_held, NamedObjects(folder / NAMED) as named:
            return _write(archive, settings, url, without, named, progress, require_held)
    except BaseException:
        _empty(folder) if existed else shutil.rmtree(folder, ignore_errors=True)
        raise


def key_files(settings: Settings) -> Mapping[str, Path]:
    """The files of the keys that seal secrets and sign manifests, by their names in a backup."""
    return dict(zip(KEY_NAMES, (settings.signing_key_file, settings.webhook_key_file), strict=True))


def _write(
    archive: Archive,
    settings: Settings,
    url: str,
    without: Sequence[str],
    named: NamedObjects,
    progress: Progress,
    require_held: Callable[[], None],
) -> Written:
    made_at = datetime.now(UTC)
    parts, release, postgres = _dump_patiently(archive, url, named, without)
    areas: dict[str, Content] = {}
    tiers = {area: tier for area, tier in open_tiers(settings).areas.items() if area not in without}
    lines = _copy_all(archive, tiers, named, areas, progress)
    parts += [archive.write_part(OBJECTS, lines), *_copy_keys(archive, settings)]
    archive.sync()
    missing, count = named.missing(MAX_LISTED)
    manifest = Manifest(
        id=secrets.token_hex(16), made_at=made_at, version=version("anabranch"), release=release, postgres=postgres,
        catalog=find_catalog(url).current, areas=areas, without=list(without), parts=parts,
    )  # fmt: skip
    require_held()
    write_manifest(archive.folder, manifest)
    return Written(manifest, missing, count)


def _dump_patiently(
    archive: Archive, url: str, named: NamedObjects, without: Sequence[str]
) -> tuple[list[Part], int, int]:
    """Dump a snapshot, another one where tables moved; and the release of its schema, and the version of its server."""
    for tries in range(1, MAX_TRIES + 1):
        try:
            with open_snapshot(url) as snapshot:
                named.note(found for found in snapshot.named_objects() if found.area not in without)
                part = archive.write_part(DUMP, dump(url, snapshot.name, snapshot.server_major))
                return [part], snapshot.deployed.release, snapshot.server_major
        except TablesMoved:
            (archive.folder / DUMP).unlink(missing_ok=True)
            if tries == MAX_TRIES:
                raise
    raise AssertionError


def _copy_all(
    archive: Archive, tiers: Mapping[str, Tier], named: NamedObjects, areas: dict[str, Content], progress: Progress
) -> Iterator[bytes]:
    """Copy all objects; their lines in the list, and in `areas` how much it was."""
    for area, tier in tiers.items():
        areas[area] = Content()
        for stat in tier.walk():
            if copied := _copy(archive, area, tier, stat):
                done = areas[area]
                areas[area] = Content(objects=done.objects + 1, bytes=done.bytes + copied.size)
                progress(area, areas[area])
                named.find(copied)
                yield line_of(copied)


def _copy(archive: Archive, area: str, tier: Tier, listed: Stat) -> Copied | None:
    """Copy an object, in one of its versions; None where it is gone."""
    found = listed
    for tries in range(1, MAX_TRIES + 1):
        try:
            written = archive.write_object(tier.stream(found.key, tag=found.tag))
            return Copied(area, found.key, *written, found.tag, tier.media_type(found.key))
        except NotFound:
            return None
        except Conflict as error:
            if error.code != "storage.changed" or tries == MAX_TRIES:
                raise
        found = tier.stat(found.key)
    return None


def _copy_keys(archive: Archive, settings: Settings) -> list[Part]:
    return [
        archive.write_part(f"{KEYS}/{name}", [file.read_bytes()])
        for name, file in key_files(settings).items()
        if file.exists()
    ]


def _require_empty(settings: Settings, folder: Path) -> None:
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError("backup.target", f"{folder} is not an empty folder", remedy="Name a folder that is new.")
    if not folder.parent.is_dir():
        raise InputError("backup.target", f"{folder.parent} is not a folder", remedy="Make it first.")
    for area in AREAS:
        parts = urlsplit(getattr(settings.storage, area))
        if parts.scheme == "file" and folder.resolve().is_relative_to(Path(unquote(parts.path)).resolve()):
            raise InputError("backup.target", f"{folder} is inside of the area {area}, which is backed up")


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink()
