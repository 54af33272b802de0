"""What is published, its signed manifests, and the keys that signed them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from anabranch.access import Scope
from anabranch.api.answers.build import build_page
from anabranch.api.answers.etags import CACHEABLE, IfNoneMatch, answer_unless_cached
from anabranch.api.deps import CurrentGateway, needs
from anabranch.api.openapi.declare import problems
from anabranch.api.paths import CollectionId, ItemId
from anabranch.api.requests import HistoryQuery, ItemsQuery
from anabranch.canonical import encode
from anabranch.contract.answer import Page
from anabranch.contract.catalog import Envelope, Publication, PublishedItem, SigningKey
from anabranch.serving.published import name_files

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["items"])
GEOJSON = "application/geo+json"
Number = Annotated[int, Path(ge=1, lt=2**31, description="The number of a publication of the item.")]


@router.get("/items", dependencies=[needs(Scope.READ)], responses=problems("items.version"))
async def list_published_items(query: Annotated[ItemsQuery, Query()], gateway: CurrentGateway) -> Page[PublishedItem]:
    """Published items by collection and id; those of a job, or those that a handler made."""
    found = await gateway.reads.items().find(
        limit=query.limit + 1, after=query.after, collection=query.collection, job_id=query.job_id,
        made_by=query.made_by, older_than=query.older_than,
    )  # fmt: skip
    return build_page(found, query.limit, lambda item: item, lambda item: f"{item.collection}/{item.id}")


@router.get("/items/{collection}/{item}", dependencies=[needs(Scope.READ)], responses=problems("item.not_found"))
async def show_published_item(collection: CollectionId, item: ItemId, gateway: CurrentGateway) -> PublishedItem:
    """A published item: its current publication, the job that published it, and the handlers that made it."""
    return await gateway.reads.items().find_one(collection, item)


@router.get(
    "/items/{collection}/{item}/publications", dependencies=[needs(Scope.READ)], responses=problems("item.not_found")
)
async def list_publications(
    collection: CollectionId, item: ItemId, query: Annotated[HistoryQuery, Query()], gateway: CurrentGateway
) -> Page[Publication]:
    """The history of an item, the newest first; of one that was withdrawn, too."""
    found = await gateway.reads.items().history(collection, item, limit=query.limit + 1, before=query.after)
    return build_page(found, query.limit, lambda one: one, lambda one: str(one.number))


@router.get(
    "/items/{collection}/{item}/publications/{number}",
    dependencies=[needs(Scope.READ)],
    response_class=Response,
    responses={200: {"content": {GEOJSON: {"schema": {"type": "object"}}}}, **problems("publication.not_found")},
)
async def show_publication(
    collection: CollectionId, item: ItemId, number: Number, request: Request, gateway: CurrentGateway
) -> Response:
    """The STAC item as a publication showed it, while its files are kept."""
    body, files = await gateway.reads.items().content(collection, item, number)
    root = str(request.base_url).rstrip("/")
    return Response(encode(name_files(body, files, root)), media_type=GEOJSON)


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
