"""Query parameters and bodies of requests about webhooks, and the callbacks of a job."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from anabranch.access import PLATFORM_PATTERN
from anabranch.contract.webhooks import EVENTS, DeliveryStatus, Format
from anabranch.platform.notifications.fields import Retries, Secret, Timeout, Url
from anabranch.platform.notifications.ports import DeliveryFilter, EndpointChange
from anabranch.platform.notifications.webhooks import DEFAULT_TIMEOUT_SECONDS, MAX_RETRIES, Callback
from anabranch.strict_model import StrictModel
from anabranch.workflows.mistakes import nearest, quote

__all__ = [
    "AddWebhookRequest",
    "CallbackRequest",
    "ChangeWebhookRequest",
    "DeliveriesQuery",
    "ReplayDeliveriesRequest",
    "RotateSecretRequest",
    "WebhooksQuery",
]

LIMIT = "The size of the page."
CURSOR = "The `next` of the previous page."
ABOUT_EVENTS = "Names of events, beginnings of them (`job.*`), or `*` for all."
CHOICES = ("*", *dict.fromkeys(f"{event.partition('.')[0]}.*" for event in EVENTS), *EVENTS)


def _require_event(name: str) -> str:
    if name not in CHOICES:
        hint = nearest(name, CHOICES) or f"Known: {', '.join(CHOICES)}."
        raise PydanticCustomError("event", "{said}", {"said": f"there is no event {quote(name)}. {hint}"})
    return name


EventName = Annotated[str, Field(json_schema_extra={"enum": [*CHOICES]}), AfterValidator(_require_event)]
Events = Annotated[list[EventName], Field(min_length=1, max_length=50, description=ABOUT_EVENTS)]
Description = Annotated[str, Field(max_length=1000, description="For people.")]
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]


class CallbackRequest(StrictModel):
    """Who is called when a job ends."""

    model_config = ConfigDict(strict=True)
    url: Url
    secret: Secret
    events: Events = Field(default_factory=lambda: ["job.*"])
    format: Format = Field("standard", description="How messages are written.")
    timeout_seconds: Timeout = DEFAULT_TIMEOUT_SECONDS
    retries: Retries = MAX_RETRIES

    @property
    def callback(self) -> Callback:
        """The callback, with its secret."""
        secret = self.secret.get_secret_value()
        return Callback(self.url, secret, self.events, self.format, self.timeout_seconds, self.retries)


class AddWebhookRequest(StrictModel):
    """An endpoint to add."""

    model_config = ConfigDict(
        strict=True,
        json_schema_extra={"examples": [{"url": "https://example.org/hooks/anabranch", "events": ["job.*"]}]},
    )
    url: Url
    events: Events = Field(default_factory=lambda: ["*"])
    format: Format = Field("standard", description="How messages are written.")
    description: Description = ""
    secret: Secret | None = Field(None, description="Without one, a new secret is made and returned.")
    timeout_seconds: Timeout = DEFAULT_TIMEOUT_SECONDS
    retries: Retries = MAX_RETRIES
    platform: Annotated[str, Field(pattern=f"^{PLATFORM_PATTERN.pattern}$")] | None = Field(
        None, description="The platform it belongs to; another than the caller's needs admin."
    )

    @property
    def wanted(self) -> EndpointChange:
        """What it is to be."""
        given = self.model_dump(exclude={"secret", "platform"})
        return EndpointChange(**given)


class ChangeWebhookRequest(StrictModel):
    """What to change of an endpoint; the rest stays."""

    model_config = ConfigDict(strict=True, json_schema_extra={"examples": [{"active": True}]})
    url: Url | None = None
    events: Events | None = None
    format: Format | None = Field(None, description="How messages are written.")
    description: Description | None = None
    active: bool | None = Field(None, description="One that is activated begins without failures.")
    timeout_seconds: Timeout | None = None
    retries: Retries | None = None

    @property
    def change(self) -> EndpointChange:
        """What changes."""
        return EndpointChange(**self.model_dump())


class RotateSecretRequest(StrictModel):
    """A new secret."""

    model_config = ConfigDict(strict=True, json_schema_extra={"examples": [{"keep_hours": 24}]})
    secret: Secret | None = Field(None, description="Without one, a new secret is made and returned.")
    keep_hours: int = Field(24, ge=0, le=24 * 30, description="How long messages are signed with the former one, too.")

    @property
    def keep(self) -> timedelta:
        """How long the former secret is valid."""
        return timedelta(hours=self.keep_hours)


class WebhooksQuery(StrictModel):
    """Which endpoints to list."""

    limit: int = Field(100, ge=1, le=1000, description=LIMIT)
    before: int | None = Field(None, ge=1, lt=2**63, description=CURSOR)


class DeliveriesQuery(StrictModel):
    """Which deliveries to list."""

    limit: int = Field(100, ge=1, le=1000, description=LIMIT)
    before: int | None = Field(None, ge=1, lt=2**63, description=CURSOR)
    endpoint: UUID | None = Field(None, description="Only to this endpoint.")
    subject: Text | None = Field(None, description="Only of this subject, like the id of a job.")
    event: Text | None = Field(None, description="Only of this event.")
    status: DeliveryStatus | None = Field(None, description="`dead` lists the dead letters.")

    @property
    def wanted(self) -> DeliveryFilter:
        """The choice."""
        return DeliveryFilter(self.endpoint, self.subject, self.event, self.status)


class ReplayDeliveriesRequest(StrictModel):
    """Which dead letters to replay; without a choice, all of them."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"event": "job.completed", "limit": 100}]})
    endpoint: UUID | None = Field(None, description="Only to this endpoint.")
    subject: Text | None = Field(None, description="Only of this subject.")
    event: Text | None = Field(None, description="Only of this event.")
    limit: int = Field(1000, ge=1, le=10_000, strict=True, description="The maximum number of deliveries.")

    @property
    def wanted(self) -> DeliveryFilter:
        """The choice."""
        return DeliveryFilter(self.endpoint, self.subject, self.event)
