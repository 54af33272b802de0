"""Batches submissions: those that arrive during a call to the store go together in the next."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import structlog

from anabranch.engine.advancing.lanes import OpenLane
from anabranch.engine.model import SessionId
from anabranch.engine.ports import JobStore, Refused, Submitted
from anabranch.engine.sessions.doorbell import Doorbell
from anabranch.engine.submitting.submission import Submission
from anabranch.errors import AnabranchError

__all__ = ["Answer", "SubmitBatcher"]

log = structlog.get_logger()
MAX_BATCH_JOBS = 100
MAX_BATCH_CHARS = 1_000_000
Answer = Submitted | AnabranchError
Waiting = tuple[Submission, "asyncio.Future[Submitted]"]


class SubmitBatcher:
    """Submits under one session. No submission waits for others, but under load many share a commit."""

    def __init__(self, store: JobStore, session: SessionId) -> None:
        """For this session only: a new session needs a new one."""
        self._store = store
        self._session = session
        self._bell = Doorbell(store)
        self._waiting: deque[Waiting] = deque()
        self._calling: asyncio.Task[None] | None = None

    async def submit(self, submission: Submission) -> Submitted:
        """The job of a submission."""
        answer: asyncio.Future[Submitted] = asyncio.get_running_loop().create_future()
        self._waiting.append((submission, answer))
        if self._calling is None or self._calling.done():
            self._calling = asyncio.create_task(self._call())
        return await answer

    async def submit_batch(self, submissions: Sequence[Submission]) -> list[Answer]:
        """The job of each submission, or why there is none; all in one commit, unless one of them can't be stored."""
        try:
            answers = await self._store.submit_batch(submissions, self._session)
        except Refused as error:  # it hurts only itself (E10)
            if len(submissions) > 1:
                half = len(submissions) // 2
                return [*await self.submit_batch(submissions[:half]), *await self.submit_batch(submissions[half:])]
            if submissions[0].begins:  # without its start: that fails the job, and not the submission
                return await self.submit_batch([replace(submissions[0], begins=False)])
            return [error]
        except AnabranchError as error:
            return [error] * len(submissions)
        self._bell.ring(queue for pair in zip(submissions, answers, strict=True) for queue in _opened(*pair))
        return [*answers]

    async def _call(self) -> None:
        while self._waiting:
            batch = self._take()
            try:
                answers = await self.submit_batch([submission for submission, _ in batch])
            except Exception:  # the next ones must not wait forever
                log.exception("submit.crashed")
                answers = [AnabranchError("internal", "something went wrong inside the API")] * len(batch)
            for (_, waiting), answer in zip(batch, answers, strict=True):
                _resolve(waiting, answer)

    def _take(self) -> list[Waiting]:
        batch, size = [self._waiting.popleft()], 0
        while self._waiting and len(batch) < MAX_BATCH_JOBS and size < MAX_BATCH_CHARS:
            batch.append(self._waiting.popleft())
            size += len(batch[-1][0].parameters_text)
        return batch


def _opened(submission: Submission, answer: Answer) -> list[str]:
    """The queues in which the start of a new job opened lanes."""
    if not isinstance(answer, Submitted) or not answer.created or answer.replayed:
        return []
    return [change.queue for change in submission.first_transitions or () if isinstance(change, OpenLane)]


def _resolve(waiting: "asyncio.Future[Submitted]", answer: Answer) -> None:
    if waiting.done():  # the caller is gone
        return
    if isinstance(answer, Submitted):
        waiting.set_result(answer)
    else:
        waiting.set_exception(answer)
