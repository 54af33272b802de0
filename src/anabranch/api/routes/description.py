"""The OpenAPI document."""

import json

from fastapi import APIRouter, Request, Response

from anabranch.access import Scope
from anabranch.api.answers.etags import CACHEABLE, IfNoneMatch, answer_unless_cached
from anabranch.api.deps import needs
from anabranch.api.openapi.declare import Responses, problems
from anabranch.api.openapi.document import MEDIA_TYPE_31, load_document

__all__ = ["router"]

router = APIRouter(tags=["description"])
DOCUMENT_RESPONSES: Responses = {
    200: {**CACHEABLE[200], "content": {MEDIA_TYPE_31: {"schema": {"type": "object"}}}},
    304: CACHEABLE[304],
}


@router.get(
    "/openapi.json",
    dependencies=[needs(Scope.READ)],
    response_class=Response,
    responses={**DOCUMENT_RESPONSES, **problems()},
)
async def describe_api(request: Request, if_none_match: IfNoneMatch = None) -> Response:
    """This document; its server is the address under which the caller knows the API."""
    document = {**load_document(), "servers": [{"url": str(request.base_url).rstrip("/")}]}
    return answer_unless_cached(Response(json.dumps(document), media_type=MEDIA_TYPE_31), if_none_match)
