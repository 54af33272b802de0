"""All that notifications ask of a store."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol
from uuid import UUID

from anabranch.canonical import JsonObject
from anabranch.contract.answer import Page
from anabranch.contract.webhooks import Delivery, DeliveryDetail, DeliveryStatus, Format, Replayed, Webhook
from anabranch.engine.model import SessionId
from anabranch.platform.action_by import ActionBy

__all__ = ["CallResult", "DeliveryFilter", "DueDelivery", "EndpointChange", "Outbox", "WebhookStore"]


@dataclass(frozen=True)
class DueDelivery:
    """A delivery that a session took, with all that a call needs; secrets are sealed."""

    id: int
    endpoint: UUID
    url: str
    hosts: Sequence[str]
    secrets: Sequence[bytes]
    format: Format
    timeout_seconds: int
    message: UUID
    event: str
    subject: str
    data: JsonObject
    correlation_id: str
    made_at: datetime
    trace: str | None = None


@dataclass(frozen=True)
class CallResult:
    """How a call ended."""

    id: int
    outcome: Literal["delivered", "failed", "gone"]
    seconds: float
    status: int | None = None
    error: str | None = None
    response: str | None = None
    retry_after: float | None = None


@dataclass(frozen=True)
class EndpointChange:
    """What is set or changed of an endpoint; None leaves it as it is."""

    url: str | None = None
    authority: str | None = None
    events: Sequence[str] | None = None
    format: Format | None = None
    description: str | None = None
    active: bool | None = None
    timeout_seconds: int | None = None
    retries: int | None = None


@dataclass(frozen=True)
class DeliveryFilter:
    """Which deliveries are wanted."""

    endpoint: UUID | None = None
    subject: str | None = None
    event: str | None = None
    status: DeliveryStatus | None = None


class Outbox(Protocol):
    """Deliveries for the process that makes the calls."""

    async def take(
        self, session: SessionId, in_hand: Collection[int], *, limit: int, each: int
    ) -> list[DueDelivery]: ...
    async def end(self, session: SessionId, calls: Sequence[CallResult]) -> int: ...
    async def remove_old(self, age: timedelta) -> int: ...
    async def tick(self, session: SessionId, every: timedelta) -> None: ...
    async def begin_wait(self, session: SessionId) -> bool:
        """Let announcements ring the doorbell from now on; False if that can't be now. Look once more before a wait."""

    async def end_wait(self) -> None:
        """Announcements need not ring any more."""

    async def listen(self) -> None:
        """Return when a doorbell rings."""

    async def close(self) -> None: ...


class WebhookStore(Protocol):
    """Endpoints and deliveries as their owners see them; a platform of None is the operator's view of all."""

    async def make(
        self, endpoint: UUID, platform: str, wanted: EndpointChange, secret: bytes, by: ActionBy, *, most: int
    ) -> Webhook: ...
    async def change(self, endpoint: UUID, change: EndpointChange, by: ActionBy) -> Webhook: ...
    async def remove(self, endpoint: UUID, by: ActionBy) -> None: ...
    async def rotate(self, endpoint: UUID, secret: bytes, keep: timedelta, by: ActionBy) -> Webhook: ...
    async def get(self, platform: str | None, endpoint: UUID) -> Webhook: ...
    async def list_endpoints(self, platform: str | None, *, limit: int, before: int | None) -> Page[Webhook]: ...
    async def test(self, platform: str | None, endpoint: UUID, correlation_id: str) -> Delivery: ...
    async def deliveries(
        self, platform: str | None, wanted: DeliveryFilter, *, limit: int, before: int | None
    ) -> Page[Delivery]: ...
    async def delivery(self, platform: str | None, delivery: int) -> DeliveryDetail: ...
    async def replay_one(self, platform: str | None, delivery: int) -> DeliveryDetail: ...
    async def replay(self, platform: str | None, wanted: DeliveryFilter, limit: int) -> Replayed: ...
    async def callback_hosts(self, platform: str) -> list[str]: ...
