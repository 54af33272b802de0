"""Create, list and revoke API keys."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Query

from anabranch.access import Scope
from anabranch.api.answers.build import page_links
from anabranch.api.deps import CurrentCaller, CurrentGateway, needs
from anabranch.api.openapi.declare import problems, takes
from anabranch.api.paths import KeyId
from anabranch.api.requests.body import JsonBody, check_body
from anabranch.api.requests.models import KeysQuery, MakeKeyRequest
from anabranch.contract.answer import Page, build
from anabranch.contract.stack import Key, NewKey

__all__ = ["router"]

log = structlog.get_logger()
router = APIRouter(prefix="/api/keys", tags=["keys"])


@router.post(
    "", dependencies=[needs(Scope.ADMIN)], status_code=201, **takes(MakeKeyRequest, "key.invalid", "platform.not_found")
)
async def make_key(given: JsonBody, caller: CurrentCaller, gateway: CurrentGateway) -> NewKey:
    """Create a key. Only this response contains its secret."""
    wanted = check_body(MakeKeyRequest, given).wanted()
    await gateway.keys.require_platform(wanted.platform)
    key, credential = await gateway.keys.make(wanted, caller.name, caller.correlation_id)
    log.info("key.made", made=key.id, name=key.name, platform=key.platform, scope=key.scope)
    return build(NewKey, key, key=credential.text)


@router.get("", dependencies=[needs(Scope.ADMIN)], responses=problems())
async def list_keys(query: Annotated[KeysQuery, Query()], gateway: CurrentGateway) -> Page[Key]:
    """Keys, the newest first, including those that ended in the last month; secrets are not stored."""
    page = await gateway.keys.list(limit=query.limit, before=query.before)
    return Page(page.items, page.next, page_links("before", page.next))


@router.delete("/{key_id}", dependencies=[needs(Scope.ADMIN)], responses=problems("key.not_found"))
async def revoke_key(key_id: KeyId, caller: CurrentCaller, gateway: CurrentGateway) -> Key:
    """Revoke a key permanently; within a second no process accepts it."""
    revoked = await gateway.keys.revoke(key_id, caller.name, caller.correlation_id)
    log.info("key.revoked", revoked=revoked.id, name=revoked.name, platform=revoked.platform)
    return revoked
