"""A job: where it stands and why, its graph and timeline, what failed, its tasks, events, logs and data."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from pydantic import Field

from anabranch.access import Scope
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.api.answers.build import build_event, build_job, build_page, build_task
from anabranch.api.answers.insight import MAX_ATTEMPTS, build_timeline
from anabranch.api.deps import CurrentControls, CurrentReads
from anabranch.api.pages.drawings import draw_graph
from anabranch.api.pages.rendering import CurrentPage, Page, page_router
from anabranch.api.pages.timelines import lay_out
from anabranch.api.pages.words import link
from anabranch.api.paths import JobId
from anabranch.api.routes.insight import MAX_GROUPS
from anabranch.contract.answer import build
from anabranch.contract.jobs import Log, TaskStatus
from anabranch.engine.model import TERMINAL_STATES, Job
from anabranch.engine.read_models import JobDetail
from anabranch.errors import AnabranchError
from anabranch.job_control import RetryChoice
from anabranch.strict_model import StrictModel
from anabranch.workflows.drawing import Layout
from anabranch.workflows.drawing.diagram import draw_workflow

__all__ = ["routers"]

reading, operating, submitting = page_router(), page_router(scope=Scope.OPERATE), page_router(scope=Scope.SUBMIT)
TASKS_SHOWN, EVENTS_SHOWN, LOGS_SHOWN, ITEMS_SHOWN = 50, 100, 50, 20
View = Literal["tasks", "events", "logs", "data"]
TASK_STATES: tuple[TaskStatus, ...] = ("ready", "running", "due", "completed", "failed", "cancelled")


class JobForm(StrictModel):
    """What of a job is shown below its graph."""

    view: View = "tasks"
    node: str | None = Field(None, max_length=200)
    status: TaskStatus | None = None
    index: str | None = Field(None, max_length=200)
    after: str | None = Field(None, max_length=60)
    q: str | None = Field(None, max_length=200)


@reading.get("/jobs/{job_id}")
async def show_job(
    job_id: JobId, page: CurrentPage, query: Annotated[JobForm, Query()], reads: CurrentReads
) -> Response:
    """A job, with a graph that shows where it is."""
    found = await reads.find(job_id)
    detail, layout = await asyncio.gather(reads.detail(found), _lay_out(reads, found))
    job = build_job(detail)
    return page.render(
        "job/job.html",
        title=f"{job.job_type} {job.job_id[:12]}",
        job=job,
        detail=detail,
        query=query,
        task_states=TASK_STATES,
        ended=found.state in TERMINAL_STATES,
        runs_jobs=layout is not None and any(box.vertex.kind == "workflow" for box in layout.boxes),
        graph=_draw(layout, detail) if layout and page.wants("graph") else None,
        timeline=await _timeline(reads, detail, layout) if layout and page.wants("timeline") else (),
        failures=await reads.failure_groups(found.id, limit=MAX_GROUPS) if page.wants("failures") else (),
        items=await _items(reads, found.job_id) if page.wants("head") else (),
        newer=await reads.find_newer(found) if page.wants("head") else None,
        **(await _view(page, reads, found, query)),
    )


async def _lay_out(reads: PostgresReads, job: Job) -> Layout | None:
    """The layout of a job's workflow; none where its definition can't be read by this release."""
    try:
        return await asyncio.to_thread(draw_workflow, await reads.workflow(job))
    except AnabranchError:
        return None


def _draw(layout: Layout, detail: JobDetail) -> object:
    path = f"/jobs/{detail.job.job_id}"
    return draw_graph(
        layout,
        title=f"The graph of {detail.job.workflow}",
        states={node.name: node.status for node in detail.nodes},
        tasks={node.name: node.tasks for node in detail.nodes},
        target=lambda node: link(path, view="tasks", node=node) + "#view",
    )


async def _timeline(reads: PostgresReads, detail: JobDetail, layout: Layout) -> object:
    times = await reads.attempt_times(detail.job.id, limit=MAX_ATTEMPTS)
    return lay_out(build_timeline(detail.job, detail.nodes, layout, times))


async def _items(reads: PostgresReads, job_id: str) -> object:
    return await reads.items().find(limit=ITEMS_SHOWN, job_id=job_id)


async def _view(page: Page, reads: PostgresReads, job: Job, query: JobForm) -> dict[str, Any]:
    """What is below the graph: one of the lists, and nothing of the others."""
    shown: dict[str, Any] = {"rows": None}  # what templates take
    if not page.wants("view"):
        return shown
    if query.view == "tasks":
        found = await reads.tasks(
            job.id, limit=TASKS_SHOWN + 1, after=query.after, node=query.node, status=query.status, whole=False
        )
        shown["rows"] = build_page(found, TASKS_SHOWN, build_task, lambda task: task.cursor)
    elif query.view == "events":
        after = int(query.after) if query.after and query.after.isdecimal() else max(0, job.last_event - EVENTS_SHOWN)
        events = await reads.events(job.id, after=after, limit=EVENTS_SHOWN + 1)
        shown |= {"rows": build_page(events, EVENTS_SHOWN, build_event, lambda event: event.seq), "from_event": after}
    elif query.view == "logs":
        status = query.status if query.status in ("running", "failed") else None
        traces = await reads.logs(
            job.id, limit=LOGS_SHOWN + 1, after=query.after, node=query.node, index=query.index, status=status
        )
        shown["rows"] = build_page(traces, LOGS_SHOWN, lambda trace: build(Log, trace), lambda trace: trace.cursor)
    return shown


class RetryForm(StrictModel):
    """What a retry runs again; without a choice, the failed tasks."""

    node: str | None = Field(None, max_length=200)
    from_node: str | None = Field(None, max_length=200)


@operating.get("/jobs/{job_id}/retry")
async def show_retry(
    job_id: JobId,
    page: CurrentPage,
    query: Annotated[RetryForm, Query()],
    reads: CurrentReads,
    controls: CurrentControls,
) -> Response:
    """What a retry would run, and the button that does."""
    job = await reads.find(job_id)
    choice = RetryChoice((query.node,) if query.node else (), query.from_node)
    plan = await controls.plan_retry(job.job_id, choice)
    nodes = await reads.nodes(job.id)
    body = {"nodes": list(choice.nodes)} if choice.nodes else {"from_node": choice.from_node} if query.from_node else {}
    return page.render("job/retry.html", title="Retry", job=job, plan=plan, nodes=nodes, query=query, body=body)


@operating.get("/jobs/{job_id}/cancel")
async def show_cancel(job_id: JobId, page: CurrentPage, reads: CurrentReads) -> Response:
    """What a cancellation would stop, and the form that does."""
    detail = await reads.job(job_id)
    return page.render("job/cancel.html", title="Cancel", job=build_job(detail))


@submitting.get("/jobs/{job_id}/rerun")
async def show_rerun(job_id: JobId, page: CurrentPage, reads: CurrentReads) -> Response:
    """The same parameters as a new job: what will run, and the form that submits it."""
    detail = await reads.job(job_id)
    return page.render("job/rerun.html", title="Run again", job=build_job(detail))


routers = (reading, operating, submitting)
