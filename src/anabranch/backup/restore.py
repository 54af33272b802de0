"""Restores a backup: verified before anything is written, and the database last, in one transaction."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, connect, mask
from anabranch.adapters.postgres.restoring import (
    FileVersion,
    find_file_versions,
    find_schemas,
    hold_database,
    identify_database,
    move_file_version,
    require_held,
    require_locks,
)
from anabranch.adapters.postgres.schema.files import Files
from anabranch.adapters.postgres.schema.live_sessions import refuse_live_sessions
from anabranch.adapters.postgres.schema.migrate import connected, migrate_held
from anabranch.adapters.postgres.schema.pgstac import migrate_catalog_held
from anabranch.adapters.postgres.schema.roles import make_roles
from anabranch.adapters.postgres.server.url import configured_url
from anabranch.app import open_tiers
from anabranch.backup.archive import DUMP, KEYS, OBJECTS, Archive
from anabranch.backup.manifest import Manifest, damaged, read_manifest
from anabranch.backup.postgres_programs import SCHEMAS, count_relations, load
from anabranch.backup.write import KEY_NAMES, key_files
from anabranch.canonical import Json, JsonObject, canonical, sha256
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home
from anabranch.errors import Conflict, Unavailable
from anabranch.key_file import replace_key_file
from anabranch.plugins.stac.pgstac.rebuild import rebuild
from anabranch.settings import Settings
from anabranch.storage.locations import AREAS
from anabranch.storage.tiers import Storage

__all__ = ["restore_backup", "verify_backup"]

DROP_SCHEMAS = f"drop schema if exists {', '.join(SCHEMAS)} cascade;"
Progress = Callable[[str], None]


def verify_backup(folder: Path) -> Manifest:
    """Read a whole backup; InputError where it is damaged, Conflict where this version can't use it."""
    manifest = read_manifest(folder)
    _require_known(folder, manifest)
    Archive(folder).verify(manifest)
    if manifest.release > Files().release.number:
        raise Conflict(
            "database.newer",
            f"the backup has release {manifest.release} of the schema; this is {Files().release.number}",
            remedy="Restore it with the version that made it, or a later one.",
        )
    return manifest


def _require_known(folder: Path, manifest: Manifest) -> None:
    """Refuse a manifest that has other parts and areas than backups have, and keys that it does not name."""
    names = [part.name for part in manifest.parts]
    keys = {f"{KEYS}/{name}" for name in KEY_NAMES}
    needed = {DUMP, OBJECTS}
    if len(names) != len(set(names)) or not needed <= set(names) <= needed | keys:
        raise damaged(folder, "its parts are not those of a backup")
    if unnamed := {name for name in keys if (folder / name).exists()} - set(names):
        raise damaged(folder, f"{min(unnamed)} is not named in its manifest")
    areas, without = set(manifest.areas), set(manifest.without)
    if areas & without or areas | without != set(AREAS):
        raise damaged(folder, "its areas are not those of a backup")


def restore_backup(
    settings: Settings, folder: Path, *, overwrite: bool = False, progress: Progress = lambda _: None
) -> Manifest:
    """Restore a backup into an empty home, or into any with `overwrite`, and its database and tiers."""
    progress("verifying the backup")
    manifest, archive, home = verify_backup(folder), Archive(folder), Home(settings.home)
    storage = open_tiers(settings)
    with home.locked():
        if not overwrite and home.read_restore() != _mark_of(settings, manifest):
            _require_empty(settings, storage, archive, manifest)
        with _open_database(settings, home) as url, hold_database(url) as held:
            require_locks(held, url, SCHEMAS, count_relations(url, archive.folder / DUMP, _major(held)))
            make_roles(held, Files()["roles.sql"], url)
            if settings.database_url:
                refuse_live_sessions(held)
            _prepare_database(held, url, manifest)
            home.begin_restore(_mark_of(settings, manifest))
            progress("restoring objects")
            _restore_objects(storage, archive)
            progress("restoring the database")
            _restore_database(held, url, storage, archive)
            require_held(held)
            _restore_keys(settings, archive)  # with the secrets that they seal
            home.end_restore()
    return manifest


def _mark_of(settings: Settings, manifest: Manifest) -> str:
    """What is restored, and into what: where any of it differs, an interrupted restore is not this one."""
    database: list[Json] = []
    if url := configured_url(settings):
        with connected(url) as connection:
            database = [mask(url), *identify_database(connection)]
    areas: JsonObject = {area: getattr(settings.storage, area) for area in AREAS}
    options = settings.storage.options.get_secret_value() if settings.storage.options else ""
    keys: JsonObject = {name: str(file) for name, file in key_files(settings).items()}
    into: JsonObject = {"database": database, "areas": areas, "options": sha256(options), "keys": keys}
    return canonical({"backup": manifest.id, **into})


def _require_empty(settings: Settings, storage: Storage, archive: Archive, manifest: Manifest) -> None:
    if url := configured_url(settings):
        with connected(url) as connection:
            if found := find_schemas(connection, SCHEMAS):
                raise _not_empty(f"database {connection.info.dbname} has a schema {found[0]}")
    elif Cluster(Home(settings.home)).exists:
        raise _not_empty(f"{settings.home} has a database")
    for area, tier in storage.areas.items():
        if area not in manifest.without and tier.list(limit=1):
            raise _not_empty(f"the area {area} has objects")
    for file, key in _keys(settings, archive):
        if file.exists() and file.read_bytes() != key:
            raise _not_empty(f"{file} has another key")


@contextmanager
def _open_database(settings: Settings, home: Home) -> Iterator[str]:
    """The database to restore into: the configured one, or that of the home's own server, which runs meanwhile."""
    if url := configured_url(settings):
        yield url
        return
    cluster = Cluster(home)
    existed = cluster.exists
    cluster.start()
    try:
        cluster.ensure_database()
        yield cluster.url()
    except BaseException:
        cluster.stop()
        if not existed and not home.read_restore():  # nothing was restored into it yet
            cluster.purge()
        raise
    cluster.stop()


def _prepare_database(held: Connection[TupleRow], url: str, manifest: Manifest) -> None:
    """See that the database can take the backup: its server and extensions."""
    if (major := _major(held)) < manifest.postgres:
        raise Unavailable(
            "database.too_old", f"the backup is of PostgreSQL {manifest.postgres}, and the server is {major}"
        )
    if not (catalog := migrate_catalog_held(held, url)).current and manifest.catalog:
        raise Unavailable("catalog.missing", f"there is no catalog here: {catalog.problem}", remedy=catalog.remedy)


def _restore_keys(settings: Settings, archive: Archive) -> None:
    for file, key in _keys(settings, archive):
        replace_key_file(file, partial(bytes, key))


def _keys(settings: Settings, archive: Archive) -> Iterator[tuple[Path, bytes]]:
    """The keys of a backup, each with the file that it belongs into."""
    for name, file in key_files(settings).items():
        if (part := archive.folder / KEYS / name).exists():
            yield file, part.read_bytes()


def _restore_objects(storage: Storage, archive: Archive) -> None:
    for copied in archive.objects():
        path, media_type = archive.path_of(copied.sha256), copied.media_type
        stored = storage.areas[copied.area].upload(copied.key, path, media_type=media_type)
        if stored.sha256 != copied.sha256:
            raise damaged(archive.folder, f"{copied.area}://{copied.key} has another content")


def _restore_database(held: Connection[TupleRow], url: str, storage: Storage, archive: Archive) -> None:
    require_held(held)
    load(url, archive.folder / DUMP, _major(held), DROP_SCHEMAS, Files()["schema/new_history.sql"].text)
    migrate_held(held)
    with connect(url, Role.OWNER) as connection:
        _follow_versions(connection, storage, archive)
    if migrate_catalog_held(held, url).current:
        with connect(url, None, name="anabranch catalog") as connection:
            rebuild(connection)


def _major(connection: Connection[TupleRow]) -> int:
    return connection.info.server_version // 10_000


def _follow_versions(connection: Connection[TupleRow], storage: Storage, archive: Archive) -> None:
    """Published files are shown, and watched objects have their jobs, in one version: give it the tag of what was
    restored.
    """
    versions = find_file_versions(connection)
    for copied in archive.objects():
        known = FileVersion(copied.area, copied.key, copied.tag)
        if known in versions:
            move_file_version(connection, known, storage.areas[copied.area].stat(copied.key).tag)


def _not_empty(what: str) -> Conflict:
    return Conflict(
        "restore.not_empty",
        f"{what}, which a restore would overwrite",
        remedy="Set ANABRANCH_HOME to a new folder, or name the home with `--overwrite`.",
    )
