"""The functions that tasks can call."""

from fastapi import APIRouter

from anabranch.access import Scope
from anabranch.api.deps import CurrentGateway, needs
from anabranch.api.openapi.declare import problems
from anabranch.contract.workflows import Handler
from anabranch.engine.worker.handler import describe_handler

__all__ = ["router"]

router = APIRouter(prefix="/api/handlers", tags=["handlers"])


@router.get("", dependencies=[needs(Scope.READ)], responses=problems())
async def list_handlers(gateway: CurrentGateway) -> list[Handler]:
    """The handlers by name, with the schemas of their parameters and results."""
    handlers, versions = gateway.registry.handlers, gateway.registry.versions
    return [describe_handler(handlers[name], versions[name]) for name in sorted(handlers)]
