"""Workers and queues: the processes of the stack, what waits and runs in each queue, and what is limited or paused."""

import asyncio

from fastapi import Response

from anabranch.access import Scope
from anabranch.api.deps import CurrentGateway
from anabranch.api.pages.rendering import CurrentPage, page_router
from anabranch.api.routes.operations.limits import list_limits, list_queues
from anabranch.api.routes.operations.workers import list_workers
from anabranch.engine.model import LimitKind

__all__ = ["router"]

router = page_router(scope=Scope.ADMIN)


@router.get("/workers")
async def show_workers(page: CurrentPage, gateway: CurrentGateway) -> Response:
    """Sessions, queues and limits."""
    workers, queues, limits = await asyncio.gather(list_workers(gateway), list_queues(gateway), list_limits(gateway))
    return page.render(
        "operations/workers.html",
        title="Workers",
        workers=workers,
        queues=queues,
        limits=limits,
        kinds=list(LimitKind),
        workflows=sorted(gateway.registry.declarations),
    )
