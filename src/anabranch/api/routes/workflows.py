"""List, show, draw, validate and reload workflows."""

import asyncio

from fastapi import APIRouter, Response

from anabranch.access import Scope
from anabranch.api.answers.build import build_workflow, build_workflow_summary, to_text
from anabranch.api.answers.etags import IfNoneMatch, answer_unless_cached, returns_cacheable
from anabranch.api.deps import CurrentGateway, needs
from anabranch.api.drawing import SVG_RESPONSES, answer_svg
from anabranch.api.openapi.declare import BODY_CODES, body, problems
from anabranch.api.paths import WorkflowId
from anabranch.api.requests.body import YAML_TYPES, YamlText
from anabranch.contract.answer import JsonObject, build
from anabranch.contract.workflows import Refusal, Reloaded, Verdict, Workflow, WorkflowMistake, Workflows
from anabranch.workflows.drawing.diagram import workflow_svg
from anabranch.workflows.yaml.load import load_yaml

__all__ = ["router"]

router = APIRouter(prefix="/api/workflows", tags=["workflows"])


@router.get("", dependencies=[needs(Scope.READ)], responses=problems())
async def list_workflows(gateway: CurrentGateway) -> Workflows:
    """The workflows by name, and those that were refused."""
    registry = gateway.registry
    items = (build_workflow_summary(registry.declarations[name]) for name in sorted(registry.declarations))
    refused = (Refusal(name, reason) for name, reason in registry.refused.items())
    return Workflows(tuple(items), tuple(refused))


@router.post(
    "/validate",
    dependencies=[needs(Scope.READ)],
    responses=problems(*BODY_CODES),
    openapi_extra=body({"type": "string"}, required=True, kinds=YAML_TYPES),
)
async def validate_workflow(text: YamlText, gateway: CurrentGateway) -> Verdict:
    """Validate a workflow in YAML, with the handlers and workflows it uses; it is not stored."""
    registry = gateway.registry
    async with gateway.validating:  # one at a time: a large file takes seconds
        loaded = await asyncio.to_thread(
            lambda: load_yaml(text, "body", registry.handlers).among(registry.declarations, registry.broken)
        )
    return Verdict(not loaded.mistakes, tuple(build(WorkflowMistake, mistake) for mistake in loaded.mistakes))


@router.post("/reload", dependencies=[needs(Scope.OPERATE)], responses=problems())
async def reload_workflows(gateway: CurrentGateway) -> Reloaded:
    """Reload the workflow files. Python code is not reloaded, and existing jobs keep their definition."""
    return await gateway.reload()


@router.get("/{workflow_id}", dependencies=[needs(Scope.READ)], **returns_cacheable(Workflow, "workflow.not_found"))
async def show_workflow(
    workflow_id: WorkflowId, gateway: CurrentGateway, if_none_match: IfNoneMatch = None
) -> Response:
    """A workflow with its definition and the JSON Schema of its inputs."""
    text = to_text(build_workflow(gateway.declaration(workflow_id)))
    return answer_unless_cached(Response(text, media_type="application/json"), if_none_match)


@router.get("/{workflow_id}/schema", dependencies=[needs(Scope.READ)], responses=problems("workflow.not_found"))
async def show_schema(workflow_id: WorkflowId, gateway: CurrentGateway) -> JsonObject:
    """The JSON Schema of a workflow's inputs."""
    return gateway.declaration(workflow_id).inputs_schema


@router.get(
    "/{workflow_id}/graph.svg",
    dependencies=[needs(Scope.READ)],
    response_class=Response,
    responses={**SVG_RESPONSES, **problems("workflow.not_found")},
)
async def draw_workflow(
    workflow_id: WorkflowId, gateway: CurrentGateway, if_none_match: IfNoneMatch = None
) -> Response:
    """A workflow's nodes and edges as SVG."""
    workflow = gateway.declaration(workflow_id).workflow
    return answer_svg(await asyncio.to_thread(workflow_svg, workflow), if_none_match)
