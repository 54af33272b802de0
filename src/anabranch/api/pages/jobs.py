"""Jobs: the list, filtered by its address, in pages by keyset, with what acts on many."""

import re
from typing import Annotated

from fastapi import Query, Response
from fastapi.responses import RedirectResponse
from pydantic import Field

from anabranch.api.answers.build import build_page, build_summary, count_tasks
from anabranch.api.deps import CurrentGateway, CurrentReads
from anabranch.api.pages.rendering import CurrentPage, page_router
from anabranch.api.pages.words import link
from anabranch.api.requests.models import JobsQuery
from anabranch.api.routes.jobs import find_jobs
from anabranch.enums import JobState

__all__ = ["router"]

router = page_router()
JOB_ID = re.compile(r"[0-9a-f]{4,64}")


class JobsForm(JobsQuery):
    """The same query, and an id to go to."""

    id: str | None = Field(None, max_length=64, description="The id of a job, or its beginning.")


@router.get("/jobs")
async def show_jobs(
    page: CurrentPage, query: Annotated[JobsForm, Query()], reads: CurrentReads, gateway: CurrentGateway
) -> Response:
    """The newest jobs, or those before one of them."""
    if query.id and JOB_ID.fullmatch(wanted := query.id.strip().lower()):
        return RedirectResponse(link(f"/jobs/{wanted}"), status_code=303)
    found = await find_jobs(query, reads)
    jobs = build_page(found, query.limit, build_summary, lambda job: job.id, "before")
    nodes = await reads.nodes_of([job.id for job in found[: query.limit]])
    return page.render(
        "jobs.html",
        title="Jobs",
        jobs=jobs,
        tasks={job.job_id: count_tasks(*nodes[job.id]) for job in found[: query.limit]},
        query=query,
        filtered=bool(query.status or query.workflow or query.parent or query.label),
        states=list(JobState),
        workflows=sorted(gateway.registry.declarations),
    )
