"""Orders of partner systems, and what became of them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from pydantic import ValidationError

from anabranch.access import Scope
from anabranch.adapters.postgres.store.platforms import ReleaseRow
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.api.answers.build import build_job, build_page
from anabranch.api.answers.errors import InvalidRequest, Mistake, list_mistakes
from anabranch.api.callbacks import move_order_callback
from anabranch.api.deps import CurrentCaller, CurrentGateway, CurrentLimits, CurrentReads, GivenKey, needs
from anabranch.api.openapi.declare import BODY_CODES, SUBMIT_CODES, Responses, body, keyed, problems
from anabranch.api.paths import PlatformId
from anabranch.api.platform.build import build_release
from anabranch.api.platform.callers import act_as, platform_filter
from anabranch.api.platform.requests import HASH_LENGTH, AnyId, DryRunQuery, ReleaseId, RequestsQuery
from anabranch.api.requests.body import JsonBody, check_body
from anabranch.api.submission import REPLAYED_HEADER, accept_order
from anabranch.canonical import JsonObject, canonical, sha256
from anabranch.contract.answer import Page
from anabranch.contract.platform import Accepted, Release, WorkOrder
from anabranch.errors import NotFound
from anabranch.platform.orders import InvalidOrder, PlatformOrder
from anabranch.platform.translators import find_translator
from anabranch.releases.actions import RequestKey, Subject

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["platform"])

ORDER_CODES = (
    *BODY_CODES,
    *SUBMIT_CODES,
    *("platform.not_found", "platform.references", "platform.data_type", "platform.no_gate"),
    *(
        "platform.full",
        "asset.deleted",
        "release.unresolved",
        "release.clearance",
        "release.exists",
        "platform.options",
        "catalog.no_collection",
        "release.approved",
        "release.processing",
    ),
)
ACCEPTED: Responses = {200: {"model": Accepted, "description": "A dry run, or an order that was accepted before"}}

PLACES = {
    "platform.references": "body.refs",
    "platform.data_type": "body.data_type",
    "platform.options": "body.options",
    "platform.no_gate": "body.approval",
    "outbound.url": "body.callback_url",
    "storage.not_readable": "body.source",
    "storage.tier": "body.source",
}


@dataclass(frozen=True)
class OrderCall:
    """A call that submits an order: the caller, their quota, and the key of the request."""

    caller: CurrentCaller
    gateway: CurrentGateway
    limits: CurrentLimits
    key: GivenKey
    response: Response

    async def submit(self, order: PlatformOrder, again: str | None = None, *, dry_run: bool = False) -> Accepted:
        """Accept an order, and answer 200 where nothing was made. `again`: the release whose last order it is."""
        key = self._named({"resubmit": again} if again else order.identity)
        try:
            accepted, replayed = await self._submit(order, key, dry_run=dry_run, again=again is not None)
        except InvalidOrder as error:
            raise InvalidRequest([
                mistake
                for one in error.errors
                for mistake in list_mistakes(one)
                or [Mistake(where=PLACES.get(one.code, "body"), detail=f"{one.message}. {one.remedy}".rstrip(". "))]
            ]) from error  # fmt: skip
        if dry_run or accepted.verdict == "same":
            self.response.status_code = 200
        if replayed:
            self.response.headers[REPLAYED_HEADER] = "true"
        return accepted

    async def _submit(
        self, order: PlatformOrder, key: RequestKey | None, *, dry_run: bool, again: bool
    ) -> tuple[Accepted, bool]:
        by = act_as(self.caller)
        if dry_run:
            return await self.gateway.releases.submit_once(order, by, key, dry_run=True, again=again)
        return await accept_order(self.gateway, self.limits, self.caller.principal, order, by, key, again=again)

    def _named(self, asked: JsonObject) -> RequestKey | None:
        if self.key is None:
            return None
        keep = timedelta(hours=self.gateway.settings.idempotency_hours)
        return RequestKey(self.caller.platform, self.key, sha256(canonical(asked)), keep)


CurrentOrderCall = Annotated[OrderCall, Depends()]


@router.post(
    "/platform/submit",
    status_code=202,
    dependencies=[needs(Scope.SUBMIT)],
    responses={**ACCEPTED, **problems(*ORDER_CODES)},
    openapi_extra=keyed(body(PlatformOrder, required=True)),
)
@router.post(
    "/platform/submit_dag",
    status_code=202,
    dependencies=[needs(Scope.SUBMIT)],
    include_in_schema=False,
    response_model=Accepted,
)
async def submit_order(given: JsonBody, call: CurrentOrderCall, query: Annotated[DryRunQuery, Query()]) -> Accepted:
    """Accept a work order: it becomes a release of an asset, and a job. The same order is the same release and job."""
    order = check_body(PlatformOrder, move_order_callback(given))
    return await call.submit(order, dry_run=query.dry_run)


@router.post(
    "/platform/{platform}/submit",
    status_code=202,
    dependencies=[needs(Scope.SUBMIT)],
    responses={**ACCEPTED, **problems(*ORDER_CODES, "platform.translator")},
    openapi_extra=keyed(body({"type": "object"}, required=True)),
)
async def submit_translated_order(
    platform: PlatformId, given: JsonBody, call: CurrentOrderCall, query: Annotated[DryRunQuery, Query()]
) -> Accepted:
    """Accept a work order in the partner's own shape; the platform's translator turns it into ours."""
    await call.gateway.releases.find_platform(platform, platform_filter(call.caller))
    try:
        translated = find_translator(platform)(given)
    except ValidationError as error:
        raise InvalidRequest.of(error, "body") from error
    order = check_body(PlatformOrder, move_order_callback(translated))
    return await call.submit(order, dry_run=query.dry_run)


async def find_progress(release: ReleaseRow, reads: PostgresReads) -> float | None:
    """How much of a release's job is done, while it is processed."""
    if release["processing_status"] not in ("queued", "processing"):
        return None
    return build_job(await reads.detail(await reads.find(release["job_id"]))).progress


@router.get(
    "/platform/status/{id}", dependencies=[needs(Scope.READ)], responses=problems("release.not_found", "job.ambiguous")
)
@router.get(
    "/platform/dag_status/{id}", dependencies=[needs(Scope.READ)], include_in_schema=False, response_model=Release
)
async def show_release_status(
    id: AnyId,  # noqa: A002  # as the path says
    caller: CurrentCaller,
    gateway: CurrentGateway,
    reads: CurrentReads,
) -> Release:
    """The release of a request, a release, an asset (its newest) or a job, with its progress and outputs."""
    subjects: Sequence[Subject] = ("job_id",)
    if len(id) == HASH_LENGTH:
        subjects = ("asset_id", "release_id")
    elif "-" in id:
        subjects = ("request_id",)
    else:
        with suppress(NotFound):
            id = (await reads.find(id)).job_id  # noqa: A001  # as the path says
    for subject in subjects:
        if found := await gateway.releases.platforms.releases(platform_filter(caller), {subject: id}, limit=1):
            return build_release(found[0], await find_progress(found[0], reads))
    raise NotFound("release.not_found", f"there is no request, release, asset or job {id!r}")


@router.post(
    "/platform/releases/{release_id}/resubmit",
    status_code=202,
    dependencies=[needs(Scope.SUBMIT)],
    responses={**ACCEPTED, **problems(*ORDER_CODES, "release.not_found")},
    openapi_extra=keyed({}),
)
async def resubmit_release(release_id: ReleaseId, call: CurrentOrderCall) -> Accepted:
    """Submit the last order of a release again: after a failure, a rejection, a revoke or a review that expired."""
    platforms = call.gateway.releases.platforms
    orders = await platforms.requests(platform_filter(call.caller), limit=1, release_id=release_id)
    if not orders:
        raise NotFound("release.not_found", f"there is no release {release_id!r}")
    order = PlatformOrder.model_validate({**orders[0][1].body, "overwrite": False, "reprocess": False})
    return await call.submit(order, release_id)


@router.get("/platform/requests", dependencies=[needs(Scope.READ)], responses=problems())
async def list_requests(
    query: Annotated[RequestsQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Page[WorkOrder]:
    """Work orders as they were accepted, the newest first."""
    found = await gateway.releases.platforms.requests(
        platform_filter(caller), limit=query.limit + 1, release_id=query.release_id, before=query.before
    )
    return build_page(found, query.limit, lambda one: one[1], lambda one: str(one[0]))
