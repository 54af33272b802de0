"""What the codes of problems mean: the pages that their `type` names, for everybody who may get a problem."""

from fastapi import APIRouter
from pydantic import Field

from anabranch.api.answers.openapi import problems
from anabranch.api.paths import ErrorCode
from anabranch.api.schemas import View
from anabranch.codes import Code, all_codes, find_code
from anabranch.errors import NotFound
from anabranch.workflows.mistakes import nearest

__all__ = ["router"]

router = APIRouter(prefix="/errors", tags=["errors"])


class CodeView(View):
    """A code, what it means and what to do."""

    code: str
    meaning: str
    remedy: str
    status: int | None = Field(description="The HTTP status; null where no request is answered with it.")
    exit_code: int = Field(description="What a command exits with.")
    retryable: bool = Field(description="Whether the same may succeed later.")

    @classmethod
    def of(cls, code: Code) -> "CodeView":
        """The view of a code."""
        return cls.model_validate({name: getattr(code, name) for name in cls.model_fields})


@router.get("", responses=problems())
async def list_codes() -> list[CodeView]:
    """Every code that problems, jobs and commands tell."""
    return [CodeView.of(code) for code in all_codes()]


@router.get("/{code}", responses=problems(404))
async def show_code(code: ErrorCode) -> CodeView:
    """One code."""
    found = find_code(code)
    if found is None:
        hint = nearest(code, [known.code for known in all_codes()])
        raise NotFound(
            "error.not_found", f"{code!r} is no code of ours", remedy=f"{hint} A plugin has its own.".strip()
        )
    return CodeView.of(found)
