"""The meaning of error codes: the pages that the `type` of problem documents refers to; open to everybody."""

from fastapi import APIRouter

from anabranch.api.openapi.declare import problems
from anabranch.api.paths import ErrorCode
from anabranch.codes import all_codes, find_code
from anabranch.contract import stack
from anabranch.contract.answer import build
from anabranch.errors import NotFound
from anabranch.workflows.mistakes import nearest

__all__ = ["router"]

router = APIRouter(prefix="/errors", tags=["errors"])


@router.get("", responses=problems())
async def list_codes() -> list[stack.ErrorCode]:
    """All error codes, of the API, of jobs and of commands."""
    return [build(stack.ErrorCode, code) for code in all_codes()]


@router.get("/{code}", responses=problems("error.not_found"))
async def show_code(code: ErrorCode) -> stack.ErrorCode:
    """An error code."""
    found = find_code(code)
    if found is None:
        hint = nearest(code, [known.code for known in all_codes()])
        raise NotFound(
            "error.not_found", f"{code!r} is no code of ours", remedy=f"{hint} A plugin has its own.".strip()
        )
    return build(stack.ErrorCode, found)
