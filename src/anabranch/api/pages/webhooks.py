"""Webhooks: endpoints, what was delivered to them, and a tester of signatures."""

import asyncio
from typing import Annotated
from uuid import UUID

from fastapi import Query, Response
from pydantic import Field

from anabranch.api.deps import CurrentCaller, CurrentGateway
from anabranch.api.pages.rendering import CurrentPage, page_router
from anabranch.api.paths import DeliveryId
from anabranch.api.requests.webhooks import DeliveriesQuery, WebhooksQuery
from anabranch.api.routes.webhooks import list_deliveries, list_webhooks, show_delivery
from anabranch.contract.webhooks import EVENTS, DeliveryStatus
from anabranch.strict_model import StrictModel

__all__ = ["router"]

router = page_router()
MAX_DELIVERIES = 50
STATUSES: tuple[DeliveryStatus, ...] = ("pending", "delivered", "dead")


class DeliveriesForm(StrictModel):
    """Which deliveries are listed."""

    endpoint: UUID | None = None
    event: str | None = Field(None, max_length=200)
    subject: str | None = Field(None, max_length=200)
    status: DeliveryStatus | None = None
    before: int | None = Field(None, ge=1, lt=2**63)


@router.get("/webhooks")
async def show_webhooks(
    page: CurrentPage, query: Annotated[DeliveriesForm, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Response:
    """Endpoints and deliveries."""
    wanted = DeliveriesQuery(**query.model_dump(), limit=MAX_DELIVERIES)
    endpoints, deliveries = await asyncio.gather(
        list_webhooks(WebhooksQuery(), caller, gateway), list_deliveries(wanted, caller, gateway)
    )
    return page.render(
        "operations/webhooks.html",
        title="Webhooks",
        endpoints=endpoints.items,
        deliveries=deliveries,
        query=query,
        filters=query.model_dump(exclude={"before"}, exclude_none=True),
        events=EVENTS,
        statuses=STATUSES,
    )


@router.get("/webhooks/deliveries/{delivery_id}")
async def show_one_delivery(
    delivery_id: DeliveryId, page: CurrentPage, caller: CurrentCaller, gateway: CurrentGateway
) -> Response:
    """A delivery with its calls."""
    found = await show_delivery(delivery_id, caller, gateway)
    return page.render("operations/delivery.html", title=f"Delivery {found.id}", delivery=found)


@router.get("/webhooks/signatures")
async def show_tester(page: CurrentPage) -> Response:
    """Compute and verify signatures of messages, in the browser alone."""
    return page.render("operations/signatures.html", title="Signature tester")
