"""Accepts a job or a work order for a caller: within their quota, and logged."""

from collections.abc import Sequence
from functools import partial

import structlog
from fastapi import Response

from anabranch.access import Principal
from anabranch.api.answers.build import build_submitted, to_text
from anabranch.api.callbacks import seal_callbacks
from anabranch.api.deps import Caller
from anabranch.api.requests.models import JobRequest
from anabranch.api.security.limits import Limits
from anabranch.contract.platform import Accepted
from anabranch.engine.ports import Submitted
from anabranch.engine.submitting.submission import Order
from anabranch.gateway import Gateway
from anabranch.platform.action_by import ActionBy
from anabranch.platform.orders import PlatformOrder
from anabranch.releases.actions import RequestKey

__all__ = ["REPLAYED_HEADER", "accept_job", "accept_order", "submit_wanted"]

REPLAYED_HEADER = "Idempotency-Replayed"

log = structlog.get_logger()


async def accept_job(gateway: Gateway, limits: Limits, principal: Principal, order: Order) -> Submitted:
    """The job of an order, if the quota of its platform has room for a new one."""
    with limits.counting_jobs(principal) as count:
        (refused,) = await count.admit([order], gateway.find_repeats)
        if refused:
            raise refused
        submitted = await gateway.submit(order)
        count.made += submitted.is_new
    log.info(
        "job.accepted",
        job=submitted.job_id,
        job_type=order.workflow_id,
        created=submitted.created,
        replayed=submitted.replayed,
    )
    return submitted


async def submit_wanted(
    gateway: Gateway, limits: Limits, caller: Caller, wanted: JobRequest, key: str | None
) -> Response:
    """Submit a job that was read from a request."""
    order = Order(
        workflow_id=wanted.workflow,
        parameters=wanted.parameters,
        scope=caller.platform,
        correlation_id=caller.correlation_id,
        priority=wanted.priority,
        rerun=wanted.rerun,
        key=key,
        by=caller.name,
        labels=wanted.labels,
        callbacks=await seal_callbacks(gateway, caller.platform, wanted.callbacks),
        by_scope=caller.scope,
    )
    submitted = await accept_job(gateway, limits, caller.principal, order)
    # As it is: the framework would check and copy it once more, and this is the busiest route.
    body = to_text(build_submitted(wanted.workflow, submitted))
    headers = {REPLAYED_HEADER: "true"} if submitted.replayed else None
    return Response(body, 202 if submitted.created else 200, headers, "application/json")


async def accept_order(
    gateway: Gateway,
    limits: Limits,
    principal: Principal,
    order: PlatformOrder,
    by: ActionBy,
    key: RequestKey | None,
    *,
    again: bool = False,
) -> tuple[Accepted, bool]:
    """The release and job of a work order, if the quota of the caller's platform has room for a new job.

    True: it is the answer to an earlier request with the same key.
    """
    submit = partial(gateway.releases.submit_once, order, by, key, again=again)

    async def find_repeats(_: Sequence[PlatformOrder]) -> list[bool]:
        planned, replayed = await submit(dry_run=True)
        return [replayed or planned.verdict == "same"]

    with limits.counting_jobs(principal) as count:
        (refused,) = await count.admit([order], find_repeats)
        if refused:
            raise refused
        accepted, replayed = await submit()
        count.made += not replayed and accepted.verdict != "same"
    log.info("order.accepted", release=accepted.release_id, verdict=accepted.verdict, job=accepted.job_id)
    return accepted, replayed
