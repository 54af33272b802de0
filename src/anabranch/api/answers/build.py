"""Builds the answers of the contract from the engine's values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from pydantic import TypeAdapter

from anabranch.api.security.root_path import REQUESTED, at_root
from anabranch.canonical import decode
from anabranch.codes import with_remedy
from anabranch.contract.answer import Answer, JsonValue, Page, PageLinks, build, read
from anabranch.contract.control import DeadLetter
from anabranch.contract.jobs import (
    Event,
    Graph,
    GraphEdge,
    GraphNode,
    JobError,
    JobLinks,
    JobStatus,
    JobSummary,
    Node,
    StageResult,
    SubmittedJob,
    Task,
    TaskCounts,
)
from anabranch.contract.workflows import Workflow, WorkflowLinks, WorkflowSummary
from anabranch.engine import model, read_models
from anabranch.engine.failure import Failure
from anabranch.engine.gate_answers import spell_command, spell_decision
from anabranch.engine.model import JobState, NodeState
from anabranch.engine.ports import Submitted
from anabranch.enums import NodeStatus
from anabranch.workflows.drawing import Layout
from anabranch.workflows.inputs import inputs_schema
from anabranch.workflows.stages import Declaration

__all__ = [
    "build_dead_letter",
    "build_event",
    "build_graph",
    "build_job",
    "build_page",
    "build_submitted",
    "build_summary",
    "build_task",
    "build_workflow",
    "build_workflow_summary",
    "count_tasks",
    "page_links",
    "to_json",
    "to_text",
]

Item = TypeVar("Item")
Found = TypeVar("Found")
ENDED_NODE = frozenset(NodeStatus) - {NodeStatus.PENDING, NodeStatus.RUNNING, NodeStatus.WAITING}


def build_page(
    found: Sequence[Found],
    limit: int,
    item: Callable[[Found], Item],
    cursor: Callable[[Found], object],
    parameter: str = "after",
) -> Page[Item]:
    """A page of at most `limit` items; `found` has one more if there is a next page, asked for by a parameter."""
    shown = found[:limit]
    after = str(cursor(shown[-1])) if len(found) > limit else None
    return Page(tuple(map(item, shown)), after, page_links(parameter, after))


def page_links(parameter: str, after: str | None) -> PageLinks:
    """The links of a page to itself and to the next one, asked for by a parameter."""
    path, query = REQUESTED.get()
    kept = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] != parameter]
    following = None if after is None else f"{path}?{urlencode([*kept, (parameter, after)])}"
    return PageLinks(f"{path}?{query}" if query else path, following)


def to_json(answer: Answer) -> dict[str, JsonValue]:
    """An answer as JSON."""
    dumped: dict[str, JsonValue] = _adapter(answer).dump_python(answer, mode="json", by_alias=True)
    return dumped


def to_text(answer: Answer) -> bytes:
    """An answer as the text of its JSON."""
    return _adapter(answer).dump_json(answer, by_alias=True)


def _adapter(answer: Answer) -> TypeAdapter[Any]:  # of its own class
    return _make_adapter(type(answer))  # type: ignore[arg-type]  # every class is hashable


@cache
def _make_adapter(kind: type[Answer]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def build_submitted(job_type: str, submitted: Submitted) -> SubmittedJob:
    """The job of a submission."""
    job_id = submitted.job_id
    links, before = _job_links(job_id, job_type), submitted.failed_before
    return SubmittedJob(job_id, job_type, submitted.state, submitted.created, links, before)


def build_summary(job: read_models.LabelledJob) -> JobSummary:
    """A job in a list."""
    return build(JobSummary, job, **_job_fields(job))


def build_job(detail: read_models.JobDetail) -> JobStatus:
    """A job with its nodes."""
    job, tasks = detail.job, count_tasks(*detail.nodes)
    nodes = tuple(_build_node(node, job) for node in detail.nodes)
    results = {
        str(number): StageResult(node.name, node.status, node.tasks, detail.outputs.get(node.name))
        for number, node in enumerate(nodes, 1)
        if node.status in ENDED_NODE
    }
    return build(
        JobStatus,
        job,
        **_job_fields(job),
        parent=detail.parent_id,
        stage=_current_stage(detail),
        total_stages=len(nodes),
        nodes=nodes,
        waiting_for=detail.waiting_for,
        progress=_share_done(detail, tasks),
        tasks=tasks,
        stage_results=results,
        result_data=job.result,
    )


def count_tasks(*nodes: read_models.NodeDetail) -> TaskCounts:
    """The tasks of nodes by status."""
    return TaskCounts(**{one.name: sum(getattr(node.tasks, one.name) for node in nodes) for one in fields(TaskCounts)})


def build_task(task: read_models.TaskDetail) -> Task:
    """A task."""
    return build(Task, task, error=_build_error(task.error))


def build_event(event: model.Event) -> Event:
    """An event."""
    return build(Event, event, data={k: v for k, v in event.data.items() if k != "by" or event.by is None})


def build_graph(job: model.Job, layout: Layout, status: Mapping[str, NodeStatus]) -> Graph:
    """A job's graph."""
    nodes = (
        build(GraphNode, box.vertex, status=status[box.vertex.id], x=box.x, y=box.y, width=box.width, height=box.height)
        for box in layout.boxes
    )
    edges = (build(GraphEdge, route.edge, points=tuple(route.points)) for route in layout.routes)
    svg = at_root(f"/api/jobs/{job.job_id}/graph.svg")
    return Graph(job.job_id, job.state, layout.width, layout.height, tuple(nodes), tuple(edges), svg)


def build_dead_letter(letter: read_models.DeadLetter) -> DeadLetter:
    """A dead letter."""
    return build(DeadLetter, letter, job_status=letter.job_state, error=_build_error(letter.error))


def build_workflow_summary(declared: Declaration) -> WorkflowSummary:
    """A workflow in a list."""
    return build(WorkflowSummary, declared.workflow, **_workflow_fields(declared))


def build_workflow(declared: Declaration) -> Workflow:
    """A workflow with its definition."""
    inputs, definition = declared.inputs_schema, decode(declared.workflow.text)
    return build(Workflow, declared.workflow, **_workflow_fields(declared), inputs=inputs, definition=definition)


def _job_links(job_id: str, workflow: str) -> JobLinks:
    path = at_root(f"/api/jobs/{job_id}")
    parts = {name: f"{path}/{name}" for name in ("tasks", "events", "logs", "graph", "stream", "bundle")}
    return JobLinks(
        self=path,
        status=at_root(f"/api/jobs/status/{job_id}"),
        workflow=at_root(f"/api/workflows/{quote(workflow, safe='')}"),
        items=at_root(f"/api/items?job_id={job_id}"),
        **parts,
    )


def _job_fields(job: read_models.LabelledJob) -> dict[str, Any]:  # of answers, which the job has under other names
    links = _job_links(job.job_id, job.workflow)
    error = _build_error(job.error, of_release=job.release_id is not None)
    ending = job.ending and job.ending.state
    return {"job_type": job.workflow, "status": job.state, "ending": ending, "error": error, "links": links}


def _workflow_fields(declared: Declaration) -> dict[str, Any]:  # of answers, which the workflow has under other names
    workflow = declared.workflow
    path = at_root(f"/api/workflows/{workflow.id}")
    submit = at_root(f"/api/jobs/submit/{workflow.id}")
    return {
        "workflow_id": workflow.id,
        "nodes": len(workflow.nodes),
        "origin": Path(declared.origin).name,
        "links": WorkflowLinks(self=path, inputs=f"{path}/schema", graph=f"{path}/graph.svg", submit=submit),
    }


def _build_error(failure: Failure | None, *, of_release: bool = False) -> JobError | None:
    if failure is None:
        return None
    return read(JobError, {"remedy": "", **with_remedy(failure.to_json(), of_release=of_release)})


def _build_node(node: read_models.NodeDetail, job: read_models.LabelledJob) -> Node:
    said = node.said[0] if node.said and node.tasks.total == 1 else None
    gate = node.gate
    answer = None if gate is None or gate.answer is None else inputs_schema(gate.answer)
    command = None
    if gate:
        command = spell_decision(job.release_id) if job.release_id else spell_command(job.job_id[:12], gate)
    return build(
        Node,
        node,
        status=node.status,
        done=_count_done(node),
        progress=said,
        answer=answer,
        command=command,
        error=_build_error(node.error, of_release=job.release_id is not None),
    )


def _current_stage(detail: read_models.JobDetail) -> int:
    numbered = list(enumerate(detail.nodes, 1))
    running = [number for number, node in numbered if node.state is NodeState.RUNNING]
    opened = [number for number, node in numbered if node.opened_at is not None]
    return running[0] if running else max(opened, default=1)


def _share_done(detail: read_models.JobDetail, tasks: TaskCounts) -> float:
    state = detail.job.state
    if state is JobState.COMPLETED or not tasks.total:
        return float(state is JobState.COMPLETED)
    done = sum(map(_count_done, detail.nodes)) - tasks.cancelled
    return min(done / tasks.total, 1.0)


def _count_done(node: read_models.NodeDetail) -> float:
    """How many tasks of a node have ended, with the parts of running ones."""
    parts = sum(min(max(one.done / one.total, 0.0), 1.0) for one in node.said if one.total)
    return min(node.tasks.completed + node.tasks.failed + node.tasks.cancelled + parts, float(node.tasks.total))
