"""A backup is consistent while jobs run; a restore begins a new history, and destroys nothing before it is sure."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest

from anabranch.adapters.objects.folder import Folder
from anabranch.adapters.postgres.database import translate
from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.adapters.postgres.schema.pgstac import find_catalog
from anabranch.adapters.postgres.schema.support import require_supported
from anabranch.adapters.postgres.snapshot import hold_removals, open_snapshot
from anabranch.app import open_tiers
from anabranch.backup import restore as restoring
from anabranch.backup import write as writing
from anabranch.backup.archive import DUMP, KEYS, OBJECTS, Archive
from anabranch.backup.manifest import MANIFEST, Manifest, read_manifest, write_manifest
from anabranch.backup.restore import restore_backup, verify_backup
from anabranch.backup.write import write_backup
from anabranch.cli.main import call
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home
from anabranch.engine.model import Answer, JobState, SessionKind
from anabranch.engine.ports import Holdings
from anabranch.enums import Scope
from anabranch.errors import AnabranchError, Conflict, InputError, Unavailable
from anabranch.platform.action_by import ActionBy
from anabranch.platform.schedules.schedules import ScheduleChange, Schedules
from anabranch.settings import Settings
from anabranch.storage.locations import StorageLocations
from anabranch.workflows.stages import Declaration
from anabranch.workflows.yaml.load import load_yaml
from tests.support.engine import EngineHarness, fan_out, open_harness
from tests.support.objects import Cloud

pytestmark = pytest.mark.postgres

END_HOLDERS = """
    select pg_terminate_backend(pid, 10000)
      from (select distinct l.pid from pg_locks l join pg_database d on d.oid = l.database
             where d.datname = current_database() and l.locktype = 'advisory') holders
"""


def at(home: Path, url: str, **more: object) -> Settings:
    return Settings(home=home, database_url=url, **more)  # type: ignore[arg-type]  # settings by name


def put(settings: Settings, address: str, data: bytes = b"data") -> None:
    open_tiers(settings).put(address, data)


def rows(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(query.encode())
        return found.fetchall() if found.description else []


@pytest.fixture
def backed_up(database_url: str, tmp_path: Path) -> Path:
    """A backup of a database without jobs, and of two objects."""
    settings = at(tmp_path / "old", database_url)
    put(settings, "bronze://uploads/a.tif", b"a" * 3_000)
    put(settings, "gold://maps/b.tif", b"b")
    settings.webhook_key_file.write_bytes(b"sealing")
    write_backup(settings, database_url, tmp_path / "backup")
    return tmp_path / "backup"


async def test_e3_after_a_restore_nothing_of_the_old_history_is_accepted_and_its_jobs_continue(
    engine: EngineHarness, database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    job = await engine.submit(fan_out(3))
    held = await engine.claim(2)
    write_backup(at(tmp_path / "old", database_url), database_url, tmp_path / "backup")
    restore_backup(at(tmp_path / "new", empty_database_url), tmp_path / "backup")

    async with open_harness(empty_database_url) as restored:
        answers, _ = await restored.end(held, body="old", session=engine.session)
        assert answers == [Answer.STALE] * 2
        pulse = restored.store.pulse()
        assert pulse.beat(engine.session, Holdings()) is None
        pulse.close()
        await restored.sweep()
        assert await restored.state(job.job_id) is JobState.RUNNING
        claims = await restored.claim()
        spent = sorted((claim.attempt, claim.failures, claim.crashes) for claim in claims)
        assert spent == [(1, 0, 0), (2, 0, 0), (2, 0, 0)]
        await restored.finish(claims, body="new")
        await restored.finish(await restored.claim())
        assert await restored.state(job.job_id) is JobState.COMPLETED
    await engine.finish(held)
    assert await engine.state(job.job_id) is JobState.RUNNING, "the original goes on by itself"


def test_objects_and_keys_come_back_as_they_were(backed_up: Path, empty_database_url: str, tmp_path: Path) -> None:
    settings = at(tmp_path / "new", empty_database_url)
    manifest = restore_backup(settings, backed_up)
    storage = open_tiers(settings)
    assert storage.read("bronze://uploads/a.tif") == b"a" * 3_000
    assert storage.read("gold://maps/b.tif") == b"b"
    assert manifest.areas["bronze"].bytes == 3_000
    assert settings.webhook_key_file.read_bytes() == b"sealing"
    assert (backed_up.stat().st_mode & 0o777, settings.webhook_key_file.stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_backup_into_a_folder_that_was_there_is_readable_by_its_owner_only(database_url: str, tmp_path: Path) -> None:
    settings, folder = at(tmp_path / "old", database_url), tmp_path / "backup"
    put(settings, "bronze://a")
    folder.mkdir(mode=0o755)
    write_backup(settings, database_url, folder)
    files = [folder, *folder.rglob("*")]
    assert {file.stat().st_mode & 0o777 for file in files if file.is_dir()} == {0o700}
    assert {file.stat().st_mode & 0o777 for file in files if file.is_file()} == {0o600}


def test_tiers_may_be_in_a_cloud_or_move_into_one(
    database_url: str, empty_database_url: str, tmp_path: Path, s3: Cloud
) -> None:
    options = json.dumps(dict(s3.options))
    cloud = StorageLocations(silver=f"{s3.url}/silver", gold=f"{s3.url}/gold", options=options)  # type: ignore[arg-type]
    old = at(tmp_path / "old", database_url)
    put(old, "silver://a", b"a")
    write_backup(old, database_url, tmp_path / "first")
    moved = at(tmp_path / "cloud", empty_database_url, storage=cloud.in_home(tmp_path / "cloud"))
    restore_backup(moved, tmp_path / "first")
    assert open_tiers(moved).read("silver://a") == b"a"
    with pytest.raises(Conflict, match="the area silver has objects"):
        restore_backup(Settings(home=tmp_path / "other", storage=cloud.in_home(tmp_path / "other")), tmp_path / "first")
    again = write_backup(moved, empty_database_url, tmp_path / "second")
    assert again.manifest.areas["silver"].objects == 1


def test_media_types_come_back_where_stores_keep_them(
    database_url: str, empty_database_url: str, tmp_path: Path, s3: Cloud
) -> None:
    options = json.dumps(dict(s3.options))
    homes = [(tmp_path / name, url) for name, url in (("old", database_url), ("new", empty_database_url))]
    old, new = (
        at(home, url, storage=StorageLocations(silver=f"{s3.url}/{home.name}", options=options).in_home(home))  # type: ignore[arg-type]  # the text of options
        for home, url in homes
    )
    open_tiers(old).put("silver://a", b"a", media_type="image/tiff")
    write_backup(old, database_url, tmp_path / "backup")
    restore_backup(new, tmp_path / "backup")
    assert open_tiers(new).areas["silver"].media_type("a") == "image/tiff"


def test_a_tier_can_be_left_out(database_url: str, empty_database_url: str, tmp_path: Path) -> None:
    old, new = at(tmp_path / "old", database_url), at(tmp_path / "new", empty_database_url)
    put(old, "bronze://a")
    put(new, "bronze://mine")
    manifest = write_backup(old, database_url, tmp_path / "backup", without=["bronze"]).manifest
    assert "bronze" not in manifest.areas
    restore_backup(new, tmp_path / "backup")
    assert [found.key for found in open_tiers(new).walk("bronze://")] == ["mine"]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def find_object(backup: Path) -> Path:
    return Archive(backup).path_of(next(Archive(backup).objects()).sha256)


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
@pytest.mark.parametrize("part", [DUMP, OBJECTS, MANIFEST, f"{KEYS}/webhook-key", "object"])
def test_a_damaged_part_is_found_before_anything_is_overwritten(
    backed_up: Path, database_url: str, tmp_path: Path, damage: Callable[[Path], None], part: str
) -> None:
    damage(find_object(backed_up) if part == "object" else backed_up / part)
    mine = at(tmp_path / "old", database_url)
    put(mine, "bronze://uploads/a.tif", b"mine")
    with pytest.raises(InputError) as refused:
        restore_backup(mine, backed_up, overwrite=True)
    assert refused.value.code in ("backup.damaged", "backup.incomplete")
    assert open_tiers(mine).read("bronze://uploads/a.tif") == b"mine"
    assert Home(mine.home).read_restore() is None
    assert rows(database_url, "select count(*) from app.migrations") > [(0,)]


def test_what_is_not_empty_is_overwritten_only_when_it_is_named(
    backed_up: Path,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", database_url)
    put(at(tmp_path / "old", database_url), "gold://maps/b.tif", b"newer")
    assert call(["restore", str(backed_up)]) == 6
    assert "which a restore would overwrite" in capsys.readouterr().err
    assert call(["restore", str(backed_up), "--overwrite", str(tmp_path / "other")]) == 2
    assert call(["restore", str(backed_up), "--check"]) == 0
    assert open_tiers(at(tmp_path / "old", database_url)).read("gold://maps/b.tif") == b"newer"
    assert call(["restore", str(backed_up), "--overwrite", str(tmp_path / "old")]) == 0
    assert open_tiers(at(tmp_path / "old", database_url)).read("gold://maps/b.tif") == b"b"


@pytest.mark.parametrize("left", ["database", "layers", "area", "key"])
def test_a_home_of_which_a_part_is_left_is_not_empty(
    backed_up: Path, database_url: str, empty_database_url: str, tmp_path: Path, left: str
) -> None:
    settings = at(tmp_path / "new", database_url if left == "database" else empty_database_url)
    if left == "layers":
        with psycopg.connect(empty_database_url) as connection:
            connection.execute("create schema geo")
    if left == "area":
        put(settings, "silver://a")
    if left == "key":
        settings.home.mkdir()
        settings.webhook_key_file.write_bytes(b"another")
    with pytest.raises(Conflict) as refused:
        restore_backup(settings, backed_up)
    assert refused.value.code == "restore.not_empty"
    assert rows(empty_database_url, "select from pg_namespace where nspname = 'app'") == []


async def test_a_database_that_is_in_use_is_not_overwritten(
    engine: EngineHarness, backed_up: Path, database_url: str, tmp_path: Path
) -> None:
    await engine.new_session()
    with pytest.raises(Conflict) as refused:
        restore_backup(at(tmp_path / "old", database_url), backed_up, overwrite=True)
    assert refused.value.code == "database.in_use"


def test_processes_of_another_machine_wait_until_a_restore_has_ended(
    backed_up: Path, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that starts or lost its session nor a migration meets a database that is half restored."""
    refusals: list[AnabranchError] = []

    def look(*_: object) -> None:
        for attempt in (partial(require_supported, database_url), partial(_open_session, database_url)):
            with pytest.raises(Unavailable) as refused:
                attempt()
            refusals.append(refused.value)
        with pytest.raises(Conflict) as locked:
            migrate(database_url, patience=timedelta(0))
        refusals.append(locked.value)

    monkeypatch.setattr(restoring, "rebuild", look)
    restore_backup(at(tmp_path / "old", database_url), backed_up, overwrite=True)
    assert [error.code for error in refusals] == ["database.held_off"] * 2 + ["database.locked"]
    require_supported(database_url)
    _open_session(database_url)


def _open_session(url: str) -> None:
    with translate(url), psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select app.open_session('worker', 'elsewhere', 1, 'm', '{}', 1, interval '1 minute')")


def test_a_restore_that_could_not_keep_others_away_fails(
    backed_up: Path, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = at(tmp_path / "new", empty_database_url)
    monkeypatch.setattr(restoring, "rebuild", lambda _: rows(empty_database_url, END_HOLDERS))
    with pytest.raises(Unavailable) as failed:
        restore_backup(settings, backed_up)
    assert failed.value.code == "restore.interrupted"
    with pytest.raises(Conflict, match="interrupted"):
        Home(settings.home).require_restored()


def test_a_server_that_has_not_the_locks_for_a_restore_is_refused_and_told_the_setting(
    backed_up: Path, tmp_path: Path, own_server: Cluster
) -> None:
    """The setting that it names is enough; a restore that overwrites needs more."""
    url, settings = own_server.url(), at(tmp_path / "new", own_server.url())
    _start_with_locks(own_server, 10)
    with pytest.raises(Unavailable) as refused:
        restore_backup(settings, backed_up)
    assert refused.value.code == "database.locks"
    assert rows(url, "select from pg_namespace where nspname = 'app'") == []
    enough = _named_setting(refused.value)
    _start_with_locks(own_server, enough)
    restore_backup(settings, backed_up)
    with pytest.raises(Unavailable) as refused:
        restore_backup(settings, backed_up, overwrite=True)
    assert _named_setting(refused.value) > enough
    _start_with_locks(own_server, _named_setting(refused.value))
    restore_backup(settings, backed_up, overwrite=True)


@pytest.fixture
def own_server() -> Iterator[Cluster]:
    """A server of which the test changes settings, in a folder that its user may enter."""
    with TemporaryDirectory(prefix="ab-") as folder:
        Path(folder).chmod(0o755)
        server = Cluster(Home(Path(folder) / "home"), durable=False, state=Path(folder) / "state")
        server.start()
        server.ensure_database()
        try:
            yield server
        finally:
            server.purge()
            server.home.release()


def _named_setting(error: AnabranchError) -> int:
    (number,) = re.findall(r"`max_locks_per_transaction` of the server to (\d+) or more", error.remedy or "")
    return int(number)


def _start_with_locks(server: Cluster, count: int) -> None:
    rows(server.url(), f"alter system set max_locks_per_transaction = {count}")
    server.stop()
    server.start()


def test_an_interrupted_restore_starts_no_stack_and_is_continued(
    backed_up: Path, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = at(tmp_path / "new", empty_database_url)
    with monkeypatch.context() as broken:
        broken.setattr(restoring, "rebuild", _break)
        with pytest.raises(ZeroDivisionError):
            restore_backup(settings, backed_up)
    with pytest.raises(Conflict, match="interrupted"):
        Home(settings.home).require_restored()
    restore_backup(settings, backed_up)
    Home(settings.home).require_restored()
    assert open_tiers(settings).read("gold://maps/b.tif") == b"b"


@pytest.mark.parametrize("other", ["database", "area"])
def test_an_interrupted_restore_is_continued_into_the_same_database_and_areas_only(
    backed_up: Path,
    database_url: str,
    empty_database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    other: str,
) -> None:
    home, mine = tmp_path / "new", StorageLocations(gold=f"file://{tmp_path}/mine").in_home(tmp_path / "new")
    with monkeypatch.context() as broken:
        broken.setattr(restoring, "load", _break)
        with pytest.raises(ZeroDivisionError):
            restore_backup(at(home, empty_database_url), backed_up)
    (tmp_path / "mine").mkdir()
    changed = at(home, database_url) if other == "database" else at(home, empty_database_url, storage=mine)
    put(changed, "gold://mine")
    with pytest.raises(Conflict) as refused:
        restore_backup(changed, backed_up)
    assert refused.value.code == "restore.not_empty"
    assert rows(database_url, "select count(*) from app.migrations") > [(0,)]


def _break(*_: object) -> None:
    raise ZeroDivisionError


def test_a_dump_that_can_t_be_loaded_changes_nothing(backed_up: Path, database_url: str, tmp_path: Path) -> None:
    """As of a dump that was whole when it was hashed, and does not fit the server."""
    settings, archive = at(tmp_path / "old", database_url), Archive(backed_up)
    settings.webhook_key_file.write_bytes(b"mine")
    before = rows(database_url, "select count(*) from pg_class where relnamespace = 'app'::regnamespace")
    manifest = read_manifest(backed_up)
    content = (backed_up / DUMP).read_bytes()
    (backed_up / DUMP).unlink()
    half = archive.write_part(DUMP, [content[: len(content) // 2]])
    others = [part for part in manifest.parts if part.name != DUMP]
    write_manifest(backed_up, manifest.model_copy(update={"parts": [half, *others]}))
    with pytest.raises(Unavailable) as failed:
        restore_backup(settings, backed_up, overwrite=True)
    assert failed.value.code == "backup.database"
    assert settings.webhook_key_file.read_bytes() == b"mine"
    assert rows(database_url, "select count(*) from pg_class where relnamespace = 'app'::regnamespace") == before


@pytest.mark.parametrize(
    "change",
    [
        lambda known: {"parts": [part for part in known.parts if part.name != OBJECTS]},
        lambda known: {"parts": [*known.parts, known.parts[0].model_copy(update={"name": "../backup/objects.ndjson"})]},
        lambda known: {"parts": [part for part in known.parts if not part.name.startswith(KEYS)]},
        lambda known: {"areas": {**known.areas, "copper": known.areas["gold"]}},
        lambda known: {"areas": {name: area for name, area in known.areas.items() if name != "gold"}},
        lambda known: {
            "areas": {name: area for name, area in known.areas.items() if name != "gold"},
            "without": ["gold"],
        },
    ],
    ids=["no list", "foreign part", "unnamed key", "foreign area", "no area", "objects of none"],
)
def test_a_manifest_of_other_parts_or_areas_is_refused(
    backed_up: Path, change: Callable[[Manifest], dict[str, Any]]
) -> None:
    manifest = read_manifest(backed_up)
    write_manifest(backed_up, manifest.model_copy(update=change(manifest)))
    with pytest.raises(InputError) as refused:
        verify_backup(backed_up)
    assert refused.value.code == "backup.damaged"


def test_published_files_that_others_may_replace_are_shown_after_a_restore(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    """In the version that was shown: one that was replaced before stays out of sight."""
    old, new = at(tmp_path / "old", database_url), at(tmp_path / "new", empty_database_url)
    for key in ("same.tif", "replaced.tif"):
        put(old, f"bronze://{key}", key.encode())
        _publish(database_url, key, open_tiers(old).stat(f"bronze://{key}").tag)
    put(old, "bronze://replaced.tif", b"other content")
    write_backup(old, database_url, tmp_path / "backup")
    restore_backup(new, tmp_path / "backup")
    shown: dict[Any, Any] = dict(rows(empty_database_url, "select key, version from app.published_files"))  # type: ignore[arg-type]  # pairs
    now = {key: open_tiers(new).stat(f"bronze://{key}").tag for key in shown}
    assert {key: shown[key] == now[key] for key in shown} == {"same.tif": True, "replaced.tif": False}


async def test_what_a_schedule_saw_is_no_new_version_after_a_restore(
    engine: EngineHarness, database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    """A job of a version that was replaced before is no job of the one that is restored."""
    declared = Declaration(load_yaml("workflow_id: w\nnodes: {work: {handler: do}}", "w.yaml").require())
    owned = Schedules(engine.store.schedules(), lambda _: declared, lambda: engine.session, lambda _: None)
    wanted = ScheduleChange(workflow="w", watch="silver://incoming")
    await owned.add("default", "sensor", wanted, ActionBy("*", "test", None, "correlation", Scope.ADMIN))
    old, new = at(tmp_path / "old", database_url), at(tmp_path / "new", empty_database_url)
    await engine.store.watches().begin_look(engine.session, [], timedelta(minutes=1))
    for name in ("done", "replaced", "waits"):
        put(old, f"silver://incoming/{name}", name.encode())
        tag = open_tiers(old).stat(f"silver://incoming/{name}").tag
        done = {"done": f"'{tag}'", "replaced": "'earlier'"}.get(name, "null")
        seen = f"select id, 'silver://incoming/{name}', '{tag}', 1, now(), now(), {done} from app.schedules"
        rows(database_url, f"insert into app.watched_objects {seen}")
    write_backup(old, database_url, tmp_path / "backup")
    restore_backup(new, tmp_path / "backup")
    known = rows(empty_database_url, "select address, version, done from app.watched_objects order by 1")
    tags = [open_tiers(new).stat(str(address)).tag for address, _, _ in known]
    assert [(version, done) for _, version, done in known] == [
        (tags[0], tags[0]),
        (tags[1], "earlier"),
        (tags[2], None),
    ]


def _publish(url: str, key: str, version: str) -> None:
    with psycopg.connect(url) as connection:
        ((made,),) = connection.execute(
            "insert into app.publications (id, kind, key, number, action, source, actor, at)"
            " select g, 'stac', 'maps/' || %s, 1, 'publish', g, 'test', now() from gen_random_uuid() g returning id",
            [key],
        ).fetchall()
        connection.execute(
            "insert into app.published_files (publication, name, kind, tier, key, media_type, size, version)"
            " values (%s, 'data', 'file', 'bronze', %s, 'image/tiff', 8, %s)",
            [made, key, version],
        )


def test_a_backup_of_a_later_release_is_refused(backed_up: Path) -> None:
    manifest = read_manifest(backed_up)
    write_manifest(backed_up, manifest.model_copy(update={"release": manifest.release + 1}))
    with pytest.raises(Conflict) as refused:
        verify_backup(backed_up)
    assert refused.value.code == "database.newer"


async def test_o5_retention_waits_for_a_backup(engine: EngineHarness, database_url: str) -> None:
    """What the snapshot names is not removed; what nobody named before may be."""
    job = await engine.submit(fan_out(1))
    await engine.finish(await engine.claim())
    await engine.finish(await engine.claim())
    retention = engine.store.retention()
    with hold_removals(database_url):
        assert await retention.purge(timedelta(0), 0) == (0, None)
        assert await retention.expire_publications(timedelta(0), timedelta(0)) == 0
        (end,) = (await engine.store.job_ends(engine.session, timedelta(seconds=60), [job.job_id])).values()
        assert end.ended_for is None
    assert (await retention.purge(timedelta(0), 0))[0] == 1


def test_o5_a_backup_during_which_removals_were_not_held_fails(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "find_catalog", lambda url: (rows(url, END_HOLDERS), find_catalog(url))[1])
    with pytest.raises(Unavailable) as failed:
        write_backup(at(tmp_path / "old", database_url), database_url, tmp_path / "backup")
    assert failed.value.code == "backup.interrupted"
    assert not (tmp_path / "backup").exists()


def test_a_snapshot_is_read_without_a_timeout(database_url: str) -> None:
    timed = f"{database_url}{'&' if '?' in database_url else '?'}options=-cstatement_timeout%3D1"
    with open_snapshot(timed) as snapshot:
        shown = snapshot._connection.execute("select current_setting('statement_timeout')").fetchone()
    assert shown == ("0",)


def test_of_two_backups_at_once_one_runs(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.adapters.postgres.snapshot.LOCK_PATIENCE", timedelta(0))
    with hold_removals(database_url), pytest.raises(Conflict) as refused:
        write_backup(at(tmp_path / "old", database_url), database_url, tmp_path / "backup")
    assert refused.value.code == "backup.running"
    assert not (tmp_path / "backup").exists(), "nothing is left of one that failed"


def test_an_object_that_changes_meanwhile_is_copied_in_one_version(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, stream = at(tmp_path / "old", database_url), Folder.stream
    put(settings, "bronze://a", b"old")

    def replace_first(tier: Folder, key: str, **more: Any) -> Iterator[bytes]:
        with monkeypatch.context() as once:
            once.setattr(Folder, "stream", stream)
            if tier.stat(key).size == 3:
                tier.put(key, b"newer")
        return stream(tier, key, **more)

    monkeypatch.setattr(Folder, "stream", replace_first)
    write_backup(settings, database_url, tmp_path / "backup")
    monkeypatch.undo()
    archive = Archive(tmp_path / "backup")
    archive.verify(read_manifest(tmp_path / "backup"))
    assert [copied.size for copied in archive.objects()] == [5]


async def test_an_object_that_is_lost_is_named_and_hinders_no_backup(
    engine: EngineHarness, database_url: str, tmp_path: Path
) -> None:
    await engine.submit(fan_out(1))
    reference = {"href": "results/lost.json", "size": 3, "sha256": "0" * 64}
    rows(
        database_url,
        f"update app.jobs set result = '{json.dumps({'anabranch:reference': reference})}' returning id",
    )
    written = write_backup(at(tmp_path / "old", database_url), database_url, tmp_path / "backup")
    assert (written.missing, written.missing_count) == (["work://results/lost.json"], 1)


async def test_an_object_is_lost_though_another_one_has_its_content(
    engine: EngineHarness, database_url: str, tmp_path: Path
) -> None:
    await engine.submit(fan_out(1))
    settings = at(tmp_path / "old", database_url)
    stored = open_tiers(settings).work.put("results/kept.json", b"{}")
    reference = {"href": "results/lost.json", "size": stored.size, "sha256": stored.sha256}
    rows(
        database_url,
        f"update app.jobs set result = '{json.dumps({'anabranch:reference': reference})}' returning id",
    )
    assert write_backup(settings, database_url, tmp_path / "backup").missing == ["work://results/lost.json"]


@pytest.mark.parametrize(("folder", "said"), [("old/bronze/backup", "is inside"), ("none/backup", "is not a folder")])
def test_a_folder_that_can_t_take_a_backup_is_refused(
    database_url: str, tmp_path: Path, folder: str, said: str
) -> None:
    (tmp_path / "old" / "bronze").mkdir(parents=True)
    with pytest.raises(AnabranchError, match=said):
        write_backup(at(tmp_path / "old", database_url), database_url, tmp_path / folder)


async def test_o4_an_upgrade_says_who_can_t_share_the_database(
    engine: EngineHarness, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", database_url)
    await engine.store.open_session(SessionKind.ORCHESTRATOR, [], 0, timedelta(seconds=60))
    assert call(["upgrade", "--check", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["release"], said["migrations"], said["current"]) == (said["to"], [], True)
    assert [one["judgement"] for one in said["processes"]] == ["compatible"] * 2
    for release, judgement, code in (("null", "unknown", 0), (said["oldest"] - 1, "incompatible", 6)):
        rows(database_url, f"update app.sessions set schema_release = {release} returning id")
        assert call(["upgrade", "--check"]) == code
        assert capsys.readouterr().out.count(f": {judgement}") == 2
    assert call(["upgrade"]) == 6
