"""The settings of the process that answers."""

from fastapi import APIRouter

from anabranch.access import Scope
from anabranch.api.deps import CurrentSettings, needs
from anabranch.api.openapi.declare import problems
from anabranch.contract.stack import Setting
from anabranch.settings import origins

__all__ = ["router"]

router = APIRouter(prefix="/api/settings", tags=["settings"])


@router.get("", dependencies=[needs(Scope.ADMIN)], responses=problems())
async def list_settings(settings: CurrentSettings) -> list[Setting]:
    """Every setting of the API's process with its value, secrets masked, and where the value is from."""
    return [Setting(one.name, one.value, one.origin) for one in origins(settings)]
