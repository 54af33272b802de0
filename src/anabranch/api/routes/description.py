"""The description of the API itself."""

from typing import Any

from fastapi import APIRouter, Request

from anabranch.access import Scope
from anabranch.api.deps import needs

__all__ = ["router"]

router = APIRouter()


@router.get("/openapi.json", dependencies=[needs(Scope.READ)], include_in_schema=False)
async def describe_api(request: Request) -> dict[str, Any]:  # OpenAPI's own shape
    """The OpenAPI description."""
    described: dict[str, Any] = request.app.openapi()
    return described
