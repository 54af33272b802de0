"""The duty that delivers messages: takes what is due, calls, and records how it went (P9)."""

import asyncio
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import structlog

from anabranch.engine.model import SessionId
from anabranch.engine.ports import NO_TRACER, Tracer
from anabranch.errors import AnabranchError
from anabranch.outbound.post import Response, post
from anabranch.outbound.url import read_url
from anabranch.platform.notifications.message import build_body, build_headers
from anabranch.platform.notifications.ports import CallResult, DueDelivery, Outbox
from anabranch.sealing import Sealer

__all__ = ["Deliverer", "DeliveryOptions"]

log = structlog.get_logger()
MAX_CALLS = 400
MAX_CALLS_PER_ENDPOINT = 16
MAX_BATCH = 200
POLL_INTERVAL = timedelta(seconds=1)
BUSY_INTERVAL = timedelta(milliseconds=20)
TICK_INTERVAL = timedelta(seconds=5)
CLEAN_INTERVAL = timedelta(seconds=60)
MAX_RETRY_AFTER_SECONDS = 3600.0
MAX_RESPONSE_CHARACTERS = 1000
GONE = 410


@dataclass(frozen=True)
class DeliveryOptions:
    """How to deliver: what links begin with, which hosts may be private, how long the log is kept, and the tracer."""

    base_url: Callable[[], str]
    hosts: Collection[str] = ()
    keep: timedelta = timedelta(days=30)
    tracer: Tracer = NO_TRACER


@dataclass
class _Work:
    """What one session has in hand."""

    session: SessionId
    calls: dict[int, "asyncio.Task[None]"] = field(default_factory=dict)
    results: list[CallResult] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def in_hand(self) -> list[int]:
        return [*self.calls, *(result.id for result in self.results)]


class Deliverer:
    """Delivers under the session of its process; several processes may do so at once."""

    def __init__(self, outbox: Outbox, sealer: Sealer, options: DeliveryOptions) -> None:
        self._outbox = outbox
        self._sealer = sealer
        self._options = options

    async def run(self, session: SessionId) -> None:
        """Deliver until cancelled; what is in hand then is taken over when the session has ended."""
        work = _Work(session)
        listening = asyncio.create_task(self._listen(work))
        try:
            while True:
                try:
                    await self._serve(work)
                except AnabranchError as error:
                    log.warning("webhooks.interrupted", reason=error.message)
                except Exception:  # the loop must go on; without its heartbeat, health shows it
                    log.exception("webhooks.failed")
                await asyncio.sleep(POLL_INTERVAL.total_seconds())
        finally:
            for task in (listening, *work.calls.values()):
                task.cancel()
            await asyncio.wait([listening, *work.calls.values()])
            await self._outbox.close()

    async def _serve(self, work: _Work) -> None:
        """Deliver while all goes well. Who can't be woken looks again soon, and then less often."""
        clean_at = tick_at = 0.0
        pause = BUSY_INTERVAL
        while True:
            if time.monotonic() >= tick_at:
                await self._outbox.tick(work.session, TICK_INTERVAL)
                tick_at = time.monotonic() + TICK_INTERVAL.total_seconds()
            work.wake.clear()
            if await self._turn(work):
                pause = BUSY_INTERVAL
                await _wait(work.wake, pause)
                continue
            if time.monotonic() >= clean_at and not await self._outbox.remove_old(self._options.keep):
                clean_at = time.monotonic() + CLEAN_INTERVAL.total_seconds()
            can_be_woken = await self._outbox.begin_wait(work.session)
            pause = POLL_INTERVAL if can_be_woken else min(2 * pause, POLL_INTERVAL)
            try:
                if not await self._turn(work):
                    await _wait(work.wake, pause)
            finally:
                if can_be_woken:
                    await self._outbox.end_wait()

    async def _turn(self, work: _Work) -> bool:
        """Record what has ended and take what is due; whether there was anything."""
        ended = work.results[:MAX_BATCH]
        if ended:
            await self._outbox.end(work.session, ended)
            del work.results[: len(ended)]
        limit = min(MAX_BATCH, MAX_CALLS - len(work.calls))
        taken: list[DueDelivery] = []
        if limit > 0:
            taken = await self._outbox.take(work.session, work.in_hand(), limit=limit, each=MAX_CALLS_PER_ENDPOINT)
        for due in taken:
            work.calls[due.id] = asyncio.create_task(self._deliver(work, due))
        return bool(ended or taken)

    async def _deliver(self, work: _Work, due: DueDelivery) -> None:
        began = time.monotonic()
        try:
            result = await self._call_traced(due, began)
        except AnabranchError as error:
            result = CallResult(due.id, "failed", time.monotonic() - began, error=error.message)
        except Exception as error:  # one message must not stop the others
            log.exception("webhooks.call_failed", delivery=due.id)
            reason = f"something went wrong here: {type(error).__name__}"
            result = CallResult(due.id, "failed", time.monotonic() - began, error=reason)
        del work.calls[due.id]
        work.results.append(result)
        work.wake.set()
        log.info(
            "webhook.called", delivery=due.id, endpoint=str(due.endpoint), event_type=due.event, outcome=result.outcome,
            status=result.status, reason=result.error, correlation_id=due.correlation_id,
        )  # fmt: skip

    async def _call_traced(self, due: DueDelivery, began: float) -> CallResult:
        name, ids = f"webhook {due.event}", {"correlation_id": due.correlation_id, "webhook.id": str(due.message)}
        with self._options.tracer.span(name, "client", due.trace, lambda: ids) as span:
            result = await self._call(due, began, span.traceparent)
            if result.outcome != "delivered":
                span.fail(f"http.{result.status}")
            return result

    async def _call(self, due: DueDelivery, began: float, traceparent: str | None) -> CallResult:
        target = read_url(due.url, {*self._options.hosts, *due.hosts})
        body = build_body(due, self._options.base_url())
        secrets = [self._sealer.unseal(due.endpoint, sealed) for sealed in due.secrets]
        headers = build_headers(due, body, secrets, traceparent)
        answered = await post(target, headers, body, seconds=due.timeout_seconds)
        outcome = _judge(answered.status)
        return CallResult(
            due.id,
            outcome,
            time.monotonic() - began,
            answered.status,
            None if outcome == "delivered" else f"it answered {answered.status}",
            answered.body.decode("utf-8", "replace").replace("\0", "\ufffd")[:MAX_RESPONSE_CHARACTERS],
            _read_retry_after(answered),
        )

    async def _listen(self, work: _Work) -> None:
        while True:
            try:
                await self._outbox.listen()
                work.wake.set()
            except (AnabranchError, OSError) as error:  # the poll goes on meanwhile
                log.warning("webhooks.deaf", reason=str(error))
                await asyncio.sleep(POLL_INTERVAL.total_seconds())


def _judge(status: int) -> Literal["delivered", "failed", "gone"]:
    if 200 <= status < 300:
        return "delivered"
    return "gone" if status == GONE else "failed"


def _read_retry_after(answered: Response) -> float | None:
    text = answered.headers.get("retry-after", "")
    return min(float(text), MAX_RETRY_AFTER_SECONDS) if text.isdecimal() and len(text) < 10 else None


async def _wait(wake: asyncio.Event, longest: timedelta) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(longest.total_seconds()):
            await wake.wait()
