"""What the API says about itself: the OpenAPI document, and the error codes, which are open to everybody."""

import json

from fastapi import APIRouter, Request, Response

from anabranch.access import Scope
from anabranch.api.answers.etags import CACHEABLE, IfNoneMatch, answer_unless_cached
from anabranch.api.deps import needs
from anabranch.api.openapi.declare import Responses, problems
from anabranch.api.openapi.document import MEDIA_TYPE_31, load_document
from anabranch.api.paths import ErrorCode
from anabranch.codes import all_codes, find_code
from anabranch.contract import stack
from anabranch.contract.answer import build
from anabranch.errors import NotFound
from anabranch.workflows.mistakes import nearest

__all__ = ["router"]

router = APIRouter()
DOCUMENT_RESPONSES: Responses = {
    200: {**CACHEABLE[200], "content": {MEDIA_TYPE_31: {"schema": {"type": "object"}}}},
    304: CACHEABLE[304],
}


@router.get(
    "/openapi.json",
    tags=["description"],
    dependencies=[needs(Scope.READ)],
    response_class=Response,
    responses={**DOCUMENT_RESPONSES, **problems()},
)
async def describe_api(request: Request, if_none_match: IfNoneMatch = None) -> Response:
    """This document; its server is the address under which the caller knows the API."""
    document = {**load_document(), "servers": [{"url": str(request.base_url).rstrip("/")}]}
    return answer_unless_cached(Response(json.dumps(document), media_type=MEDIA_TYPE_31), if_none_match)


@router.get("/errors", tags=["errors"], responses=problems())
async def list_codes() -> list[stack.ErrorCode]:
    """All error codes, of the API, of jobs and of commands."""
    return [build(stack.ErrorCode, code) for code in all_codes()]


@router.get("/errors/{code}", tags=["errors"], responses=problems("error.not_found"))
async def show_code(code: ErrorCode) -> stack.ErrorCode:
    """An error code: the page that the `type` of a problem document refers to."""
    found = find_code(code)
    if found is None:
        hint = nearest(code, [known.code for known in all_codes()])
        raise NotFound(
            "error.not_found", f"{code!r} is no code of ours", remedy=f"{hint} A plugin has its own.".strip()
        )
    return build(stack.ErrorCode, found)
