"""Endpoints, the outbox and its deliveries in schema app, by its functions only."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection, sql
from psycopg.rows import DictRow, TupleRow

from anabranch.adapters.postgres.connect import Role, connect_async
from anabranch.adapters.postgres.database import Database, call_text, translate
from anabranch.canonical import encode
from anabranch.contract.answer import Page
from anabranch.contract.webhooks import Delivery, DeliveryAttempt, DeliveryDetail, Replayed, Webhook
from anabranch.engine.model import SessionId
from anabranch.errors import Conflict, NotFound
from anabranch.platform.action_by import ActionBy
from anabranch.platform.notifications.ports import CallResult, DeliveryFilter, DueDelivery, EndpointChange

__all__ = ["PostgresOutbox", "PostgresWebhooks"]

CHANNEL = "anabranch_webhooks"
DUTY = "webhooks"
BATCH_ROWS = 1_000


class PostgresOutbox:
    """Deliveries for the process that makes the calls."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._line: AsyncConnection[TupleRow] | None = None
        self._holder: AsyncConnection[TupleRow] | None = None

    async def take(self, session: SessionId, in_hand: Collection[int], *, limit: int, each: int) -> list[DueDelivery]:
        """Take deliveries that are due; those that the session has and that are not in hand are taken again."""
        rows = await self._database.call("take_deliveries", session, list(in_hand), limit, each)
        found = await self._database.call("find_traces", [row["id"] for row in rows]) if rows else []
        traces = {row["delivery"]: row["traceparent"] for row in found}
        return [DueDelivery(**row, trace=traces.get(row["id"])) for row in rows]

    async def end(self, session: SessionId, calls: Sequence[CallResult]) -> int:
        """Record calls; how many were the session's."""
        return int(await _value(self._database, "end_deliveries", session, encode([asdict(call) for call in calls])))

    async def remove_old(self, age: timedelta) -> int:
        """Remove some rows of what ended this long ago; how many, and 0 at the end."""
        return int(await _value(self._database, "remove_deliveries", age, BATCH_ROWS))

    async def tick(self, session: SessionId, every: timedelta) -> None:
        """Note that the duty is performed (O2)."""
        await self._database.call("note_turn", DUTY, session, every)

    async def begin_wait(self, session: SessionId) -> bool:
        """Let announcements ring the doorbell from now on; False if that can't be now.

        It is a lock of a connection: a process that dies does not keep it.
        """
        with translate(self._database.url):
            if self._holder is None or self._holder.closed:
                self._holder = await connect_async(self._database.url, Role.APP, name="anabranch webhooks waiting")
            row = await (await self._holder.execute(call_text("begin_delivery_wait").encode(), [session])).fetchone()
        return bool(row and row[0])

    async def end_wait(self) -> None:
        """Announcements need not ring any more."""
        if self._holder and not self._holder.closed:
            with translate(self._database.url):
                await self._holder.execute(call_text("end_delivery_wait").encode())

    async def close(self) -> None:
        """Close the connections of the doorbell."""
        for connection in (self._line, self._holder):
            if connection:
                await connection.close()

    async def listen(self) -> None:
        """Return when a doorbell rings; rings between two calls are not lost while the connection lives."""
        with translate(self._database.url):
            if self._line is None or self._line.closed:
                self._line = await connect_async(self._database.url, Role.APP, name="anabranch webhooks doorbell")
                await self._line.execute(sql.SQL("listen {}").format(sql.Identifier(CHANNEL)))
                return
            try:
                async for _ in self._line.notifies(stop_after=1):
                    pass
            except BaseException:
                await self._line.close()
                raise


class PostgresWebhooks:
    """Endpoints and deliveries as their owners see them; a platform of None is the operator's view of all."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def make(
        self, endpoint: UUID, platform: str, wanted: EndpointChange, secret: bytes, by: ActionBy, *, most: int
    ) -> Webhook:
        """Add an endpoint; Conflict if the platform has `most` of them."""
        made = await _value(
            self._database, "make_endpoint", endpoint, platform, wanted.url, wanted.authority,
            list(wanted.events or ()), wanted.format, wanted.description, secret, wanted.timeout_seconds,
            wanted.retries, by.actor, most, by.correlation_id,
        )  # fmt: skip
        if not made:
            raise Conflict("webhook.too_many", f"platform {platform} has {most} endpoints, and may not have more")
        return await self.get(platform, endpoint)

    async def change(self, endpoint: UUID, change: EndpointChange, by: ActionBy) -> Webhook:
        """Change what is given."""
        events = None if change.events is None else list(change.events)
        changed = await _value(
            self._database, "change_endpoint", by.owner, endpoint, change.url, change.authority, events,
            change.format, change.description, change.active, change.timeout_seconds, change.retries,
            by.actor, by.correlation_id,
        )  # fmt: skip
        if not changed:
            raise _no_endpoint(endpoint)
        return await self.get(by.owner, endpoint)

    async def remove(self, endpoint: UUID, by: ActionBy) -> None:
        """Remove an endpoint with its deliveries."""
        if not await _value(self._database, "remove_endpoint", by.owner, endpoint, by.actor, by.correlation_id):
            raise _no_endpoint(endpoint)

    async def rotate(self, endpoint: UUID, secret: bytes, keep: timedelta, by: ActionBy) -> Webhook:
        """Replace the secret; the former one is valid for a while."""
        done = await _value(
            self._database, "rotate_secret", by.owner, endpoint, secret, keep, by.actor, by.correlation_id
        )
        if not done:
            raise _no_endpoint(endpoint)
        return await self.get(by.owner, endpoint)

    async def get(self, platform: str | None, endpoint: UUID) -> Webhook:
        """An endpoint."""
        rows = await self._database.call("list_endpoints", platform, endpoint, None, 1)
        if not rows:
            raise _no_endpoint(endpoint)
        return _webhook(rows[0])

    async def list_endpoints(self, platform: str | None, *, limit: int, before: int | None) -> Page[Webhook]:
        """Endpoints, the newest first."""
        rows = await self._database.call("list_endpoints", platform, None, before, limit + 1)
        more = str(rows[limit - 1]["number"]) if len(rows) > limit else None
        return Page(tuple(map(_webhook, rows[:limit])), more)

    async def test(self, platform: str | None, endpoint: UUID, correlation_id: str) -> Delivery:
        """Write a test message; Conflict if the endpoint is not active."""
        made = await _value(self._database, "test_endpoint", platform, endpoint, correlation_id)
        if made is None:
            await self.get(platform, endpoint)
            raise Conflict("webhook.inactive", f"the endpoint {endpoint} is not active", remedy="Activate it first.")
        return await self.delivery(platform, made)

    async def deliveries(
        self, platform: str | None, wanted: DeliveryFilter, *, limit: int, before: int | None
    ) -> Page[Delivery]:
        """Deliveries, the newest first."""
        rows = await self._database.call(
            "list_deliveries", platform, None, wanted.endpoint, wanted.subject, wanted.event, wanted.status, before,
            limit + 1,
        )  # fmt: skip
        more = str(rows[limit - 1]["id"]) if len(rows) > limit else None
        return Page(tuple(Delivery(**_delivery(row)) for row in rows[:limit]), more)

    async def delivery(self, platform: str | None, delivery: int) -> DeliveryDetail:
        """A delivery with its calls."""
        rows = await self._database.call("list_deliveries", platform, delivery, None, None, None, None, None, 1)
        if not rows:
            raise _no_delivery(delivery)
        calls = await self._database.call("list_webhook_attempts", delivery, platform)
        return DeliveryDetail(**_delivery(rows[0]), calls=tuple(DeliveryAttempt(**call) for call in calls))

    async def replay_one(self, platform: str | None, delivery: int) -> DeliveryDetail:
        """Make a delivery due again that has ended; one that is pending stays as it is."""
        again = await _value(self._database, "replay_deliveries", platform, delivery, None, None, None, 1)
        found = await self.delivery(platform, delivery)
        if not again and found.status != "pending":
            raise Conflict(
                "webhook.inactive", f"endpoint {found.endpoint_id} is not active: nothing is delivered to it"
            )
        return found

    async def replay(self, platform: str | None, wanted: DeliveryFilter, limit: int) -> Replayed:
        """Make dead letters due again."""
        choice = (wanted.endpoint, wanted.subject, wanted.event)
        again = await _value(self._database, "replay_deliveries", platform, None, *choice, limit)
        left_out = await _value(self._database, "count_left_out", platform, *choice)
        return Replayed(tuple(map(str, again)), left_out)

    async def callback_hosts(self, platform: str) -> list[str]:
        """The hosts that a platform's endpoints may have though they are private."""
        return list(await _value(self._database, "callback_hosts", platform))


async def _value(database: Database, function: str, *arguments: object) -> Any:  # each caller says which type
    (row,) = await database.call(function, *arguments)
    return next(iter(row.values()))


def _webhook(row: DictRow) -> Webhook:
    known = {**row, "events": tuple(row["events"])}
    del known["number"]
    return Webhook(**known)


def _delivery(row: DictRow) -> dict[str, Any]:  # fields of several types
    return {**row, "id": str(row["id"])}


def _no_endpoint(endpoint: UUID) -> NotFound:
    return NotFound(
        "webhook.not_found", f"there is no endpoint {endpoint}", remedy="List them with `anabranch webhooks list`."
    )


def _no_delivery(delivery: int) -> NotFound:
    return NotFound(
        "webhook.delivery_not_found",
        f"there is no delivery {delivery}",
        remedy="List them with `anabranch webhooks deliveries`; old ones are removed.",
    )
