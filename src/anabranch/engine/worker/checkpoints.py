"""Checkpoints kept under the attempt's token; while the store is away, it is tried again."""

import asyncio

import structlog

from anabranch.engine.model import Attempt, SessionId
from anabranch.engine.ports import Refused, TaskQueue
from anabranch.errors import Interrupted, TaskError, Transient, Unavailable

__all__ = ["CheckpointWriter"]

log = structlog.get_logger()
LONGEST_PAUSE_SECONDS = 1.0


class CheckpointWriter:
    """Keeps the checkpoints of one session's attempts."""

    def __init__(self, queue: TaskQueue, session: SessionId) -> None:
        """For this session only: it is part of the token (E3)."""
        self._queue = queue
        self._session = session

    async def keep(self, attempt: Attempt, number: int, phase: str, state: str) -> TaskError | None:
        """Keep a checkpoint, however long the store is away; the error that the handler gets, if it can't be kept."""
        pause = LONGEST_PAUSE_SECONDS / 16
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
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
