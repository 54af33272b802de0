"""A live session: the tasks and rights that its process holds, and the events that its heartbeat sends."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from anabranch.engine.model import Attempt, Claim, InHand, ProgressReport, RightId, SessionId, TaskKey
from anabranch.engine.ports import Holdings, SessionGone, TakenRight
from anabranch.errors import AnabranchError
from anabranch.workflows.definition import Workflow

__all__ = ["DoorbellRang", "HeldTask", "LiveSession", "SessionEvent", "SessionLost", "StopAttempts"]


@dataclass(frozen=True)
class DoorbellRang:
    """A doorbell rang: there may be something to do."""


@dataclass(frozen=True)
class StopAttempts:
    """These attempts are cancelled, or others have them now."""

    attempts: Sequence[Attempt]


@dataclass(frozen=True)
class SessionLost:
    """The session expired: other processes have all its tasks and rights."""


SessionEvent = DoorbellRang | StopAttempts | SessionLost


class Output(Protocol):
    """What an attempt prints, read while it runs."""

    @property
    def size(self) -> int:
        """How many bytes were printed so far."""

    def peek(self) -> tuple[int, str]:
        """The size so far, and the text of the whole lines that are kept; called in another thread."""


@dataclass(eq=False, slots=True)
class HeldTask:
    """A claimed task, until its report is answered."""

    claim: Claim
    taken: float
    workflow: Workflow | None = None
    fault: AnabranchError | None = None
    started: bool = False
    ended: bool = False
    given_up: bool = False
    cancelled: bool = False
    stopping: bool = False
    progress: ProgressReport | None = None
    stored_progress: ProgressReport | None = None
    output: Output | None = None
    stored_output: int = 0
    output_due: float = 0.0
    begun: float = 0.0
    rights: tuple[TakenRight, ...] = ()
    traceparent: str | None = None

    @property
    def call_id(self) -> tuple[str, int]:
        """The attempt, as the children know it."""
        return self.claim.task_id, self.claim.attempt


class LiveSession:
    """The loop changes what is held and reads the events; the heartbeat's thread does the reverse."""

    def __init__(self, session: SessionId) -> None:
        self.session = session
        self.tasks: dict[TaskKey, HeldTask] = {}
        self.rights: set[RightId] = set()
        self.trouble: str | None = None
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[SessionEvent] = asyncio.Queue()

    def attempts(self) -> list[InHand]:
        """The attempts that the process holds."""
        return [InHand(held.claim.fence, held.started) for held in list(self.tasks.values())]

    def hands(self) -> Holdings:
        """All that the process holds, and what blocks its work, if anything."""
        return Holdings(self.attempts(), list(self.rights), self.trouble)

    def send(self, event: SessionEvent) -> None:
        """Put an event on the queue; from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def next_event(self) -> DoorbellRang | StopAttempts:
        """Wait for the next event; SessionGone when the session is lost."""
        event = await self._events.get()
        if isinstance(event, SessionLost):
            raise SessionGone(self.session)
        return event

    async def wait(self, longest: timedelta) -> None:
        """Sleep until an event, but at most `longest`; SessionGone when the session is lost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest.total_seconds()):
                await self.next_event()
        while not self._events.empty():  # one turn answers them all
            await self.next_event()
