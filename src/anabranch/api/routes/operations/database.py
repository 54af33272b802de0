"""The database for operators; changes need a confirmation (S6)."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Query

from anabranch.access import Scope
from anabranch.api.answers.build import build_page
from anabranch.api.deps import CurrentGateway, needs
from anabranch.api.openapi.declare import JOB_CODES, problems
from anabranch.api.paths import JobId
from anabranch.api.requests.models import ConfirmQuery, TaskRowsQuery
from anabranch.contract.answer import Page
from anabranch.contract.stack import CheckedFunctions, Redeployed, Statistics, TaskRow
from anabranch.errors import InputError

__all__ = ["router"]

log = structlog.get_logger()
router = APIRouter(prefix="/api/db", tags=["database"])
SCHEMA_CODES = (
    *("database.busy", "database.locked", "database.newer", "database.not_allowed"),
    *("database.migration_changed", "database.migration_missing", "database.migration_skipped"),
)


@router.get("/tasks/{job_id}", dependencies=[needs(Scope.ADMIN)], responses=problems(*JOB_CODES))
async def list_task_rows(
    job_id: JobId, query: Annotated[TaskRowsQuery, Query()], gateway: CurrentGateway
) -> Page[TaskRow]:
    """The tasks of a job as stored in their rows, with lane, session and process; large results are references."""
    job = await gateway.reads.find(job_id)
    found = await gateway.reads.task_rows(job.id, limit=query.limit + 1, after=query.after)
    return build_page(found, query.limit, lambda row: row, lambda row: f"{row.lane}.{row.position}")


@router.get("/stats", dependencies=[needs(Scope.ADMIN)], responses=problems())
async def show_statistics(gateway: CurrentGateway) -> Statistics:
    """Sizes of the database and its tables, the oldest transaction, and the jobs by status."""
    return await gateway.inspection.statistics()


@router.get("/functions/test", dependencies=[needs(Scope.ADMIN)], responses=problems(*SCHEMA_CODES))
async def check_functions(gateway: CurrentGateway) -> CheckedFunctions:
    """Check that functions, tables and grants are those of this release; changes nothing."""
    return await gateway.inspection.check()


@router.post(
    "/schema/redeploy",
    dependencies=[needs(Scope.ADMIN)],
    responses=problems(*SCHEMA_CODES, "request.unconfirmed"),
)
async def redeploy_schema(query: Annotated[ConfirmQuery, Query()], gateway: CurrentGateway) -> Redeployed:
    """Recreate functions, views, triggers and grants, in one transaction; tables and their rows stay."""
    if query.confirm != "yes":
        raise InputError("request.unconfirmed", "this replaces functions that jobs use", remedy="Say `?confirm=yes`.")
    functions = await gateway.inspection.redeploy()
    log.info("schema.redeployed", functions=functions)
    return Redeployed(redeployed=True, functions=functions)
