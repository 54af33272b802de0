"""What is published, its signed manifests, and the keys that signed them."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from anabranch.access import Scope
from anabranch.api.answers.build import build_page
from anabranch.api.answers.etags import CACHEABLE, IfNoneMatch, answer_unless_cached
from anabranch.api.deps import CurrentGateway, needs
from anabranch.api.openapi.declare import problems
from anabranch.api.paths import CollectionId, ItemId
from anabranch.api.requests import ItemsQuery
from anabranch.contract.answer import Page
from anabranch.contract.catalog import Envelope, PublishedItem, SigningKey

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["items"])


@router.get("/items", dependencies=[needs(Scope.READ)], responses=problems("items.version"))
async def list_published_items(query: Annotated[ItemsQuery, Query()], gateway: CurrentGateway) -> Page[PublishedItem]:
    """Published items by collection and id; those of a job, or those that a handler made."""
    found = await gateway.reads.items().find(
        limit=query.limit + 1, after=query.after, collection=query.collection, job_id=query.job_id,
        made_by=query.made_by, older_than=query.older_than,
    )  # fmt: skip
    return build_page(found, query.limit, lambda item: item, lambda item: f"{item.collection}/{item.id}")


@router.get(
    "/items/{collection}/{item}/manifest",
    dependencies=[needs(Scope.READ)],
    response_model=Envelope,
    responses={**CACHEABLE, **problems("item.not_found", "manifest.not_found")},
)
async def show_manifest(
    collection: CollectionId, item: ItemId, gateway: CurrentGateway, if_none_match: IfNoneMatch = None
) -> Response:
    """The signed manifest of an item: a DSSE envelope with an in-toto statement."""
    text = await gateway.reads.items().manifest(collection, item)
    return answer_unless_cached(Response(text, media_type="application/json"), if_none_match)


@router.get("/signing-keys", dependencies=[needs(Scope.READ)], responses=problems())
async def list_signing_keys(gateway: CurrentGateway) -> list[SigningKey]:
    """The public keys that signed manifests, the newest first."""
    return await gateway.reads.items().signing_keys()
