"""The heartbeat of a session, and the events that it sends to the loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from anabranch.engine.model import (
    Attempt,
    AttemptOutput,
    AttemptProgress,
    Claim,
    InHand,
    LaneFacts,
    ProgressReport,
    Purpose,
    RightId,
    SessionId,
    TaskKey,
)
from anabranch.engine.policy import TaskPolicy, TaskShape
from anabranch.engine.ports import Holdings, Refused, SessionGone
from anabranch.engine.sessions.heartbeat import Heartbeat
from anabranch.engine.sessions.live_session import DoorbellRang, HeldTask, LiveSession, SessionLost, StopAttempts
from tests.support.waiting import PATIENCE_SECONDS

SESSION = SessionId(7)
OFTEN = timedelta(milliseconds=30)
LONG = timedelta(seconds=30)
ATTEMPT = Attempt(TaskKey(1, 0), 1, 99)


class Connection:
    """A store's end of the heartbeat, with answers that are set beforehand; the last one is given again and again."""

    def __init__(self, *answers: list[Attempt] | None, refuses: bool = False) -> None:
        self._answers = list(answers) or [[]]
        self._refuses = refuses
        self._woken = threading.Event()
        self.beats: list[Holdings] = []
        self.said: list[AttemptProgress] = []
        self.printed: list[str] = []

    def beat(self, _session: SessionId, hands: Holdings) -> list[Attempt] | None:
        self.beats.append(hands)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def keep_output(self, _session: SessionId, printed: Sequence[AttemptOutput]) -> set[TaskKey]:
        self.printed.extend(one.text for one in printed)
        return {one.attempt.key for one in printed}

    def progress(self, _session: SessionId, said: Sequence[AttemptProgress]) -> set[TaskKey]:
        self.said.extend(said)
        if self._refuses:
            raise Refused("test.refused", "no")
        return {one.attempt.key for one in said}

    def wait(self, timeout: timedelta) -> bool:
        self._woken.wait(timeout.total_seconds())
        return False

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        pass


@asynccontextmanager
async def beating(connection: Connection, live: LiveSession, lease: timedelta = OFTEN) -> AsyncIterator[Heartbeat]:
    heartbeat = Heartbeat(lambda: connection, live, lease)
    heartbeat.start()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield heartbeat
    finally:
        await asyncio.to_thread(heartbeat.stop)


def hold(live: LiveSession) -> HeldTask:
    facts = LaneFacts("j", "w", "h", "c", "n", Purpose.WORK, 1, 0, "h", {}, TaskPolicy(), TaskShape(), None)
    claim = Claim(ATTEMPT.key, ATTEMPT.number, ATTEMPT.token, 0, 0, 0, "h", None, None, facts)
    held = live.tasks[claim.key] = HeldTask(claim, 0.0)
    return held


async def test_a_heartbeat_rings_when_it_connects() -> None:
    live = LiveSession(SESSION)
    async with beating(Connection(), live, LONG):
        assert await live.next_event() == DoorbellRang()


async def test_e7_attempts_to_stop_are_sent_to_the_loop() -> None:
    live = LiveSession(SESSION)
    async with beating(Connection([ATTEMPT], []), live):
        assert [await live.next_event() for _ in range(2)] == [DoorbellRang(), StopAttempts([ATTEMPT])]


async def test_e3_a_session_that_is_gone_is_lost_and_beats_no_more() -> None:
    live, connection = LiveSession(SESSION), Connection([], None)
    async with beating(connection, live):
        assert await live.next_event() == DoorbellRang()
        with pytest.raises(SessionGone):
            await live.next_event()
    assert len(connection.beats) == 2


async def test_a_beat_says_what_is_in_hand_and_what_keeps_the_process_from_its_work() -> None:
    live, connection = LiveSession(SESSION), Connection()
    hold(live).started = True
    live.rights.add(RightId(5))
    live.trouble = "no disk"
    async with beating(connection, live):
        while not connection.beats:
            await asyncio.sleep(0.01)
    assert connection.beats[0] == Holdings([InHand(ATTEMPT, True)], [RightId(5)], "no disk")


@pytest.mark.parametrize("refuses", [False, True])
async def test_progress_is_reported_once_also_where_it_is_refused(refuses: bool) -> None:
    live, connection = LiveSession(SESSION), Connection(refuses=refuses)
    held = hold(live)
    held.progress = ProgressReport(1)
    async with beating(connection, live):
        while held.stored_progress is not held.progress:
            await asyncio.sleep(0.01)
        beats = len(connection.beats)
        while len(connection.beats) < beats + 3:
            await asyncio.sleep(0.01)
    assert connection.said == [AttemptProgress(ATTEMPT, ProgressReport(1))]


class Output:
    """What a handler prints: each time one line more, and the beginning of the next."""

    size = 0

    def peek(self) -> tuple[int, str]:
        return self.size, "line\n" * self.size


async def test_what_a_handler_prints_is_reported_while_it_runs_and_once() -> None:
    live, connection = LiveSession(SESSION), Connection()
    held = hold(live)
    held.output = output = Output()
    async with beating(connection, live):
        for lines in (1, 3):
            output.size = lines
            while held.stored_output < lines:
                await asyncio.sleep(0.01)
        held.ended, output.size = True, 4  # the report has it
        beats = len(connection.beats)
        while len(connection.beats) < beats + 3:
            await asyncio.sleep(0.01)
    assert connection.printed == ["line\n", "line\n" * 3]


async def test_a_long_log_is_reported_less_often_than_a_short_one() -> None:
    """Each report replaces the one before: a long log would be written again and again."""
    live, connection = LiveSession(SESSION), Connection()
    held = hold(live)
    held.output = output = Output()
    output.size = 2_000_000
    async with beating(connection, live):
        while held.stored_output < output.size:
            await asyncio.sleep(0.01)
        output.size += 1
        beats = len(connection.beats)
        while len(connection.beats) < beats + 3:
            await asyncio.sleep(0.01)
    assert len(connection.printed) == 1


async def test_w4_a_loop_that_does_not_turn_for_two_leases_is_noticed() -> None:
    live, stuck = LiveSession(SESSION), threading.Event()
    heartbeat = Heartbeat(Connection, live, OFTEN, stuck.set)
    heartbeat.start()
    assert stuck.wait(30), "this thread blocks the loop"
    await asyncio.to_thread(heartbeat.stop)


async def test_rings_that_come_together_are_answered_with_one_turn() -> None:
    live = LiveSession(SESSION)
    for _ in range(3):
        live.send(DoorbellRang())
    await live.wait(LONG)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await live.wait(LONG)


async def test_e3_a_lost_session_is_noticed_behind_events_that_came_before() -> None:
    live = LiveSession(SESSION)
    for event in (DoorbellRang(), StopAttempts([ATTEMPT]), SessionLost()):
        live.send(event)
    with pytest.raises(SessionGone):
        await live.wait(LONG)
