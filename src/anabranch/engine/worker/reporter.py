"""Collect reports and send them, and claim with them; what the store can't hold is found and ends alone."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import accumulate

import structlog

from anabranch.engine.failure import Failure
from anabranch.engine.model import Answer, Attempt, Ended, InHand, Report, SessionId
from anabranch.engine.ports import ClaimRequest, Refused, TaskQueue, Turn
from anabranch.errors import Unavailable

__all__ = ["NO_CLAIMS", "Outbox", "Reporter"]

log = structlog.get_logger()
NO_CLAIMS = ClaimRequest((), 0, {})
MAX_BATCH_REPORTS = 200
MAX_BATCH_CHARS = 8_000_000
MAX_INTERRUPTIONS = 3  # after so many in a row, reports are sent one by one: one of them may be the cause


class Outbox:
    """Reports that wait to be sent; writing wakes the loop."""

    def __init__(self, wake: asyncio.Event) -> None:
        self._wake = wake
        self._reports: list[Report] = []
        self._interruptions = 0
        self._to_send_alone = 0
        self._reasons: dict[Attempt, str] = {}

    def __len__(self) -> int:
        """How many reports wait."""
        return len(self._reports)

    @property
    def trouble(self) -> str | None:
        """Why the report was postponed that has waited longest; others may be sent meanwhile."""
        return next(iter(self._reasons.values()), None)

    def write(self, reports: Sequence[Report]) -> None:
        """Add reports."""
        self._reports.extend(reports)
        self._wake.set()

    def next_batch(self) -> list[Report]:
        """The next batch to send, of bounded count and size."""
        if self._to_send_alone:
            return self._reports[:1]
        sizes = accumulate(
            len(report.body or "") + len(report.log or "") + len(report.handed or "")
            for report in self._reports[:MAX_BATCH_REPORTS]
        )
        return self._reports[: max(1, sum(size <= MAX_BATCH_CHARS for size in sizes))]

    def remove(self, batch: Sequence[Report]) -> None:
        """Remove a batch that was sent."""
        self._interruptions = 0
        self._to_send_alone = max(self._to_send_alone - 1, 0)
        del self._reports[: len(batch)]
        for report in batch:
            self._reasons.pop(report.attempt, None)

    def postpone(self, batch: Sequence[Report], reason: str) -> None:
        """Send what was interrupted later: all of it again at first, then each alone, that none waits for a bad one."""
        self._interruptions += 1
        self._reasons |= {report.attempt: reason for report in batch}
        if self._to_send_alone:
            self._reports[:] = [*self._reports[len(batch) :], *batch]
            self._to_send_alone -= 1
        elif self._interruptions >= MAX_INTERRUPTIONS:
            self._to_send_alone = len(self._reports)


class Reporter:
    """Reports and claims for one session.

    Only what the store refuses as data is a report's fault, and only when it was sent alone, without a claim and on a
    fresh connection. Everything else is the environment's: it raises Unavailable, and all reports are sent again.
    """

    def __init__(self, store: TaskQueue, session: SessionId, in_hand: Callable[[], Sequence[InHand]]) -> None:
        """For this session only: it is part of every report's fence (E3)."""
        self._store = store
        self._session = session
        self._in_hand = in_hand
        self._claims_failed = False
        self._reply_lost = False

    async def send(self, batch: Sequence[Report], wanted: ClaimRequest) -> Turn:
        """Report a batch and claim; what was claimed by a call whose reply was lost goes back before the next."""
        if self._reply_lost:
            await self._reconcile()
        self._reply_lost = True
        turn = await (self._send(batch, wanted) if wanted.limit else self._report(batch))
        self._reply_lost = False
        return turn

    async def _reconcile(self) -> None:
        """Give back what is not in hand; a claim that can't be given back must not stop the worker (E10)."""
        try:
            await self._store.reconcile(self._session, self._in_hand())
        except Refused as error:
            log.warning("reconcile.failed", reason=error.message)
        except Unavailable as error:
            if error.code != "database.interrupted":
                raise
            log.warning("reconcile.failed", reason=error.message)

    async def _send(self, batch: Sequence[Report], wanted: ClaimRequest) -> Turn:
        """Report and claim in one call. Where that fails, the claim is made apart until one passes, so that its error
        is no report's."""
        if not self._claims_failed:
            try:
                return await self._store.turn(self._session, batch, wanted)
            except Refused as error:
                log.warning("report.refused", reason=error.message)
            except Unavailable as error:
                if error.code != "database.interrupted":
                    raise
                log.warning("turn.interrupted", reason=error.message)
        self._claims_failed = True
        reported = await self._report(batch) if batch else Turn([], [], [])
        try:
            claims = await self._store.claim_apart(self._session, wanted.queues)
        except Unavailable:
            if not batch:
                raise
            return reported
        self._claims_failed = False
        return Turn(reported.answers, reported.rights, claims)

    async def _report(self, batch: Sequence[Report]) -> Turn:
        """Report without a claim; a refused batch is halved until the bad report is alone."""
        try:
            return await self._store.turn(self._session, batch, NO_CLAIMS)
        except Refused as error:
            if len(batch) == 1:
                return await self._report_alone(batch[0], error)
        middle = len(batch) // 2
        first, second = await self._report(batch[:middle]), await self._report(batch[middle:])
        return Turn([*first.answers, *second.answers], [*first.rights, *second.rights], [])

    async def _report_alone(self, report: Report, error: Refused) -> Turn:
        """Report what was refused once more on a fresh connection; then that it can't be stored, as a failure or at
        least as a crash. What can't be stored in any form is set aside, so that others can go on."""
        await self._store.renew()
        reason = Failure(code="task.unstorable", message=error.message, category="bug").to_text()
        for form in (
            report,
            Report(report.attempt, Ended.FAILED, reason),
            Report(report.attempt, Ended.CRASHED, reason),
        ):
            try:
                return await self._store.turn(self._session, [form], NO_CLAIMS)
            except Refused as refused:
                error = refused
        log.error("report.set_aside", attempt=report.attempt, ended=report.ended, reason=error.message)
        return Turn([Answer.REFUSED], [], [])
