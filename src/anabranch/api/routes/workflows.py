"""Workflows: the catalogue, each one's definition and drawing, and the check of a new one."""

import asyncio
from typing import Any

from fastapi import APIRouter, Response

from anabranch.access import Scope
from anabranch.api.answers.etags import KEPT, IfNoneMatch, answer_once
from anabranch.api.answers.openapi import body, problems
from anabranch.api.body import YAML_TYPES, YamlText
from anabranch.api.catalogue import CatalogueView, MistakeView, ReloadView, VerdictView, WorkflowView, schema_of
from anabranch.api.deps import CurrentGateway, needs
from anabranch.api.drawing import DRAWN, answer_svg
from anabranch.api.paths import WorkflowId
from anabranch.workflows.drawing.diagram import workflow_svg
from anabranch.workflows.yaml import load_yaml

__all__ = ["router"]

router = APIRouter(prefix="/api/workflows", tags=["workflows"])


@router.get("", dependencies=[needs(Scope.READ)], responses=problems())
async def list_workflows(gateway: CurrentGateway) -> CatalogueView:
    """The workflows by name, and what was refused."""
    return CatalogueView.of(gateway.registry)


@router.post(
    "/validate",
    dependencies=[needs(Scope.READ)],
    responses=problems(413, 415),
    openapi_extra=body({"type": "string"}, required=True, kinds=YAML_TYPES),
)
async def validate_workflow(text: YamlText, gateway: CurrentGateway) -> VerdictView:
    """Check a workflow in YAML against the rules, the handlers and the workflows it runs; nothing of it is kept."""
    registry = gateway.registry
    loaded = await asyncio.to_thread(
        lambda: load_yaml(text, "body", registry.handlers).among(registry.declarations, registry.broken)
    )
    return VerdictView(valid=not loaded.mistakes, mistakes=[MistakeView.of(mistake) for mistake in loaded.mistakes])


@router.post("/reload", dependencies=[needs(Scope.OPERATE)], responses=problems())
async def reload_workflows(gateway: CurrentGateway) -> ReloadView:
    """Read the workflow files again. Python code is not read again, and jobs in flight keep their definition."""
    return ReloadView.of(await gateway.reload())


@router.get(
    "/{workflow_id}",
    dependencies=[needs(Scope.READ)],
    response_model=WorkflowView,
    responses={**KEPT, **problems(404)},
)
async def show_workflow(
    workflow_id: WorkflowId, gateway: CurrentGateway, if_none_match: IfNoneMatch = None
) -> Response:
    """A workflow with its definition and the JSON Schema of its inputs."""
    view = WorkflowView.of(gateway.declaration(workflow_id))
    return answer_once(Response(view.model_dump_json(), media_type="application/json"), if_none_match)


@router.get("/{workflow_id}/schema", dependencies=[needs(Scope.READ)], responses=problems(404))
async def show_schema(workflow_id: WorkflowId, gateway: CurrentGateway) -> dict[str, Any]:  # JSON Schema
    """The JSON Schema of a workflow's inputs."""
    return schema_of(gateway.declaration(workflow_id))


@router.get(
    "/{workflow_id}/graph.svg",
    dependencies=[needs(Scope.READ)],
    response_class=Response,
    responses={**DRAWN, **problems(404)},
)
async def draw_workflow(
    workflow_id: WorkflowId, gateway: CurrentGateway, if_none_match: IfNoneMatch = None
) -> Response:
    """A workflow's nodes and edges as SVG."""
    workflow = gateway.declaration(workflow_id).workflow
    return answer_svg(await asyncio.to_thread(workflow_svg, workflow), if_none_match)
