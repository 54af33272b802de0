"""The processes of the stack."""

from fastapi import APIRouter

from anabranch.access import Scope
from anabranch.api.deps import CurrentGateway, needs
from anabranch.api.openapi import problems
from anabranch.api.schemas import WorkerView

__all__ = ["router"]

router = APIRouter(prefix="/api/workers", tags=["workers"])


@router.get("", dependencies=[needs(Scope.READ)], responses=problems(503))
async def list_workers(gateway: CurrentGateway) -> list[WorkerView]:
    """The live sessions: workers, orchestrators and the API itself."""
    return [WorkerView.of(session) for session in await gateway.reads.sessions()]
