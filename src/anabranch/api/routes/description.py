"""The OpenAPI document."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from anabranch.access import Scope
from anabranch.api.answers.etags import IfNoneMatch, answer_unless_cached
from anabranch.api.deps import needs

__all__ = ["router"]

router = APIRouter()


@router.get("/openapi.json", dependencies=[needs(Scope.READ)], include_in_schema=False)
async def describe_api(request: Request, if_none_match: IfNoneMatch = None) -> Response:
    """The OpenAPI document."""
    servers = [{"url": str(request.base_url).rstrip("/")}]
    return answer_unless_cached(JSONResponse({**request.app.openapi(), "servers": servers}), if_none_match)
