"""Endpoints of webhooks and the deliveries to them."""

from dataclasses import replace
from typing import Annotated, TypeVar

import structlog
from fastapi import APIRouter, Query

from anabranch.access import Scope
from anabranch.api.answers.build import page_links
from anabranch.api.deps import Caller, CurrentCaller, CurrentGateway, needs
from anabranch.api.openapi.declare import BODY_CODES, body, problems
from anabranch.api.paths import DeliveryId, EndpointId
from anabranch.api.platform.callers import act_as
from anabranch.api.requests.body import JsonBody, check_body
from anabranch.api.requests.webhooks import (
    AddWebhookRequest,
    ChangeWebhookRequest,
    DeliveriesQuery,
    ReplayDeliveriesRequest,
    RotateSecretRequest,
    WebhooksQuery,
)
from anabranch.contract.answer import Page
from anabranch.contract.webhooks import Delivery, DeliveryDetail, NewWebhook, Replayed, Webhook
from anabranch.errors import AnabranchError
from anabranch.redaction import hide_query

__all__ = ["router"]

log = structlog.get_logger()
router = APIRouter(prefix="/api/webhooks", tags=["webhooks"])
READ, OPERATE = needs(Scope.READ), needs(Scope.OPERATE)
# Ids have a form of their own, so that `deliveries` is no id: what has not that form matches no route.
ENDPOINT_CODES = ("webhook.not_found", "request.route")
DELIVERY_CODES = ("webhook.delivery_not_found", "request.route")
URL_CODES = (*BODY_CODES, "outbound.url", "webhook.secret", "webhook.key")
Shown = TypeVar("Shown", Webhook, Delivery, DeliveryDetail)


def _show_to(caller: Caller, found: Shown) -> Shown:
    """What a caller sees of it: values of a URL's query may be secrets, which are shown to those who may change it."""
    return found if caller.scope.includes(Scope.OPERATE) else replace(found, url=hide_query(found.url))


@router.post(
    "",
    dependencies=[OPERATE],
    status_code=201,
    responses=problems(*URL_CODES, "platform.not_found", "webhook.too_many"),
    openapi_extra=body(AddWebhookRequest, required=True),
)
async def add_webhook(given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway) -> NewWebhook:
    """Add an endpoint. Only this response contains its secret."""
    wanted = check_body(AddWebhookRequest, given)
    platform = wanted.platform or caller.platform
    if caller.visible_platform not in (None, platform):
        raise AnabranchError("auth.forbidden", "an endpoint of another platform needs the scope admin")
    if platform != caller.platform:
        await gateway.releases.platforms.require(platform)
    secret = wanted.secret.get_secret_value() if wanted.secret else None
    made = await gateway.webhooks.add(platform, wanted.wanted, secret, act_as(caller))
    log.info("webhook.added", endpoint=made.id, platform=platform)
    return made


@router.get("", dependencies=[READ], responses=problems())
async def list_webhooks(
    query: Annotated[WebhooksQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Page[Webhook]:
    """Endpoints, the newest first; callbacks of jobs are not among them.

    A caller without the scope `operate` sees `…` for the values in the query of a URL.
    """
    platform = caller.visible_platform
    page = await gateway.webhooks.store.list_endpoints(platform, limit=query.limit, before=query.before)
    return Page(tuple(_show_to(caller, one) for one in page.items), page.next, page_links("before", page.next))


@router.get("/deliveries", dependencies=[READ], responses=problems())
async def list_deliveries(
    query: Annotated[DeliveriesQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Page[Delivery]:
    """Deliveries, the newest first, also those to callbacks of jobs."""
    page = await gateway.webhooks.store.deliveries(
        caller.visible_platform, query.wanted, limit=query.limit, before=query.before
    )
    return Page(tuple(_show_to(caller, one) for one in page.items), page.next, page_links("before", page.next))


@router.get("/deliveries/{delivery_id:number}", dependencies=[READ], responses=problems(*DELIVERY_CODES))
async def show_delivery(delivery_id: DeliveryId, caller: CurrentCaller, gateway: CurrentGateway) -> DeliveryDetail:
    """A delivery with its calls."""
    return _show_to(caller, await gateway.webhooks.store.delivery(caller.visible_platform, delivery_id))


@router.post(
    "/deliveries/{delivery_id:number}/replay",
    dependencies=[OPERATE],
    status_code=202,
    responses=problems(*DELIVERY_CODES, "webhook.inactive"),
)
async def replay_delivery(delivery_id: DeliveryId, caller: CurrentCaller, gateway: CurrentGateway) -> DeliveryDetail:
    """Deliver a message again, under the same `webhook-id`; one that is pending stays as it is."""
    return await gateway.webhooks.store.replay_one(caller.visible_platform, delivery_id)


@router.post(
    "/deliveries/replay",
    dependencies=[OPERATE],
    status_code=202,
    responses=problems(*BODY_CODES),
    openapi_extra=body(ReplayDeliveriesRequest, required=False),
)
async def replay_deliveries(given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway) -> Replayed:
    """Replay dead letters, the oldest first; those of endpoints that are not active are left out, and counted."""
    wanted = check_body(ReplayDeliveriesRequest, given)
    return await gateway.webhooks.store.replay(caller.visible_platform, wanted.wanted, wanted.limit)


@router.get("/{endpoint_id:uuid}", dependencies=[READ], responses=problems(*ENDPOINT_CODES))
async def show_webhook(endpoint_id: EndpointId, caller: CurrentCaller, gateway: CurrentGateway) -> Webhook:
    """An endpoint."""
    return _show_to(caller, await gateway.webhooks.store.get(caller.visible_platform, endpoint_id))


@router.patch(
    "/{endpoint_id:uuid}",
    dependencies=[OPERATE],
    responses=problems(*ENDPOINT_CODES, *URL_CODES),
    openapi_extra=body(ChangeWebhookRequest, required=True),
)
async def change_webhook(
    endpoint_id: EndpointId, given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway
) -> Webhook:
    """Change an endpoint; what is not given stays."""
    change = check_body(ChangeWebhookRequest, given).change
    return await gateway.webhooks.change(endpoint_id, change, act_as(caller))


@router.delete("/{endpoint_id:uuid}", dependencies=[OPERATE], responses=problems(*ENDPOINT_CODES))
async def remove_webhook(endpoint_id: EndpointId, caller: CurrentCaller, gateway: CurrentGateway) -> Webhook:
    """Remove an endpoint with its deliveries and their log; the answer is what it was."""
    removed = await gateway.webhooks.store.get(caller.visible_platform, endpoint_id)
    await gateway.webhooks.store.remove(endpoint_id, act_as(caller))
    log.info("webhook.removed", endpoint=removed.id, platform=removed.platform)
    return removed


@router.post(
    "/{endpoint_id:uuid}/rotate",
    dependencies=[OPERATE],
    responses=problems(*ENDPOINT_CODES, *URL_CODES),
    openapi_extra=body(RotateSecretRequest, required=False),
)
async def rotate_webhook(
    endpoint_id: EndpointId, given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway
) -> NewWebhook:
    """Replace the secret. Messages are signed with both for a while; only this response contains the new one."""
    wanted = check_body(RotateSecretRequest, given)
    secret = wanted.secret.get_secret_value() if wanted.secret else None
    return await gateway.webhooks.rotate(endpoint_id, secret, wanted.keep, act_as(caller))


@router.post(
    "/{endpoint_id:uuid}/test",
    dependencies=[OPERATE],
    status_code=202,
    responses=problems(*ENDPOINT_CODES, "webhook.inactive"),
)
async def test_webhook(endpoint_id: EndpointId, caller: CurrentCaller, gateway: CurrentGateway) -> Delivery:
    """Send a test message (`webhook.test`), whichever events the endpoint wants; its delivery shows how it went."""
    return await gateway.webhooks.store.test(caller.visible_platform, endpoint_id, caller.correlation_id)
