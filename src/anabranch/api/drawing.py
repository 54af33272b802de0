"""Drawings of workflows: the SVG as an answer, and the layout as JSON."""

from collections.abc import Mapping
from typing import Self

from fastapi import Response
from pydantic import Field

from anabranch.api.answers.etags import KEPT, answer_once
from anabranch.api.answers.openapi import Responses
from anabranch.api.schemas import View
from anabranch.api.security.root_path import at_root
from anabranch.engine.model import Job, JobState, NodeState
from anabranch.workflows.drawing import Box, Layout, Route

__all__ = ["DRAWN", "GraphView", "answer_svg"]

SVG = "image/svg+xml"
DRAWN: Responses = {
    **KEPT,
    200: {**KEPT[200], "description": "The drawing", "content": {SVG: {"schema": {"type": "string"}}}},
}
# A drawing that is opened by itself is a document: it runs nothing and loads nothing.
ALONE = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}


def answer_svg(drawing: str, if_none_match: str | None) -> Response:
    """A drawing as an answer, if the caller has no such one."""
    return answer_once(Response(drawing, media_type=SVG, headers=ALONE), if_none_match)


class BoxView(View):
    """A node and the rectangle it fills, from its top left corner, in pixels."""

    id: str
    label: str
    kind: str = Field(
        description="`task`, `conditional`, `fan_out`, `fan_in`, `gate`, `wait` or `workflow`: it chooses the shape."
    )
    note: str = Field(
        description="A second line: its handler or workflow, what it compares, how it folds, how long it waits."
    )
    state: NodeState
    x: float
    y: float
    width: float
    height: float

    @classmethod
    def of(cls, box: Box, state: NodeState) -> Self:
        """The view of a node."""
        node = box.vertex
        place = {"x": box.x, "y": box.y, "width": box.width, "height": box.height}
        return cls(id=node.id, label=node.label, kind=node.kind, note=node.note, state=state, **place)


class RouteView(View):
    """An edge and its points from top to bottom."""

    tail: str
    head: str
    label: str = Field(description="The condition of a branch; `any` where one edge of several is enough.")
    points: list[tuple[float, float]]

    @classmethod
    def of(cls, route: Route) -> Self:
        """The view of an edge."""
        edge = route.edge
        return cls(tail=edge.tail, head=edge.head, label=edge.label, points=list(route.points))


class GraphView(View):
    """A job's workflow, as it was pinned, laid out, with the states of its nodes."""

    job_id: str
    status: JobState
    width: float
    height: float
    nodes: list[BoxView]
    edges: list[RouteView]
    svg: str = Field(description="Where it is drawn.")

    @classmethod
    def of(cls, job: Job, layout: Layout, states: Mapping[str, NodeState]) -> Self:
        """The view of a layout."""
        return cls(
            job_id=job.job_id,
            status=job.state,
            width=layout.width,
            height=layout.height,
            nodes=[BoxView.of(box, states[box.vertex.id]) for box in layout.boxes],
            edges=[RouteView.of(route) for route in layout.routes],
            svg=at_root(f"/api/jobs/{job.job_id}/graph.svg"),
        )
