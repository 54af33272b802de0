"""Schedules: one job for each tick, with any number of orchestrators, across outages and steps of the clock."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from pydantic import ValidationError

from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.api.requests.schedules import BackfillRequest
from anabranch.canonical import Json
from anabranch.engine.advancing.advancer import Advancer, BackgroundAdvances
from anabranch.engine.job_retry import RetryPlan
from anabranch.engine.model import Ended, JobState, SessionKind
from anabranch.engine.sessions.doorbell import Doorbell
from anabranch.engine.submitting.schedules import scheduler
from anabranch.engine.submitting.schedules.scheduler import Scheduler
from anabranch.engine.task_parameters import Definitions
from anabranch.enums import Scope
from anabranch.errors import AnabranchError, Conflict, InputError, NotFound
from anabranch.platform.action_by import ActionBy
from anabranch.platform.schedules.schedules import ScheduleChange, Schedules
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.schedules.schedule import CatchUp, Overlap, Schedule
from anabranch.workflows.stages import Declaration
from anabranch.workflows.yaml.load import load_yaml
from tests.support.engine import EngineHarness

pytestmark = pytest.mark.postgres

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
BY = ActionBy("acme", "key:test", None, "correlation", Scope.OPERATE)
TEXT = """
workflow_id: report
inputs:
  day: {type: string}
nodes:
  work: {handler: do, params: {day: "{{ inputs.day }}", since: "{{ default(job.interval_start, '') }}"}}
"""


def ask(url: str, query: str, *arguments: object) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query.encode(), arguments)
        return cursor.fetchall() if cursor.description else []


def workflow(text: str = TEXT) -> Workflow:
    return load_yaml(text, "report.yaml").require()


class Timetable:
    """A stack's schedules: made by a test, and ticked when it says so."""

    def __init__(self, url: str, clock: Clock, engine: EngineHarness) -> None:
        self.url, self.clock, self.engine = url, clock, engine
        self.known = {"report": Declaration(workflow())}
        self.owned = Schedules(engine.store.schedules(), self.find, lambda: engine.session, lambda rights: None)

    def find(self, name: str) -> Declaration:
        if name not in self.known:
            raise NotFound("workflow.not_found", name)
        return self.known[name]

    def set_clock(self, text: str) -> datetime:
        """The clock at this time of UTC, forward or back."""
        return self.clock.advance(datetime.fromisoformat(text).replace(tzinfo=UTC) - self.clock.now())

    async def add(
        self,
        cron: str,
        name: str = "nightly",
        inputs: dict[str, Json] | None = None,
        overlap: Overlap = Overlap.SKIP,
        catch_up: CatchUp = CatchUp.LATEST,
        timezone: str = "UTC",
    ) -> None:
        given = {"day": "{{ job.scheduled_at }}"} if inputs is None else inputs
        wanted = ScheduleChange("report", cron, timezone, given, overlap, catch_up)
        await self.owned.add("acme", name, wanted, BY)
        await self.tick()

    async def scheduler(self, store: PostgresStore | None = None) -> Scheduler:
        """Another orchestrator's."""
        used = store or self.engine.store
        session = await used.open_session(SessionKind.ORCHESTRATOR, [], 0, MINUTE)
        advances = BackgroundAdvances(Advancer(used, session, self.engine.results), asyncio.Event())
        return Scheduler(used.ticks(), Definitions(used), advances, Doorbell(used), session)

    async def tick(self) -> None:
        """An orchestrator looks until nothing is due."""
        scheduler = await self.scheduler()
        while await scheduler.make_due():
            pass

    async def history(self, name: str = "nightly") -> list[tuple[str, str]]:
        """The ticks, the oldest first."""
        page = await self.owned.history("acme", name, before=None, limit=1000)
        return [(one.scheduled_at.astimezone(UTC).strftime("%d %H:%M"), one.state) for one in reversed(page.items)]

    async def jobs(self, name: str = "nightly") -> list[str]:
        """The jobs of its ticks, the oldest first."""
        page = await self.owned.history("acme", name, before=None, limit=1000)
        return [one.job_id for one in reversed(page.items) if one.job_id]

    async def finish(self) -> None:
        """All tasks that can be claimed are done."""
        while claims := await self.engine.claim():
            await self.engine.finish(claims)


@pytest.fixture
def clock(database_url: str) -> Iterator[Clock]:
    with Clock(database_url) as stopped:
        yield stopped


@pytest.fixture
async def table(database_url: str, clock: Clock, engine: EngineHarness) -> Timetable:
    made = Timetable(database_url, clock, engine)
    made.set_clock("2026-03-02T12:00:00")
    return made


async def test_a_tick_makes_its_job_with_its_times(table: Timetable) -> None:
    """The job is its platform's, has begun, and its tasks get the instants of the tick."""
    await table.add("30 2 * * *")
    assert await table.history() == []

    table.set_clock("2026-03-03T02:30:00")
    await table.tick()
    assert await table.history() == [("03 02:30", "submitted")]
    (job,) = [(await table.engine.reads.job(one)).job for one in await table.jobs()]
    assert (job.platform, job.state, job.labels) == ("acme", JobState.RUNNING, {"schedule": "nightly"})
    assert job.parameters == {"day": "2026-03-03T02:30:00Z"}
    (claim,) = await table.engine.claim()
    assert claim.lane.tick == {"scheduled_at": "2026-03-03T02:30:00Z", "interval_start": "2026-03-02T02:30:00Z"}


async def test_equal_inputs_are_another_job_each_tick(table: Timetable) -> None:
    await table.add("0 * * * *", inputs={"day": "today"})
    for _ in range(3):
        table.clock.advance(HOUR)
        await table.tick()
        await table.finish()
    assert len(set(await table.jobs())) == 3


async def test_two_orchestrators_make_one_job_for_each_tick(table: Timetable) -> None:
    """Eight look at once, again and again, over real connections of their own."""
    await table.add("* * * * *", overlap=Overlap.QUEUE, catch_up=CatchUp.ALL)
    async with _stores(table.url, 4) as stores:
        schedulers = [await table.scheduler(store) for store in stores for _ in range(2)]
        for step in (1, 1, 7, 2, 20):
            table.clock.advance(MINUTE * step)
            for _ in range(step):
                await asyncio.gather(*(scheduler.make_due() for scheduler in schedulers))
            await table.finish()
    for _ in range(31):
        await table.tick()
        await table.finish()
    history = await table.history()
    assert len(history) == len({at for at, _ in history}) == 31
    assert len(set(await table.jobs())) == 31
    assert ask(table.url, "select count(*) from app.jobs") == [(31,)]


@asynccontextmanager
async def _stores(url: str, count: int) -> AsyncIterator[Sequence[PostgresStore]]:
    stores = [PostgresStore(url, name=f"test {number}", connections=2) for number in range(count)]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


async def test_an_orchestrator_that_dies_leaves_a_tick_whole_or_not_at_all(table: Timetable) -> None:
    """The commit fails after the job was made: nothing of the tick is there, and the next orchestrator makes it."""
    await table.add("30 2 * * *")
    table.set_clock("2026-03-03T02:30:00")
    ask(
        table.url,
        "create function test.die() returns trigger language plpgsql as 'begin raise sqlstate ''57P01''; end'",
    )
    ask(
        table.url,
        "create constraint trigger die after insert on app.jobs initially deferred"
        " for each row execute function test.die()",
    )
    await (await table.scheduler()).make_due()
    counted = "select (select count(*) from app.jobs), (select count(*) from app.schedule_ticks)"
    assert ask(table.url, counted) == [(0, 0)]

    ask(table.url, "drop trigger die on app.jobs")
    await table.tick()
    assert await table.history() == [("03 02:30", "submitted")]


@pytest.mark.parametrize(
    ("catch_up", "jobs", "missed"), [(CatchUp.NONE, [], 4), (CatchUp.LATEST, ["06 02:30"], 3), (CatchUp.ALL, 4, 0)]
)
async def test_after_an_outage_ticks_are_caught_up(
    table: Timetable, catch_up: CatchUp, jobs: list[str] | int, missed: int
) -> None:
    """Four nights without an orchestrator."""
    await table.add("30 2 * * *", overlap=Overlap.QUEUE, catch_up=catch_up)
    table.set_clock("2026-03-06T08:00:00")
    for _ in range(5):
        await table.tick()
        await table.finish()
    history = await table.history()
    made = [at for at, state in history if state == "submitted"]
    assert (len(made) if isinstance(jobs, int) else made) == jobs
    assert [state for _, state in history].count("missed") == missed
    table.set_clock("2026-03-07T02:30:00")
    await table.tick()
    assert (await table.history())[-1] == ("07 02:30", "submitted")


async def test_a_tick_that_is_a_little_late_is_on_time(table: Timetable) -> None:
    await table.add("30 2 * * *", catch_up=CatchUp.NONE)
    table.set_clock("2026-03-03T02:34:00")
    await table.tick()
    assert await table.history() == [("03 02:30", "submitted")]


async def test_after_a_year_only_the_last_hundred_ticks_are_kept(table: Timetable) -> None:
    """The first of the others says that they were missed, too; and it takes no time."""
    await table.add("* * * * *")
    table.clock.advance(365 * DAY)
    await table.tick()
    history = await table.history()
    assert len(history) == 101
    assert [state for _, state in history] == ["missed"] * 100 + ["submitted"]


async def test_a_clock_that_is_set_back_makes_no_tick_twice(table: Timetable) -> None:
    """A tick that was missed before gets its job when it comes again, and one that has a job gets no other."""
    await table.add("0 * * * *", overlap=Overlap.QUEUE)
    table.set_clock("2026-03-02T14:00:00")
    for at in ("2026-03-02T14:00:00", "2026-03-02T12:30:00", "2026-03-02T13:00:00", "2026-03-02T14:00:00"):
        table.set_clock(at)
        await table.engine.store.ticks().rewind()
        await table.tick()
        await table.finish()
    assert await table.history() == [("02 13:00", "submitted"), ("02 14:00", "submitted")]
    assert len(set(await table.jobs())) == 2
    table.set_clock("2026-03-02T15:00:00")
    await table.tick()
    assert (await table.history())[-1] == ("02 15:00", "submitted")


async def test_a_clock_that_was_years_ahead_for_a_while_stops_no_schedule(table: Timetable) -> None:
    await table.add("0 * * * *")
    table.set_clock("2036-01-01T00:00:00")
    await table.tick()
    await table.finish()
    table.set_clock("2026-03-02T12:20:00")
    await table.engine.store.ticks().rewind()
    await table.tick()
    table.set_clock("2026-03-02T13:00:00")
    await table.tick()
    assert ("02 13:00", "submitted") in await table.history()


async def test_overlap_skip_records_a_tick_without_a_job(table: Timetable) -> None:
    await table.add("0 * * * *", overlap=Overlap.SKIP)
    await _two_hours(table)
    page = await table.owned.history("acme", "nightly", before=None, limit=2)
    assert [one.state for one in page.items] == ["skipped", "submitted"]
    assert page.items[0].reason == f"job {page.items[1].job_id[:12]} of an earlier tick goes on"  # type: ignore[index]


async def test_overlap_queue_waits_for_the_job_before(table: Timetable) -> None:
    await table.add("0 * * * *", overlap=Overlap.QUEUE)
    await _two_hours(table)
    table.clock.advance(HOUR)
    await table.tick()
    assert [state for _, state in await table.history()] == ["submitted", "waiting", "waiting"]
    for made in (2, 3):
        await table.engine.finish(await table.engine.claim())
        await table.tick()
        assert [state for _, state in await table.history()].count("submitted") == made


async def test_overlap_cancel_previous_cancels_the_job_before(table: Timetable) -> None:
    await table.add("0 * * * *", overlap=Overlap.CANCEL_PREVIOUS)
    await _two_hours(table)
    states = [await table.engine.state(job) for job in await table.jobs()]
    assert states == [JobState.CANCELLED, JobState.RUNNING]


async def _two_hours(table: Timetable) -> None:
    for _ in range(2):
        table.clock.advance(HOUR)
        await table.tick()


async def test_a_paused_schedule_makes_nothing_and_catches_nothing_up(table: Timetable) -> None:
    await table.add("0 * * * *", catch_up=CatchUp.ALL)
    assert (await table.owned.pause("acme", "nightly", BY, paused=True)).status == "paused"
    table.clock.advance(DAY)
    await table.tick()
    assert await table.history() == []
    await table.owned.pause("acme", "nightly", BY, paused=False)
    await table.tick()
    assert await table.history() == []
    table.clock.advance(HOUR)
    await table.tick()
    assert await table.history() == [("03 13:00", "submitted")]


async def test_a_backfill_runs_one_job_after_another_and_no_tick_twice(table: Timetable) -> None:
    """Beside the regular ticks, which don't wait for it."""
    await table.add("0 * * * *")
    table.set_clock("2026-03-02T13:00:00")
    await table.tick()
    begin, end = datetime(2026, 3, 2, 10, tzinfo=UTC), datetime(2026, 3, 2, 23, tzinfo=UTC)
    planned = await table.owned.backfill("acme", "nightly", begin, end, 100, BY, dry_run=True)
    assert [one.runs for one in planned.ticks] == [True, True, True, False]
    assert len(await table.history()) == 1

    await table.owned.backfill("acme", "nightly", begin, end, 100, BY, dry_run=False)
    again = await table.owned.backfill("acme", "nightly", begin, end, 100, BY, dry_run=False)
    assert again.runs == 0
    for _ in range(3):
        await table.tick()
        assert [s for _, s in await table.history()].count("submitted") == len(await table.jobs())
        await table.finish()
    await table.tick()
    assert [state for _, state in await table.history()] == ["submitted"] * 4
    assert len(set(await table.jobs())) == 4
    with pytest.raises(InputError, match="more than 2 ticks"):
        await table.owned.backfill("acme", "nightly", begin, end, 2, BY, dry_run=True)


async def test_a_manual_run_makes_a_job_also_of_a_paused_schedule(table: Timetable) -> None:
    await table.add("0 * * * *")
    await table.owned.pause("acme", "nightly", BY, paused=True)
    made = await table.owned.run("acme", "nightly", BY)
    assert made.state == "submitted"
    job = (await table.engine.reads.job(made.job_id or "")).job
    assert job.parameters == {"day": "2026-03-02T12:00:00Z"}
    assert job.tick == {"scheduled_at": "2026-03-02T12:00:00Z", "interval_start": "2026-03-02T11:00:00Z"}


async def test_a_schedule_of_a_zone_follows_its_clocks(table: Timetable) -> None:
    """In Berlin, 29 March 2026 has no 2:30."""
    await table.add("30 2 * * *", timezone="Europe/Berlin")
    for at in ("2026-03-28T01:30:00", "2026-03-29T01:00:00", "2026-03-30T00:30:00"):
        table.set_clock(at)
        await table.tick()
        await table.finish()
    assert [at for at, state in await table.history() if state == "submitted"] == ["28 01:30", "29 01:00", "30 00:30"]


async def test_inputs_that_the_workflow_refuses_are_no_schedule(table: Timetable) -> None:
    with pytest.raises(InputError, match="nights is not an input"):
        await table.add("0 * * * *", inputs={"nights": 3})
    with pytest.raises(InputError, match=r"there is no inputs\.day"):
        await table.add("0 * * * *", inputs={"day": "{{ inputs.day }}"})
    with pytest.raises(NotFound):
        await table.owned.show("acme", "nightly")


async def test_another_platform_sees_no_schedule(table: Timetable) -> None:
    await table.add("0 * * * *")
    with pytest.raises(NotFound):
        await table.owned.show("globex", "nightly")
    assert (await table.owned.list_page("globex", before=None, limit=10)).items == ()
    assert len((await table.owned.list_page(None, before=None, limit=10)).items) == 1


async def test_a_name_is_taken_once(table: Timetable) -> None:
    await table.add("0 * * * *")
    with pytest.raises(Conflict, match="already"):
        await table.add("0 * * * *")


async def test_who_changes_a_schedule_is_in_the_audit(table: Timetable) -> None:
    await table.add("0 * * * *")
    await table.owned.change("acme", "nightly", ScheduleChange(cron="5 * * * *"), BY)
    await table.owned.pause("acme", "nightly", BY, paused=True)
    await table.owned.remove("acme", "nightly", BY)
    with psycopg.connect(table.url) as connection:
        connection.execute("set anabranch.platform = '*'")
        rows = connection.execute("select action, actor from app.audit order by number").fetchall()
    actions = ["schedule.added", "schedule.changed", "schedule.paused", "schedule.removed"]
    assert rows == [(action, "key:test") for action in actions]


async def test_the_schedule_of_a_file_comes_and_goes_with_it_and_keeps_its_pause(table: Timetable) -> None:
    own = replace(workflow(), schedule=Schedule("0 * * * *", "UTC", {"day": "x"}))
    follow = table.owned.follow_workflows
    await follow([Declaration(own)], complete=True)
    await follow([Declaration(own)], complete=True)
    shown = await table.owned.show("default", "report")
    assert (shown.origin, shown.status) == ("workflow", "active")
    await table.owned.pause("default", "report", BY_ADMIN, paused=True)
    await follow([Declaration(replace(own, schedule=Schedule("5 * * * *", "UTC", {"day": "x"})))], complete=True)
    shown = await table.owned.show("default", "report")
    assert (shown.cron, shown.status) == ("5 * * * *", "paused")

    await follow([], complete=False)
    assert (await table.owned.show("default", "report")).status == "paused"
    await follow([Declaration(workflow())], complete=True)
    assert (await table.owned.show("default", "report")).status == "retired"
    await follow([Declaration(own)], complete=True)
    assert (await table.owned.show("default", "report")).status == "paused"
    with pytest.raises(Conflict, match="file"):
        await table.owned.change("default", "report", ScheduleChange(cron="9 * * * *"), BY_ADMIN)


async def test_a_schedule_follows_its_workflow_and_says_when_it_can_not(table: Timetable) -> None:
    """New jobs run the new definition; where it refuses the inputs, ticks fail with the reason."""
    await table.add("0 * * * *")
    table.known["report"] = Declaration(workflow(TEXT.replace("handler: do", "handler: redo")))
    await table.owned.follow_workflows([table.known["report"]], complete=True)
    table.clock.advance(HOUR)
    await table.tick()
    (claim,) = await table.engine.claim()
    assert claim.lane.handler == "redo"
    await table.engine.finish([claim])

    changed = TEXT.replace("day: {type: string}", "night: {type: string, required: true}")
    broken = Declaration(workflow(changed.replace("inputs.day", "inputs.night")))
    await table.owned.follow_workflows([broken], complete=True)
    table.clock.advance(HOUR)
    await table.tick()
    assert [state for _, state in await table.history()] == ["submitted", "failed"]
    shown = await table.owned.show("acme", "nightly")
    assert shown.status == "broken"
    assert "day is not an input" in (shown.error or "")


async def test_old_ticks_are_removed(table: Timetable) -> None:
    await table.add("0 * * * *")
    table.clock.advance(HOUR)
    await table.tick()
    await table.finish()
    table.clock.advance(HOUR)
    await table.tick()
    table.clock.advance(91 * DAY)
    assert await table.engine.store.ticks().remove_old(90 * DAY) == 1
    assert await table.history() == [("02 14:00", "submitted")]


YEAR = "integer(at(split(job.scheduled_at, '-'), 0))"


@pytest.mark.parametrize(
    ("year", "said"), [(YEAR, "year must be at most 2025, not 2026"), (f"1 // ({YEAR} - 2026)", "division by zero")]
)
async def test_inputs_that_are_refused_at_a_tick_make_it_fail(table: Timetable, year: str, said: str) -> None:
    """They were right for the times with which the schedule was checked."""
    text = TEXT.replace("day: {type: string}", "day: {type: string}\n  year: {type: integer, max: 2025}")
    table.known["report"] = Declaration(workflow(text))
    await table.add("0 * * * *", inputs={"year": f"{{{{ {year} }}}}"})
    await _two_hours(table)
    page = await table.owned.history("acme", "nightly", before=None, limit=2)
    assert [(one.state, one.reason) for one in page.items] == [("failed", said)] * 2
    with pytest.raises(InputError, match=said):
        await table.owned.run("acme", "nightly", BY)


async def test_an_expression_that_fails_is_no_schedule_and_stops_no_others(table: Timetable) -> None:
    wrong: dict[str, Json] = {"day": "{{ at(split(job.scheduled_at, '-'), 9) }}"}
    with pytest.raises(InputError, match="9"):
        await table.add("0 * * * *", inputs=wrong)
    own = replace(workflow(), schedule=Schedule("0 * * * *", "UTC", wrong))
    other = replace(workflow(TEXT.replace("report", "other")), schedule=Schedule("0 * * * *", "UTC", {"day": "x"}))
    await table.owned.follow_workflows([Declaration(own), Declaration(other)], complete=True)
    shown = [(await table.owned.show("default", name)).status for name in ("report", "other")]
    assert shown == ["broken", "active"]


async def test_e10_a_tick_that_can_t_be_prepared_fails_and_the_next_one_has_its_chance(
    table: Timetable, monkeypatch: pytest.MonkeyPatch
) -> None:
    await table.add("0 * * * *")
    table.clock.advance(HOUR)
    with monkeypatch.context() as broken:
        broken.setattr(scheduler, "build_submission", lambda *_: 1 // 0)
        await table.tick()
    table.clock.advance(HOUR)
    await table.tick()
    assert [state for _, state in await table.history()] == ["failed", "submitted"]


async def test_e10_a_schedule_that_can_t_be_planned_is_tried_again(
    table: Timetable, monkeypatch: pytest.MonkeyPatch
) -> None:
    await table.add("0 * * * *")
    table.clock.advance(HOUR)
    orchestrator = await table.scheduler()
    with monkeypatch.context() as broken:
        broken.setattr(scheduler, "plan_ticks", lambda _: 1 // 0)
        broken.setattr(scheduler, "RETRY_INTERVAL", timedelta(0))
        await orchestrator.make_due()
    assert await table.history() == []
    await orchestrator.make_due()
    assert await table.history() == [("02 13:00", "submitted")]


@pytest.mark.parametrize("begin", ["0001-01-01T00:00:00+14:00", "1969-12-31T00:00:00Z", "9999-12-31T23:59:59-14:00"])
def test_a_range_of_a_backfill_is_in_years_that_clocks_have(begin: str) -> None:
    with pytest.raises(ValidationError, match="1970 to 9998"):
        BackfillRequest.model_validate_json(f'{{"begin": "{begin}", "end": "2026-01-01T00:00:00Z"}}')


async def test_s6_who_has_less_than_the_scope_of_a_schedule_makes_no_jobs_of_it(table: Timetable) -> None:
    await table.owned.add(
        "acme", "nightly", ScheduleChange("report", "0 * * * *", "UTC", {}), replace(BY, scope=Scope.ADMIN)
    )
    begin, end = datetime(2026, 3, 2, 10, tzinfo=UTC), datetime(2026, 3, 2, 11, tzinfo=UTC)
    for act in (
        table.owned.run("acme", "nightly", BY),
        table.owned.backfill("acme", "nightly", begin, end, 9, BY, dry_run=False),
    ):
        with pytest.raises(AnabranchError) as refused:
            await act
        assert refused.value.code == "auth.forbidden"
    assert await table.history() == []


async def test_the_times_of_manual_runs_are_whole_seconds_and_each_makes_a_job(table: Timetable) -> None:
    await table.add("0 * * * *")
    table.clock.advance(timedelta(milliseconds=1_100))
    made = [await table.owned.run("acme", "nightly", BY)]
    table.clock.advance(timedelta(milliseconds=100))
    made.append(await table.owned.run("acme", "nightly", BY))
    jobs = [(await table.engine.reads.job(one.job_id or "")).job for one in made]
    assert [job.parameters for job in jobs] == [{"day": "2026-03-02T12:00:01Z"}] * 2
    assert made[0].job_id != made[1].job_id


async def test_overlap_sees_a_job_that_was_retried(table: Timetable) -> None:
    """It had failed when a later tick came."""
    await table.add("0 * * * *")
    table.clock.advance(HOUR)
    await table.tick()
    (first,) = await table.jobs()
    (claim,) = await table.engine.claim()
    _, rights = await table.engine.end([claim], Ended.FAILED)
    await table.engine.advance(rights)
    table.clock.advance(HOUR)
    await table.tick()
    await table.finish()
    found = await table.engine.reads.find(first)
    again = RetryPlan(("work",), frozenset())
    retried = await table.engine.store.retry(first, found.last_event, again, table.engine.session)
    assert retried.right
    await table.engine.advance([retried.right])
    table.clock.advance(HOUR)
    await table.tick()
    assert [state for _, state in await table.history()] == ["submitted", "submitted", "skipped"]


async def test_waiting_ticks_of_a_retired_schedule_are_skipped(table: Timetable) -> None:
    own = replace(workflow(), schedule=Schedule("0 * * * *", "UTC", {"day": "x"}, Overlap.QUEUE))
    await table.owned.follow_workflows([Declaration(own)], complete=True)
    await table.tick()
    await _two_hours(table)
    await table.owned.follow_workflows([], complete=True)
    page = await table.owned.history("default", "report", before=None, limit=2)
    assert [(one.state, one.reason) for one in page.items] == [
        ("skipped", "the schedule was retired while it waited"),
        ("submitted", None),
    ]
    assert (await table.owned.show("default", "report")).waiting == 0


BY_ADMIN = ActionBy("*", "key:admin", None, "correlation", Scope.ADMIN)
