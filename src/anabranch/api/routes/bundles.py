"""All of a job that helps whoever is asked why."""

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from anabranch.access import Scope
from anabranch.api.answers.bundle import BUNDLED, MEDIA_TYPE, pack
from anabranch.api.answers.openapi import problems
from anabranch.api.deps import CurrentGateway, needs
from anabranch.api.paths import JobId

__all__ = ["router"]

router = APIRouter(prefix="/api/jobs", tags=["jobs"])


@router.get(
    "/{job_id}/bundle",
    dependencies=[needs(Scope.OPERATE)],
    response_class=StreamingResponse,
    responses={**BUNDLED, **problems(404, 409, 410)},
)
async def bundle_job(job_id: JobId, gateway: CurrentGateway) -> StreamingResponse:
    """A job, its definition, events, failed tasks and their logs, versions and masked settings, in one zip."""
    job = await gateway.reads.find(job_id)
    name = f"anabranch-{job.job_id[:12]}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(pack(gateway, job), media_type=MEDIA_TYPE, headers=headers)
