"""What is published, its signed manifests, and the keys that signed them."""

from dataclasses import dataclass
from typing import Annotated

import structlog
from fastapi import APIRouter, Depends, Path, Query, Request, Response

from anabranch.access import Scope
from anabranch.api.answers.build import build_page
from anabranch.api.answers.etags import (
    IfNoneMatch,
    allow_caching,
    answer_unless_cached,
    not_modified,
    returns_cacheable,
)
from anabranch.api.deps import Caller, CurrentCaller, CurrentGateway, CurrentLimits, CurrentReads, GivenKey, needs
from anabranch.api.openapi.declare import BODY_CODES, SUBMIT_CODES, body, keyed, problems, takes
from anabranch.api.paths import CollectionId, ItemId, PlatformId
from anabranch.api.platform.callers import act_as
from anabranch.api.requests.body import JsonBody, check_body
from anabranch.api.requests.if_match import IfMatch, number_tag, read_if_match, require_match
from anabranch.api.requests.job_bodies import read_job
from anabranch.api.requests.models import (
    ConfirmQuery,
    HistoryQuery,
    ItemActionRequest,
    ItemsQuery,
    ReplaceRequest,
    RollbackRequest,
    UnpublishRequest,
)
from anabranch.api.routes.jobs import EXISTING_JOB, SUBMIT_PROBLEMS
from anabranch.api.submission import submit_wanted
from anabranch.canonical import Json, encode
from anabranch.contract.answer import Page
from anabranch.contract.catalog import (
    CollectionAccess,
    Envelope,
    ItemAct,
    ItemChange,
    Publication,
    PublishedItem,
    RemovedCollection,
    SigningKey,
    choose_workflow,
)
from anabranch.contract.jobs import SubmittedJob
from anabranch.contract.published_links import name_files
from anabranch.errors import Conflict, InputError
from anabranch.gateway import Gateway
from anabranch.item_actions import ItemAction
from anabranch.serving.etags import has

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["items"])
log = structlog.get_logger()
GEOJSON = "application/geo+json"
MISSING_CODES = ("item.not_found", "item.withdrawn")
ACTION_CODES = (
    *BODY_CODES,
    *("publication.expired", "publication.moved", "publication.no_match", "publication.not_found"),
    *("publication.owner", "publication.same"),
    *("catalog.collection_id", "catalog.item_id", "catalog.missing", "catalog.no_collection"),
)
Number = Annotated[int, Path(ge=1, lt=2**31, description="The number of a publication of the item.")]


@router.get("/items", dependencies=[needs(Scope.READ)], responses=problems("items.version"))
async def list_published_items(query: Annotated[ItemsQuery, Query()], reads: CurrentReads) -> Page[PublishedItem]:
    """Published items by collection and id; those of a job, or those that a handler made."""
    found = await reads.items().find(
        limit=query.limit + 1, after=query.after, collection=query.collection, job_id=query.job_id,
        made_by=query.made_by, older_than=query.older_than,
    )  # fmt: skip
    return build_page(found, query.limit, lambda item: item, lambda item: f"{item.collection}/{item.id}")


@router.get(
    "/items/{collection}/{item}",
    dependencies=[needs(Scope.READ)],
    **returns_cacheable(PublishedItem, *MISSING_CODES),
)
async def show_published_item(
    collection: CollectionId,
    item: ItemId,
    reads: CurrentReads,
    response: Response,
    if_none_match: IfNoneMatch = None,
) -> PublishedItem | Response:
    """A published item: its current publication, the job that published it, and the handlers that made it.

    Its number is the ETag, which actions on the item take as `If-Match`.
    """
    found = await reads.items().find_one(collection, item)
    tag = number_tag(found.number)
    if has(if_none_match, tag):
        return not_modified(tag)
    allow_caching(response, tag)
    return found


@router.get(
    "/items/{collection}/{item}/publications", dependencies=[needs(Scope.READ)], responses=problems("item.not_found")
)
async def list_publications(
    collection: CollectionId, item: ItemId, query: Annotated[HistoryQuery, Query()], reads: CurrentReads
) -> Page[Publication]:
    """The history of an item, the newest first; of one that was withdrawn, too."""
    found = await reads.items().history(collection, item, limit=query.limit + 1, before=query.after)
    return build_page(found, query.limit, lambda one: one, lambda one: str(one.number))


@router.get(
    "/items/{collection}/{item}/publications/{number}",
    dependencies=[needs(Scope.READ)],
    response_class=Response,
    responses={200: {"content": {GEOJSON: {"schema": {"type": "object"}}}}, **problems("publication.not_found")},
)
async def show_publication(
    collection: CollectionId, item: ItemId, number: Number, request: Request, reads: CurrentReads
) -> Response:
    """The STAC item as a publication showed it, while its files are kept."""
    body, files = await reads.items().content(collection, item, number)
    root = str(request.base_url).rstrip("/")
    return Response(encode(name_files(body, files, root)), media_type=GEOJSON)


@router.get(
    "/items/{collection}/{item}/manifest",
    dependencies=[needs(Scope.READ)],
    **returns_cacheable(Envelope, *MISSING_CODES, "manifest.not_found"),
)
async def show_manifest(
    collection: CollectionId, item: ItemId, reads: CurrentReads, if_none_match: IfNoneMatch = None
) -> Response:
    """The signed manifest of an item: a DSSE envelope with an in-toto statement."""
    text = await reads.items().manifest(collection, item)
    return answer_unless_cached(Response(text, media_type="application/json"), if_none_match)


@dataclass(frozen=True)
class ItemTarget:
    """The item that a request acts on, and the caller."""

    collection: CollectionId
    item: ItemId
    caller: CurrentCaller
    gateway: CurrentGateway
    response: Response
    if_match: IfMatch = None

    async def act(self, action: ItemAct, wanted: ItemActionRequest, number: int | None = None) -> ItemChange:
        """Only an admin acts on what belongs to another platform."""
        expected = read_if_match(self.if_match, wanted.expected)
        change = ItemAction(
            action,
            self.collection,
            self.item,
            self.caller.name,
            wanted.reason,
            self.caller.visible_platform,
            number,
            expected,
            wanted.dry_run,
        )
        with require_match(self.if_match):
            done = await self.gateway.publishing.act(change)
        if not wanted.dry_run:
            self.response.headers["ETag"] = number_tag(done.number)
            about = {"collection": self.collection, "item": self.item, "number": done.number, "by": self.caller.name}
            log.info("item.changed", action=action, **about)
        return done


CurrentItem = Annotated[ItemTarget, Depends()]


@router.post(
    "/items/{collection}/{item}/unpublish",
    dependencies=[needs(Scope.ADMIN)],
    **takes(UnpublishRequest, *ACTION_CODES, "request.unconfirmed"),
)
async def unpublish_item(item: CurrentItem, given: JsonBody) -> ItemChange:
    """Withdraw an item: readers no longer see it or its files. It can be restored for `restore_window_days`."""
    wanted = check_body(UnpublishRequest, given)
    if not wanted.dry_run and wanted.confirm != "yes":
        what = f"this takes {item.collection}/{item.item} away from its readers"
        raise InputError("request.unconfirmed", what, remedy="Look at a dry run first; then set `confirm: yes`.")
    return await item.act("withdraw", wanted)


@router.post(
    "/items/{collection}/{item}/restore", dependencies=[needs(Scope.OPERATE)], **takes(ItemActionRequest, *ACTION_CODES)
)
async def restore_item(item: CurrentItem, given: JsonBody) -> ItemChange:
    """Show an item again as it was before it was withdrawn."""
    return await item.act("restore", check_body(ItemActionRequest, given))


@router.post(
    "/items/{collection}/{item}/rollback", dependencies=[needs(Scope.OPERATE)], **takes(RollbackRequest, *ACTION_CODES)
)
async def roll_back_item(item: CurrentItem, given: JsonBody) -> ItemChange:
    """Show what a former publication of an item showed; that gets a number of its own."""
    wanted = check_body(RollbackRequest, given)
    return await item.act("rollback", wanted, wanted.number)


@router.post(
    "/items/{collection}/{item}/replace",
    dependencies=[needs(Scope.SUBMIT)],
    status_code=202,
    response_model=SubmittedJob,
    responses={
        **EXISTING_JOB,
        **SUBMIT_PROBLEMS,
        **problems(*MISSING_CODES, "publication.moved", "publication.no_match", *BODY_CODES, *SUBMIT_CODES),
    },
    openapi_extra=keyed(body(ReplaceRequest, required=True)),
)
async def replace_item(
    collection: CollectionId,
    item: ItemId,
    given: JsonBody,
    caller: CurrentCaller,
    key: GivenKey,
    gateway: CurrentGateway,
    reads: CurrentReads,
    limits: CurrentLimits,
    if_match: IfMatch = None,
) -> Response:
    """Submit a job that makes new content for an item; readers see it at once when it is published, and not before."""
    wanted = check_body(ReplaceRequest, given)
    expected = read_if_match(if_match, wanted.expected)
    found = await reads.items().find_one(collection, item)
    with require_match(if_match):
        if expected not in (None, found.number):
            what = f"item {collection}/{item} is at number {found.number} by now, not {expected}"
            raise Conflict("publication.moved", what)
    shown, _ = await reads.items().content(collection, item, found.number)
    fixed: dict[str, Json] = {"collection": collection, "item_id": item, "reason": wanted.reason}
    if expected is not None:  # the job compares it again when it publishes
        fixed["expected"] = expected
    workflow = wanted.workflow or choose_workflow(shown)
    job = read_job({"workflow": workflow, "parameters": {**wanted.parameters, **fixed}}, gateway)
    return await submit_wanted(gateway, limits, caller, job, key)


@router.delete(
    "/collections/{collection}",
    dependencies=[needs(Scope.ADMIN)],
    responses=problems("catalog.no_collection", "catalog.not_empty", "catalog.collection_id", "request.unconfirmed"),
)
async def remove_collection(
    collection: CollectionId, query: Annotated[ConfirmQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> RemovedCollection:
    """Remove a collection that has no items; the history of those that it had stays."""
    if query.confirm != "yes":
        what = f"this removes collection {collection} with its title, description and license"
        raise InputError("request.unconfirmed", what, remedy="Set `?confirm=yes`.")
    await gateway.publishing.remove_collection(collection, caller.name)
    log.info("collection.removed", collection=collection, by=caller.name)
    return RemovedCollection(collection)


@router.get(
    "/collections/{collection}/writers", dependencies=[needs(Scope.READ)], responses=problems("catalog.no_collection")
)
async def show_writers(collection: CollectionId, reads: CurrentReads) -> CollectionAccess:
    """The platform that a collection belongs to, and those that may publish into it."""
    return await reads.items().access(collection)


@router.put(
    "/collections/{collection}/writers/{platform}",
    dependencies=[needs(Scope.OPERATE)],
    responses=problems("catalog.no_collection", "publication.owner"),
)
async def add_writer(
    collection: CollectionId, platform: PlatformId, caller: CurrentCaller, gateway: CurrentGateway
) -> CollectionAccess:
    """Let another platform publish into a collection of yours; it sees all of it."""
    return await _change_writer(collection, platform, caller, gateway, adds=True)


@router.delete(
    "/collections/{collection}/writers/{platform}",
    dependencies=[needs(Scope.OPERATE)],
    responses=problems("catalog.no_collection", "publication.owner"),
)
async def remove_writer(
    collection: CollectionId, platform: PlatformId, caller: CurrentCaller, gateway: CurrentGateway
) -> CollectionAccess:
    """Let a platform no longer publish into a collection of yours, nor see it; what it published stays."""
    return await _change_writer(collection, platform, caller, gateway, adds=False)


async def _change_writer(
    collection: str, writer: str, caller: Caller, gateway: Gateway, *, adds: bool
) -> CollectionAccess:
    changed = await gateway.publishing.change_writer(collection, writer, act_as(caller), adds=adds)
    log.info("collection.writers_changed", collection=collection, writer=writer, added=adds, by=caller.name)
    return changed


@router.get("/signing-keys", dependencies=[needs(Scope.READ)], responses=problems())
async def list_signing_keys(gateway: CurrentGateway) -> list[SigningKey]:
    """The public keys that signed manifests, the newest first."""
    return await gateway.reads.items().signing_keys()
