"""Schedules that watch a folder: one job for each version of an object, once it is stable, whatever happens."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.adapters.objects.bucket import Bucket
from anabranch.adapters.objects.folder import Folder
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.canonical import Json
from anabranch.engine.advancing.advancer import Advancer, BackgroundAdvances
from anabranch.engine.model import SessionKind
from anabranch.engine.ports import Refused
from anabranch.engine.sessions.doorbell import Doorbell
from anabranch.engine.submitting.watching import listing, watcher
from anabranch.engine.submitting.watching.ports import Look
from anabranch.engine.submitting.watching.watcher import KEEP_GONE, SILENCE, Watcher
from anabranch.engine.task_parameters import Definitions
from anabranch.enums import Scope
from anabranch.errors import Conflict, InputError
from anabranch.platform.action_by import ActionBy
from anabranch.platform.schedules.schedules import ScheduleChange, Schedules
from anabranch.storage.marks import MARK_KEY
from anabranch.storage.tiers import Stat, Storage
from anabranch.testing.clock import Clock
from anabranch.workflows.schedules.schedule import Schedule
from anabranch.workflows.schedules.watch import Existing
from anabranch.workflows.stages import Declaration
from anabranch.workflows.yaml.load import load_yaml
from tests.support.engine import EngineHarness
from tests.support.objects import Cloud
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres

SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
STABLE = timedelta(seconds=10)
BY = ActionBy("*", "key:test", None, "correlation", Scope.ADMIN)
TEXT = """
workflow_id: ingest
inputs:
  source: {type: string, format: address, required: true}
  size: {type: integer, max: 1000}
nodes:
  work: {handler: do, params: {source: "{{ inputs.source }}"}}
"""
PLATFORM = """
    set anabranch.platform = '*';
    insert into app.platforms (id, title, required_refs, optional_refs, workflows, approval, callback_hosts, made_at,
                               changed_at, sources)
    select 'acme', 'Acme', '{}', '{}', '{}', enum_first(null::app.approval_policy), '{}', app.now(), app.now(),
           '{silver://incoming/acme}'
"""
GIVEN: dict[str, Json] = {"source": "{{ object.url }}", "size": "{{ object.size }}"}


class Watch:
    """A tier, a schedule that watches a folder of it, and orchestrators that look when a test says so."""

    def __init__(self, url: str, clock: Clock, engine: EngineHarness, root: Path) -> None:
        self.url, self.clock, self.engine = url, clock, engine
        self.root = root / "silver"
        self.storage = Storage({"silver": Folder(self.root, "silver", ours=False)})
        (self.root / "incoming").mkdir(parents=True)
        self.storage.tier("silver").put(MARK_KEY, b"mark")
        self.declared = Declaration(load_yaml(TEXT, "ingest.yaml").require())
        self.owned = Schedules(
            engine.store.schedules(), lambda _: self.declared, lambda: engine.session, lambda _: None
        )

    def write(self, name: str, text: str = "data") -> None:
        path = self.root / "incoming" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)

    async def add(self, platform: str = "default", **given: Any) -> None:
        wanted = {"workflow": "ingest", "watch": "silver://incoming/", "pattern": "*.tif", "inputs": GIVEN, **given}
        await self.owned.add(platform, "sensor", ScheduleChange(**wanted), BY)

    async def watcher(self, store: PostgresStore | None = None) -> Watcher:
        """Another orchestrator's."""
        used = store or self.engine.store
        session = await used.open_session(SessionKind.ORCHESTRATOR, [], 0, HOUR)
        advances = BackgroundAdvances(Advancer(used, session, self.engine.results), asyncio.Event())
        return Watcher(used.watches(), self.storage, Definitions(used), advances, Doorbell(used), session)

    async def look(self, after: timedelta = STABLE) -> None:
        """One look, some time later."""
        self.clock.advance(after)
        assert await (await self.watcher()).look() == 1

    async def history(self, platform: str = "default") -> list[tuple[str | None, str]]:
        """What it found, the oldest first."""
        page = await self.owned.history(platform, "sensor", before=None, limit=1000)
        return [(one.object and one.object.rpartition("/")[2], one.state) for one in reversed(page.items)]

    def ask(self, query: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def jobs(self) -> list[str]:
        """What was submitted, by address."""
        return [row[0] for row in self.ask("select parameters ->> 'source' from app.jobs order by 1")]


@pytest.fixture
def clock(database_url: str) -> Iterator[Clock]:
    with Clock(database_url) as stopped:
        yield stopped


@pytest.fixture
async def watch(database_url: str, clock: Clock, engine: EngineHarness, tmp_path: Path) -> Watch:
    clock.advance(datetime.now(UTC) - DAY - clock.now())  # all that a test writes is newer than its schedule
    return Watch(database_url, clock, engine, tmp_path)


async def test_a_new_object_gets_its_job_once_it_is_unchanged_for_the_time(watch: Watch) -> None:
    await watch.add()
    watch.write("a.tif")
    watch.write("notes.txt")
    await watch.look()
    assert watch.jobs() == []
    await watch.look()
    assert watch.jobs() == ["silver://incoming/a.tif"]
    for _ in range(3):
        await watch.look()
    assert await watch.history() == [("a.tif", "submitted")]
    (parameters,) = watch.ask("select parameters from app.jobs")[0]
    assert parameters == {"source": "silver://incoming/a.tif", "size": 4}


async def test_an_object_that_grows_is_not_submitted_before_it_rests(watch: Watch) -> None:
    await watch.add()
    for size in range(1, 5):
        watch.write("a.tif", "x" * size)
        await watch.look()
    assert watch.jobs() == []
    await watch.look()
    assert watch.ask("select (parameters ->> 'size')::int from app.jobs") == [(4,)]


async def test_each_version_of_an_object_gets_a_job_also_one_that_comes_back(watch: Watch) -> None:
    await watch.add()
    for text in ("one", "other", "one"):
        watch.write("a.tif", text)
        for _ in range(3):
            await watch.look()
    assert await watch.history() == [("a.tif", "submitted")] * 3
    assert len(watch.jobs()) == 3


async def test_an_object_that_vanishes_gets_no_job_and_one_that_comes_back_rests_again(watch: Watch) -> None:
    await watch.add()
    watch.write("a.tif")
    await watch.look()
    path, aside = watch.root / "incoming/a.tif", watch.root / "aside.tif"
    path.rename(aside)
    await watch.look()
    aside.rename(path)
    await watch.look()
    assert watch.jobs() == []
    await watch.look()
    assert len(watch.jobs()) == 1


async def test_what_is_gone_is_forgotten_after_a_week_and_not_before(watch: Watch) -> None:
    """Until then, the version that has its job gets no other when it is found again."""
    await watch.add()
    watch.write("a.tif")
    for _ in range(2):
        await watch.look()
    found = watch.ask("select address, version from app.watched_objects")
    watch.ask("update app.watched_objects set gone_at = app.now()")
    await watch.look()
    assert watch.ask("select address, version from app.watched_objects where gone_at is null") == found
    assert len(watch.jobs()) == 1

    (watch.root / "incoming/a.tif").unlink()
    await watch.look()
    watches = watch.engine.store.watches()
    assert await watches.remove_gone(KEEP_GONE) == 0
    watch.clock.advance(KEEP_GONE + SECOND)
    assert await watches.remove_gone(KEEP_GONE) == 1
    assert watch.ask("select count(*) from app.watched_objects") == [(0,)]


@pytest.mark.parametrize(("existing", "jobs"), [(Existing.SKIP, ["new"]), (Existing.SUBMIT, ["new", "old"])])
async def test_objects_that_were_there_before_get_jobs_if_that_is_wanted(
    watch: Watch, existing: Existing, jobs: list[str]
) -> None:
    """What was written after the schedule was made is new, though the first look finds it; so is a later version."""
    watch.write("old.tif")
    before = (watch.clock.now() - DAY).timestamp()
    os.utime(watch.root / "incoming/old.tif", (before, before))
    await watch.add(existing=existing)
    watch.write("new.tif")
    for _ in range(3):
        await watch.look()
    assert [Path(job).stem for job in watch.jobs()] == jobs
    watch.write("old.tif", "changed")
    for _ in range(2):
        await watch.look()
    assert len(watch.jobs()) == len(jobs) + 1


async def test_several_orchestrators_make_one_job_for_each_version(watch: Watch, database_url: str) -> None:
    """Eight over connections of their own, while objects come, change and go, and pages are small."""
    await watch.add()
    stores = [PostgresStore(database_url, name=f"test {number}", connections=2) for number in range(4)]
    for store in stores:
        await store.open()
    watchers = [await watch.watcher(store) for store in stores for _ in range(2)]
    for round_ in range(6):
        for number in range(round_ * 5):
            watch.write(f"{number % 7}/{number}.tif", f"{number // 4} {round_ // 3}")
        for _ in range(3):
            watch.clock.advance(STABLE)
            await asyncio.gather(*(one.look() for one in watchers))
    for store in stores:
        await store.close()
    made = watch.ask("select object, count(*), count(distinct job_id) from app.schedule_ticks group by object")
    assert {name.rpartition("/")[2]: count for name, count, _ in made} == {
        **{f"{number}.tif": 2 for number in range(10)},
        **{f"{number}.tif": 1 for number in range(10, 25)},
    }
    assert all(count == jobs for _, count, jobs in made)
    assert len(watch.jobs()) == 35


async def test_pages_see_all_and_take_only_what_is_gone_for_gone(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look in pages of three; others than those that fit are between them."""
    monkeypatch.setattr(listing, "PAGE_KEYS", 3)
    monkeypatch.setattr(watcher, "BATCH_JOBS", 2)
    await watch.add()
    names = [f"{folder}/{number}.{end}" for folder in "ab" for number in range(5) for end in ("tif", "txt")]
    for name in names:
        watch.write(name)
    for _ in range(2):
        await watch.look()
    assert watch.jobs() == sorted(f"silver://incoming/{name}" for name in names if name.endswith("tif"))
    for name in ("a/4.tif", "b/0.tif", "b/4.tif"):
        (watch.root / "incoming" / name).unlink()
    await watch.look()
    gone = watch.ask("select address from app.watched_objects where gone_at is not null order by address")
    assert [row[0][-7:] for row in gone] == ["a/4.tif", "b/0.tif", "b/4.tif"]


async def test_a_commit_that_fails_leaves_neither_job_nor_tick_nor_what_was_seen(watch: Watch) -> None:
    await watch.add()
    watch.write("a.tif")
    await watch.look()
    watch.ask("create function test.die() returns trigger language plpgsql as 'begin raise sqlstate ''57P01''; end'")
    watch.ask(
        "create constraint trigger die after insert on app.jobs initially deferred"
        " for each row execute function test.die()"
    )
    watch.clock.advance(STABLE)
    await (await watch.watcher()).look()
    counted = (
        "select (select count(*) from app.jobs), (select count(*) from app.watched_objects where done is not null)"
    )
    assert watch.ask(counted) == [(0, 0)]
    watch.ask("drop trigger die on app.jobs")
    await watch.look()
    assert watch.ask(counted) == [(1, 1)]
    assert ("a.tif", "submitted") in await watch.history()


async def test_a_folder_that_can_not_be_listed_is_reported_and_nothing_of_it_is_gone(watch: Watch) -> None:
    """It says so once, until it can be listed again; here another folder is at the place of the mount."""
    await watch.add()
    watch.write("a.tif")
    for _ in range(2):
        await watch.look()
    aside = watch.root.rename(watch.root.with_name("mounted"))
    for missing in (True, False):
        if not missing:
            (watch.root / "incoming").mkdir(parents=True)
        for _ in range(2):
            await watch.look()
        shown = await watch.owned.show("default", "sensor")
        assert "silver" in (shown.look_error or "")
    assert await watch.history() == [("a.tif", "submitted"), (None, "failed")]
    assert watch.ask("select count(*) from app.watched_objects where gone_at is not null") == [(0,)]
    (watch.root / "incoming").rmdir()
    watch.root.rmdir()
    aside.rename(watch.root)
    await watch.look()
    shown = await watch.owned.show("default", "sensor")
    assert (shown.look_error, shown.looked_at) == (None, watch.clock.now())
    assert len(watch.jobs()) == 1


async def test_a_look_of_a_process_that_died_is_taken_over_and_its_last_words_count_for_nothing(watch: Watch) -> None:
    await watch.add()
    watch.write("a.tif")
    store = watch.engine.store
    begun = await store.open_session(SessionKind.ORCHESTRATOR, [], 0, HOUR)
    look = await store.watches().begin_look(begun, [], SILENCE)
    assert look is not None
    watch.clock.advance(STABLE)
    assert await (await watch.watcher()).look() == 0

    await store.end_session(begun, "killed")
    await watch.look()
    assert await store.watches().end_look(begun, look, complete=True, trouble=None) is False


async def test_a_look_that_does_not_get_on_is_given_up(watch: Watch) -> None:
    await watch.add()
    store = watch.engine.store
    look = await store.watches().begin_look(watch.engine.session, [], SILENCE)
    assert look is not None
    watch.clock.advance(SILENCE + SECOND)
    assert await (await watch.watcher()).look() == 1


async def test_e22_a_platform_with_many_schedules_does_not_keep_the_others_from_their_looks(watch: Watch) -> None:
    """Those of one with fewer looks begin first, though they are due later."""
    watch.ask(PLATFORM)
    for number in range(3):
        wanted = ScheduleChange("ingest", inputs=GIVEN, watch="silver://incoming/acme")
        await watch.owned.add("acme", f"many-{number}", wanted, BY)
    await watch.add()
    watches, begun = watch.engine.store.watches(), list[Look]()
    due = "app.now() - case platform when 'acme' then 5 else 1 end * interval '1 second'"
    watch.ask(
        "insert into app.watches (schedule, watched, since, turned_at, next_at)"
        f" select id, '{{}}', app.now(), app.now(), {due} from app.schedules"
    )
    while look := await watches.begin_look(watch.engine.session, [one.id for one in begun], SILENCE):
        begun.append(look)
    assert [look.platform for look in begun] == ["acme", "default", "acme", "acme"]


async def test_an_object_whose_job_is_refused_fails_alone_and_gets_its_job_when_it_changes(watch: Watch) -> None:
    await watch.add()
    watch.write("large.tif", "x" * 1001)
    watch.write("small.tif")
    for _ in range(3):
        await watch.look()
    page = await watch.owned.history("default", "sensor", before=None, limit=10)
    assert {one.object and one.object[18:]: (one.state, one.reason) for one in page.items} == {
        "large.tif": ("failed", "size must be at most 1000, not 1001"),
        "small.tif": ("submitted", None),
    }
    watch.write("large.tif", "x" * 1000)
    for _ in range(2):
        await watch.look()
    assert len(watch.jobs()) == 2


async def test_what_the_store_refuses_fails_alone(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    await watch.add()
    for name in "abc":
        watch.write(f"{name}.tif")
    await watch.look()
    looking = await watch.watcher()
    submit = looking._store.submit

    async def refuse_b(session: Any, look: Any, prepared: Any) -> Any:
        if any(one.submission and "b.tif" in one.submission.parameters_text for one in prepared):
            raise Refused("database.refused", "no b")
        return await submit(session, look, prepared)

    monkeypatch.setattr(looking._store, "submit", refuse_b)
    watch.clock.advance(STABLE)
    await looking.look()
    assert await watch.history() == [("a.tif", "submitted"), ("b.tif", "failed"), ("c.tif", "submitted")]


async def test_a_paused_schedule_does_not_look_and_finds_later_what_came_meanwhile(watch: Watch) -> None:
    await watch.add()
    await watch.look()
    await watch.owned.pause("default", "sensor", BY, paused=True)
    watch.write("a.tif")
    watch.clock.advance(HOUR)
    assert await (await watch.watcher()).look() == 0
    await watch.owned.pause("default", "sensor", BY, paused=False)
    for _ in range(2):
        await watch.look()
    assert len(watch.jobs()) == 1


async def test_another_pattern_looks_anew_and_submits_nothing_twice(watch: Watch) -> None:
    await watch.add(existing=Existing.SUBMIT)
    watch.write("a.tif")
    watch.write("b.gpkg")
    for _ in range(2):
        await watch.look()
    await watch.owned.change("default", "sensor", ScheduleChange(pattern="*"), BY)
    for _ in range(2):
        await watch.look()
    assert watch.jobs() == ["silver://incoming/a.tif", "silver://incoming/b.gpkg"]


async def test_a_clock_that_is_set_back_delays_nothing_for_long_and_submits_nothing_twice(watch: Watch) -> None:
    await watch.add()
    watch.write("a.tif")
    for _ in range(2):
        await watch.look()
    watch.write("b.tif")
    await watch.look()
    await watch.look(-HOUR)
    await watch.look()
    assert await watch.history() == [("a.tif", "submitted"), ("b.tif", "submitted")]


async def test_a_broken_schedule_waits_and_submits_what_came_meanwhile(watch: Watch) -> None:
    await watch.add()
    sound = watch.declared
    await watch.owned.follow_workflows([], complete=True)
    assert (await watch.owned.show("default", "sensor")).status == "broken"
    watch.write("a.tif")
    watch.clock.advance(HOUR)
    assert await (await watch.watcher()).look() == 0
    await watch.owned.follow_workflows([sound], complete=True)
    for _ in range(2):
        await watch.look()
    assert len(watch.jobs()) == 1


async def test_s3_a_platform_watches_its_own_folders_only(watch: Watch) -> None:
    """Also when a folder is taken away from it later; what the default platform watches leaves out those of others."""
    watch.ask(PLATFORM)
    for folder in ("silver://incoming", "silver://", "silver://incoming/acmes"):
        with pytest.raises(InputError, match="may watch silver://") as refused:
            await watch.add("acme", watch=folder)
        assert refused.value.code == "storage.not_readable"
    await watch.add("acme", watch="silver://incoming/acme")
    await watch.add("default", watch="silver://incoming")
    watch.write("acme/a.tif")
    watch.write("b.tif")
    for _ in range(2):
        watch.clock.advance(STABLE)
        assert await (await watch.watcher()).look() == 2
    assert await watch.history("acme") == [("a.tif", "submitted")]
    assert await watch.history("default") == [("b.tif", "submitted")]

    watch.ask("set anabranch.platform = '*'; update app.platforms set sources = '{}' where id = 'acme'")
    watch.clock.advance(STABLE)
    await (await watch.watcher()).look()
    shown = await watch.owned.show("acme", "sensor")
    assert "may watch" in (shown.look_error or "")
    with pytest.raises(InputError):
        await watch.owned.change("acme", "sensor", ScheduleChange(poll_seconds=20), BY)


async def test_what_jobs_wrote_gets_no_job(watch: Watch) -> None:
    """Nor does its folder have a schedule: each job would make the next one."""
    with pytest.raises(InputError, match="what jobs wrote"):
        await watch.add(watch="silver://jobs/0123")
    await watch.add(watch="silver://")
    watch.write("../jobs/0123/work/0/1/cog.tif")
    watch.write("a.tif")
    for _ in range(2):
        await watch.look()
    assert watch.jobs() == ["silver://incoming/a.tif"]


async def test_a_schedule_that_watches_has_no_ticks_to_run_or_to_backfill(watch: Watch) -> None:
    await watch.add()
    begin, end = datetime(2026, 3, 2, 10, tzinfo=UTC), datetime(2026, 3, 2, 11, tzinfo=UTC)
    for act in (
        watch.owned.run("default", "sensor", BY),
        watch.owned.backfill("default", "sensor", begin, end, 9, BY, dry_run=False),
    ):
        with pytest.raises(Conflict, match="watches silver://incoming") as refused:
            await act
        assert refused.value.code == "schedule.watches"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cron": "0 * * * *"}, "either cron or watch"),
        ({"watch": None}, "either cron or watch"),
        ({"overlap": "queue"}, "overlap means nothing in a schedule with watch"),
        ({"inputs": {"source": "{{ job.scheduled_at }}"}}, r"there is no job\.scheduled_at"),
        ({"inputs": {"source": "{{ object.colour }}"}}, "nothing of an object"),
        ({"inputs": {}}, "source"),
    ],
)
async def test_a_watch_that_says_something_wrong_is_refused(watch: Watch, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        await watch.add(**given)


async def test_the_file_of_a_workflow_declares_what_is_watched(watch: Watch) -> None:
    """And takes it back."""
    text = TEXT + 'schedule:\n  watch: silver://incoming/\n  pattern: "*.tif"\n  stable_seconds: 0\n  inputs:\n'
    loaded = load_yaml(text + '    source: "{{ object.url }}"\n', "ingest.yaml").require()
    assert loaded.schedule == Schedule(
        watch="silver://incoming", pattern="*.tif", stable_seconds=0, inputs={"source": "{{ object.url }}"}
    )
    assert loaded.hash == watch.declared.workflow.hash
    await watch.owned.follow_workflows([Declaration(loaded)], complete=True)
    watch.write("a.TIF")
    await watch.look()
    assert watch.jobs() == ["silver://incoming/a.TIF"]
    shown = await watch.owned.show("default", "ingest")
    assert (shown.origin, shown.cron, shown.watch) == ("workflow", None, "silver://incoming")
    await watch.owned.follow_workflows([replace(watch.declared)], complete=True)
    watch.clock.advance(HOUR)
    assert await (await watch.watcher()).look() == 0


async def test_o2_health_names_a_folder_that_can_not_be_looked_at(watch: Watch, database_url: str) -> None:
    from anabranch.adapters.postgres.store.vitals import PostgresVitals

    await watch.add()
    (watch.root / ".anabranch/mark").unlink()
    await watch.look()
    watch.clock.advance(HOUR)
    vitals = PostgresVitals(database_url, name="test")
    await vitals.open()
    try:
        (trouble,) = (await vitals.read_vitals()).troubles
    finally:
        await vitals.close()
    assert (trouble.who, trouble.age_seconds) == ("the schedule sensor of default", 3600.0)
    assert "holds no mark" in trouble.trouble


async def test_a_process_looks_by_itself_until_it_is_stopped(watch: Watch) -> None:
    """Many folders, of which it looks at a few at a time, with its heartbeat."""
    for number in range(12):
        wanted = ScheduleChange("ingest", inputs=GIVEN, watch=f"silver://incoming/{number}", stable_seconds=0)
        await watch.owned.add("default", f"sensor-{number}", wanted, BY)
        watch.write(f"{number}/a.tif")
    running = asyncio.create_task((await watch.watcher()).run())
    try:
        await wait_until_async(lambda: len(watch.jobs()) == 12, "a job of each folder")
    finally:
        running.cancel()
    assert watch.ask("select name from app.duties") == [("watcher",)]


async def test_a_bucket_is_watched_as_a_folder_is(watch: Watch, s3: Cloud, tmp_path: Path) -> None:
    """Versions are ETags: the same bytes again are no other version. Keys that no address has are left out."""
    bucket = Bucket("silver", s3.url, s3.options, tmp_path / "spool")
    watch.storage = Storage({"silver": bucket})
    bucket.put(MARK_KEY, b"mark")
    await watch.add()
    for text in ("one", "one", "two"):
        bucket.put("incoming/a.tif", text.encode())
        bucket.put("incoming/a\\b.tif", text.encode())
        for _ in range(3):
            await watch.look()
    assert await watch.history() == [("a.tif", "submitted")] * 2
    bucket.delete(["incoming/a.tif"])
    await watch.look()
    assert watch.ask("select count(gone_at) from app.watched_objects") == [(1,)]


async def test_a_store_that_lists_in_no_order_is_reported(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch.storage.tier("silver"), "walk", lambda folder: iter([*_many(2), *_many(1)]))
    await watch.add(pattern=None)
    await watch.look()
    assert "out of the order" in ((await watch.owned.show("default", "sensor")).look_error or "")


async def test_a_hundred_thousand_objects_are_seen_in_pages(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement takes more than a page of them, and none of them is written again while they stay as they are."""
    await watch.add(pattern=None)
    sizes: list[int] = []
    monkeypatch.setattr(watch.storage.tier("silver"), "walk", lambda folder: iter(_many(100_000)))
    looking = await watch.watcher()
    note = looking._store.note

    async def measure(session: Any, look: Any, page: Any) -> Any:
        sizes.append(len(page.objects))
        return await note(session, look, page)

    monkeypatch.setattr(looking._store, "note", measure)
    written = []
    for _ in range(2):
        assert await looking.look() == 1
        written += watch.ask(
            "select count(*), count(gone_at), max(ctid), md5(string_agg(xmin::text, '' order by ctid))"
            " from app.watched_objects"
        )
        watch.clock.advance(STABLE)
    assert written[0][:2] == (100_000, 0)
    assert written[0] == written[1]
    assert (max(sizes), sum(sizes)) == (1_000, 200_000)


def _many(count: int) -> Iterator[Stat]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return (Stat(f"incoming/{number:06}", 1, at, "1") for number in range(1, count + 1))
