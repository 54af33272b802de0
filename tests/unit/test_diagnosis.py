"""Each part is judged by what is known of it, says since when and what to do, and the worst wins (O1, O2)."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from anabranch.api.health.diagnosis import (
    Onsets,
    Part,
    diagnose,
    diagnose_disk,
    diagnose_jobs,
    diagnose_loop,
    diagnose_plugins,
    worst,
)
from anabranch.api.streaming.shared_query import SharedQuery
from anabranch.contract.stack import Status
from anabranch.engine.read_models import Duty, Horizon, StuckJobs, Vitals
from anabranch.errors import Unavailable

WELL = Vitals(
    workers=1,
    orchestrators=1,
    duties={"sweeper": Duty(1.0, 5.0)},
    untaken_rights=0,
    oldest_right_seconds=None,
    queues={"default": 3},
    served={"default": 1},
    missing_handlers={},
    troubles=[],
    connections=10,
    all_connections=20,
    max_connections=100,
    release=7,
    our_release=7,
    horizon=Horizon("process 1 (psql)", 3_599.0),
)


def judged(vitals: Vitals, took: float = 0.01) -> dict[str, Part]:
    return {part.name: part for part in diagnose(vitals, took)}


def test_o1_all_is_ok_when_all_is_well_and_nothing_is_to_do() -> None:
    parts = judged(WELL)
    assert {part.status for part in parts.values()} == {"ok"}
    assert {part.remedy for part in parts.values()} == {""}


@pytest.mark.parametrize(("age", "status"), [(None, "down"), (0.0, "ok"), (19.9, "ok"), (20.1, "down")])
def test_o2_a_sweeper_is_down_after_three_rounds_and_five_seconds(age: float | None, status: Status) -> None:
    duties = {} if age is None else {"sweeper": Duty(age, 5.0)}
    assert judged(replace(WELL, duties=duties))["sweeper"].status == status


def test_o2_every_duty_is_judged_by_its_own_beat() -> None:
    parts = judged(replace(WELL, duties={"sweeper": Duty(1.0, 5.0), "retention": Duty(500.0, 60.0)}))
    assert (parts["sweeper"].status, parts["retention"].status) == ("ok", "down")


def test_o2_time_in_which_no_process_ran_is_not_lateness() -> None:
    parts = judged(replace(WELL, duties={"sweeper": Duty(1.0, 5.0), "clearing": Duty(500.0, 60.0, served_seconds=9.0)}))
    assert (parts["clearing"].status, parts["clearing"].detail[:16]) == ("ok", "removes work fil")


def test_g5_a_plugin_that_was_refused_is_named_with_its_error() -> None:
    part = diagnose_plugins({"plugins/means.py": "SyntaxError: invalid syntax (means.py, line 3)"})
    assert (part.status, diagnose_plugins({}).status) == ("degraded", "ok")
    assert part.detail == "plugins/means.py was refused: SyntaxError: invalid syntax (means.py, line 3)"


@pytest.mark.parametrize(
    ("change", "part", "status"),
    [
        ({"workers": 0}, "workers", "degraded"),
        ({"orchestrators": 0}, "orchestrators", "down"),
        ({"served": {}}, "queue default", "degraded"),
        ({"missing_handlers": {"raster.split": 2}}, "handlers", "degraded"),
        ({"untaken_rights": 2, "oldest_right_seconds": 11.0}, "advances", "degraded"),
        ({"untaken_rights": 2, "oldest_right_seconds": 61.0}, "advances", "down"),
        ({"connections": 51, "all_connections": 51}, "connections", "degraded"),
        ({"all_connections": 91}, "connections", "degraded"),
        ({"release": 8}, "schema", "degraded"),
        ({"release": 6}, "schema", "degraded"),
        ({"release": None}, "schema", "degraded"),
        ({"horizon": Horizon("replication slot standby", 3_601.0)}, "vacuum", "degraded"),
    ],
)
def test_o1_a_part_that_is_not_well_says_what_to_do(change: dict[str, object], part: str, status: Status) -> None:
    parts = judged(replace(WELL, **change))  # type: ignore[arg-type]  # fields of Vitals
    assert parts[part].status == status
    assert parts[part].remedy
    assert [other.name for other in parts.values() if other.status != "ok"] == [part]


def test_o1_a_slow_database_is_degraded_and_a_silent_one_down() -> None:
    assert judged(WELL, took=0.6)["database"].status == "degraded"
    silent = {
        part.name: part for part in diagnose(Unavailable("database.unreachable", "secret", remedy="Start it."), 0)
    }
    assert {part.status for part in silent.values()} == {"down"}
    assert (silent["database"].detail, silent["database"].remedy) == ("database.unreachable", "Start it.")


@pytest.mark.parametrize(("free", "status"), [(1000, "ok"), (999, "degraded"), (99, "down"), (None, "down")])
def test_o1_a_disk_is_degraded_below_the_limit_and_down_below_a_tenth(free: int | None, status: Status) -> None:
    assert diagnose_disk("disk home", free, 1000).status == status


def test_o1_the_loop_is_judged_by_its_tick_and_its_session() -> None:
    assert diagnose_loop(0.1, has_session=True).status == "ok"
    assert diagnose_loop(3, has_session=True).status == "degraded"
    assert diagnose_loop(11, has_session=True).status == "down"
    assert diagnose_loop(0.1, has_session=False).status == "down"


def test_e1_a_stuck_job_is_named() -> None:
    assert diagnose_jobs(StuckJobs(0, ())).status == "ok"
    assert "abc" in diagnose_jobs(StuckJobs(0, ("abc",))).detail


def test_o1_the_worst_part_wins() -> None:
    parts = [Part("a", "ok", ""), Part("b", "degraded", ""), Part("c", "down", "")]
    assert [worst(parts[:number]) for number in (1, 2, 3)] == ["ok", "degraded", "down"]


def test_o1_a_part_says_since_when_it_is_so() -> None:
    onsets = Onsets()
    first, again, changed = (onsets.date(iter([Part("a", status, "")]))[0].since for status in ("ok", "ok", "down"))
    assert first == again
    assert first is not None
    assert changed is not None
    assert changed > first


async def test_o1_a_question_that_hangs_is_given_up_and_asked_anew() -> None:
    never, asked = asyncio.Event(), 0

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await never.wait()
        return asked

    watch = SharedQuery(ask, "it", patience=0.2)
    answers = await asyncio.gather(*(watch.try_get() for _ in range(20)))
    assert asked == 1
    assert all(isinstance(answer, Unavailable) for answer in answers)
    never.set()
    assert await watch.get() == 2


async def test_o1_an_answer_is_kept_while_it_is_fresh_and_a_mistake_never() -> None:
    answers: Iterator[int | Unavailable] = iter([Unavailable("x", "no"), 1, 2])

    async def ask() -> int:
        answer = next(answers)
        if isinstance(answer, Unavailable):
            raise answer
        return answer

    watch = SharedQuery(ask, "it", patience=1, fresh=60)
    assert isinstance(await watch.try_get(), Unavailable)
    assert [await watch.get(), await watch.get()] == [1, 1]
