"""Accepts a job for a caller: within their quota, and logged."""

import structlog

from anabranch.access import Principal
from anabranch.api.security.limits import Limits
from anabranch.engine.ports import Submitted
from anabranch.engine.submitting.submission import Order
from anabranch.gateway import Gateway

__all__ = ["accept_job"]

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
