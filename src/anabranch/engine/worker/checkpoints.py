"""Progress and checkpoints of running handlers, stored under the attempt's token."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial

import structlog

from anabranch.engine.model import Attempt, ProgressReport, SessionId
from anabranch.engine.ports import Refused, TaskQueue
from anabranch.engine.sessions.live_session import HeldTask
from anabranch.engine.worker.captured_output import Printed
from anabranch.engine.worker.processes.handler_process import Saved
from anabranch.errors import Interrupted, TaskError, Transient, Unavailable

__all__ = ["CheckpointWriter", "HandlerLine"]

log = structlog.get_logger()
MAX_PAUSE_SECONDS = 1.0


class CheckpointWriter:
    """Stores the checkpoints of one session's attempts."""

    def __init__(self, queue: TaskQueue, session: SessionId) -> None:
        """For this session only: it is part of the token (E3)."""
        self._queue = queue
        self._session = session

    async def keep(self, attempt: Attempt, number: int, phase: str, state: str) -> TaskError | None:
        """Store a checkpoint, however long the store is unavailable; returns the error for the handler, if any."""
        pause = MAX_PAUSE_SECONDS / 16
        while True:
            try:
                if await self._queue.checkpoint(self._session, attempt, number, phase, state):
                    return None
            except Unavailable as error:
                log.warning("checkpoint.waiting", attempt=attempt, reason=error.message)
            except Refused as error:
                return Transient(f"the checkpoint was refused: {error.message}", code="task.checkpoint_refused")
            else:
                return Interrupted("the task was cancelled, or others have it now", code="task.lost")
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)


class HandlerLine:
    """The worker's end of the line to a handler that runs in a child or in the loop."""

    def __init__(self, held: HeldTask, writer: CheckpointWriter) -> None:
        """Made in the loop."""
        self._held = held
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._saved = 0

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled."""
        return self._held.cancelled

    @property
    def stopping(self) -> bool:
        """Whether the worker is about to stop."""
        return self._held.stopping

    def end(self) -> None:
        """Note that the handler's answer is here: whatever comes now, it counts (W3)."""
        self._held.ended = True

    def capture(self, printed: Printed) -> None:
        """Note where to read what it prints."""
        self._held.output = printed

    def progress(self, progress: ProgressReport) -> None:
        """Note how far it is."""
        self._held.progress = progress

    def save(self, phase: str, state: str) -> Callable[[], Awaitable[None]]:
        """For a handler in the loop: what it must await."""
        self._saved += 1
        return partial(self._save, Saved(self._saved, phase, state))

    def keep(self, saved: Saved) -> "Future[TaskError | None]":
        """For a handler in a child, from the thread that waits for it."""
        return asyncio.run_coroutine_threadsafe(self._keep(saved), self._loop)

    async def _save(self, saved: Saved) -> None:
        if error := await self._keep(saved):
            raise error

    async def _keep(self, saved: Saved) -> TaskError | None:
        claim = self._held.claim
        error = await self._writer.keep(claim.fence, saved.number, saved.phase, saved.state)
        if isinstance(error, Interrupted):
            log.warning("checkpoint.stale", task=claim.task_id, attempt=claim.attempt)
            self._held.cancelled = True
        return error
