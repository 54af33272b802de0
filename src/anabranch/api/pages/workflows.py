"""Workflows: the list, and one with its graph, a form that starts a job, its versions and its schedules."""

import asyncio

from fastapi import Request, Response

from anabranch.api.answers.build import build_summary, build_workflow, build_workflow_summary
from anabranch.api.deps import CurrentCaller, CurrentGateway, CurrentReads
from anabranch.api.pages.drawings import draw_graph
from anabranch.api.pages.input_forms import read_fields, spell_curl, spell_python
from anabranch.api.pages.rendering import CurrentPage, page_router
from anabranch.api.pages.schedules import list_next_ticks
from anabranch.api.paths import WorkflowId
from anabranch.contract.schedules import Schedule
from anabranch.gateway import Gateway
from anabranch.workflows.drawing.diagram import draw_workflow

__all__ = ["router"]

router = page_router()
JOBS_SHOWN = 10
SCHEDULES_READ = 500


@router.get("/workflows")
async def show_workflows(page: CurrentPage, caller: CurrentCaller, gateway: CurrentGateway, q: str = "") -> Response:
    """The workflows by name, and what was refused."""
    registry = gateway.registry
    found = [build_workflow_summary(registry.declarations[name]) for name in sorted(registry.declarations)]
    words = q.lower().split()
    shown = [one for one in found if all(word in f"{one.workflow_id} {one.description}".lower() for word in words)]
    schedules = await _list_schedules(gateway, caller.visible_platform) if page.wants() else []
    return page.render(
        "workflows.html",
        title="Workflows",
        workflows=shown,
        q=q,
        refused=dict(registry.refused),
        scheduled={schedule.workflow for schedule in schedules},
    )


@router.get("/workflows/{workflow_id}")
async def show_workflow(
    workflow_id: WorkflowId,
    request: Request,
    page: CurrentPage,
    caller: CurrentCaller,
    gateway: CurrentGateway,
    reads: CurrentReads,
) -> Response:
    """A workflow: what it does, how to start it, and what came of it."""
    declared = gateway.declaration(workflow_id)
    workflow = build_workflow(declared)
    layout = await asyncio.to_thread(draw_workflow, declared.workflow)
    found = await reads.jobs(limit=JOBS_SHOWN, workflow=workflow_id)
    schedules = [one for one in await _list_schedules(gateway, caller.visible_platform) if one.workflow == workflow_id]
    fields = read_fields(workflow.inputs)
    given = {field.name: field.default if field.default is not None else "…" for field in fields if field.required}
    url = str(request.base_url).rstrip("/")
    return page.render(
        "workflow.html",
        title=workflow.workflow_id,
        workflow=workflow,
        graph=draw_graph(layout, title=f"The graph of {workflow_id}"),
        fields=fields,
        curl=spell_curl(url, {"workflow": workflow_id, "parameters": given}),
        python=spell_python(url, workflow_id, given),
        versions=await reads.workflow_versions(workflow_id),
        schedules=[(schedule, list_next_ticks(schedule)) for schedule in schedules],
        jobs=[build_summary(job) for job in found],
    )


async def _list_schedules(gateway: Gateway, platform: str | None) -> list[Schedule]:
    page = await gateway.schedules.list_page(platform, before=None, limit=SCHEDULES_READ)
    return list(page.items)
