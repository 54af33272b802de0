"""Endpoints of webhooks, and the deliveries to them."""

from dataclasses import field
from datetime import datetime
from typing import Literal

from anabranch.contract.answer import Answer, answer

__all__ = [
    "EVENTS",
    "Delivery",
    "DeliveryAttempt",
    "DeliveryDetail",
    "DeliveryStatus",
    "Format",
    "NewWebhook",
    "Replayed",
    "Webhook",
]

# Every event that an endpoint can be called with; the functions of the database announce them under these names.
EVENTS = (
    *("job.completed", "job.failed", "job.cancelled"),
    *("release.created", "release.replaced", "release.processed", "release.failed"),
    *("release.approved", "release.rejected", "release.expired"),
    *("release.published", "release.withdrawn", "release.restored"),
    *("release.revoked", "release.rolled_back", "release.cleared"),
    "webhook.test",
)
Format = Literal["standard", "cloudevents"]
DeliveryStatus = Literal["pending", "delivered", "dead"]


@answer
class Webhook(Answer):
    """An endpoint, without its secret."""

    id: str
    platform: str
    url: str
    events: tuple[str, ...]
    """Names of events, beginnings of them (`job.*`), or `*`."""
    format: Format
    description: str
    active: bool
    timeout_seconds: int
    """The deadline of a call."""
    retries: int
    failures: int
    """Calls that failed in a row."""
    open_until: datetime | None
    """Until then the breaker lets nothing through."""
    disabled_reason: str | None
    rotating_until: datetime | None
    """Until then messages are signed with the former secret, too."""
    pending: int
    """Deliveries to come, at most 10,000."""
    dead: int
    """Dead letters, at most 10,000."""
    made_at: datetime
    made_by: str
    changed_at: datetime


@answer
class NewWebhook(Webhook):
    """An endpoint with its secret, which is returned only once."""

    secret: str = field(repr=False)
    """What verifies the signatures."""


@answer
class Delivery(Answer):
    """A message for an endpoint."""

    id: str
    message_id: str
    """The `webhook-id` of its calls: the same for every endpoint and every attempt."""
    endpoint_id: str
    platform: str
    url: str
    event: str
    subject: str
    """What the message is about; messages of one subject are delivered in order."""
    status: DeliveryStatus
    attempts: int
    response_status: int | None
    """The HTTP status of the last answer."""
    error: str | None
    """Why the last call failed."""
    correlation_id: str
    made_at: datetime
    due_at: datetime | None
    ended_at: datetime | None


@answer
class DeliveryAttempt(Answer):
    """One call."""

    attempt: int
    at: datetime
    seconds: float
    status: int | None
    error: str | None
    response: str | None
    """The beginning of the answer."""


@answer
class DeliveryDetail(Delivery):
    """A delivery with its calls."""

    calls: tuple[DeliveryAttempt, ...]


@answer
class Replayed(Answer):
    """The deliveries that are due again."""

    deliveries: tuple[str, ...]
    left_out: int = 0
    """How many dead letters that fit stay so, because their endpoints are not active; at most 10,000 are counted."""
