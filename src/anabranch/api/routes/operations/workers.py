"""The processes of the stack."""

import structlog
from fastapi import APIRouter

from anabranch.access import Scope
from anabranch.api.deps import CurrentGateway, needs
from anabranch.api.openapi.declare import problems
from anabranch.api.paths import Session
from anabranch.contract.control import Drained, Worker

__all__ = ["router"]

log = structlog.get_logger()
router = APIRouter(prefix="/api/workers", tags=["workers"])


@router.get("", dependencies=[needs(Scope.ADMIN)], responses=problems())
async def list_workers(gateway: CurrentGateway) -> list[Worker]:
    """The live sessions: workers, orchestrators and the API itself."""
    return await gateway.reads.sessions()


@router.post("/{session}/drain", dependencies=[needs(Scope.ADMIN)], responses=problems("worker.not_found"))
async def drain_worker(session: Session, gateway: CurrentGateway) -> Drained:
    """Drain a worker: it claims no more tasks, and running tasks continue."""
    await gateway.controls.drain(session, draining=True)
    log.info("worker.drained", session=session)
    return Drained(id=session, draining=True)


@router.post("/{session}/resume", dependencies=[needs(Scope.ADMIN)], responses=problems("worker.not_found"))
async def resume_worker(session: Session, gateway: CurrentGateway) -> Drained:
    """Let a worker claim tasks again."""
    await gateway.controls.drain(session, draining=False)
    log.info("worker.resumed", session=session)
    return Drained(id=session, draining=False)
