"""What callers get to see of workflows and handlers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field
from pydantic.errors import PydanticInvalidForJsonSchema

from anabranch.api.schemas import View
from anabranch.api.security.root_path import at_root
from anabranch.canonical import decode
from anabranch.engine.plugin import Registry
from anabranch.engine.worker.handler import describe_handler
from anabranch.gateway import Reloaded
from anabranch.workflows.handlers import Handler
from anabranch.workflows.inputs import inputs_schema
from anabranch.workflows.stages import Declaration
from anabranch.workflows.yaml import FileMistake

__all__ = ["CatalogueView", "HandlerView", "MistakeView", "ReloadView", "VerdictView", "WorkflowView", "schema_of"]

Schema = dict[str, Any]  # JSON Schema, ours or pydantic's
JsonObject = dict[str, Any]  # JSON of the engine's making


class RefusedView(View):
    """What can't be used, and why."""

    name: str = Field(description="A workflow's id, its file, or a plugin.")
    reason: str

    @classmethod
    def list(cls, refused: Mapping[str, str]) -> list[Self]:
        """The views of all that was refused."""
        return [cls(name=name, reason=reason) for name, reason in refused.items()]


class WorkflowLinks(View):
    """Where to go from a workflow."""

    self: str
    inputs: str
    graph: str
    submit: str

    @classmethod
    def of(cls, workflow_id: str) -> Self:
        """The links of a workflow."""
        path = at_root(f"/api/workflows/{workflow_id}")
        submit = at_root(f"/api/jobs/submit/{workflow_id}")
        return cls(self=path, inputs=f"{path}/schema", graph=f"{path}/graph.svg", submit=submit)


class WorkflowSummary(View):
    """A workflow in a list."""

    workflow_id: str
    name: str
    version: int
    description: str
    nodes: int
    origin: str = Field(description="The module that declares it, or the name of its file.")
    hash: str = Field(description="Of its definition: jobs are pinned to it.")
    links: WorkflowLinks

    @classmethod
    def of(cls, declared: Declaration) -> Self:
        """The view of a workflow."""
        return cls(**_fields(declared))


class CatalogueView(View):
    """The workflows by name, and what was refused."""

    items: list[WorkflowSummary]
    refused: list[RefusedView]

    @classmethod
    def of(cls, registry: Registry) -> Self:
        """The view of all that is registered."""
        items = [WorkflowSummary.of(registry.declarations[name]) for name in sorted(registry.declarations)]
        return cls(items=items, refused=RefusedView.list(registry.refused))


class WorkflowView(WorkflowSummary):
    """A workflow with its definition."""

    inputs: Schema = Field(description="The JSON Schema of its inputs.")
    definition: JsonObject = Field(description="The canonical definition, without what is as by default.")

    @classmethod
    def of(cls, declared: Declaration) -> Self:
        """The view of a workflow."""
        definition = decode(declared.workflow.text)
        return cls.model_validate({**_fields(declared), "inputs": schema_of(declared), "definition": definition})


class MistakeView(View):
    """A mistake at its place in the text, counted from 1."""

    line: int
    column: int
    message: str
    hint: str

    @classmethod
    def of(cls, mistake: FileMistake) -> Self:
        """The view of a mistake."""
        return cls(line=mistake.line, column=mistake.column, message=mistake.message, hint=mistake.hint)


class VerdictView(View):
    """Whether a workflow is sound, and every mistake if it isn't."""

    valid: bool
    mistakes: list[MistakeView]


class ReloadView(View):
    """What became of the workflows when their files were read again."""

    added: list[str]
    changed: list[str]
    removed: list[str]
    kept: list[str] = Field(description="Gone, and still served: a file that may have held them is refused.")
    refused: list[RefusedView]

    @classmethod
    def of(cls, reloaded: Reloaded) -> Self:
        """The view of a reload."""
        names = ("added", "changed", "removed", "kept")
        changes = {name: list(getattr(reloaded, name)) for name in names}
        return cls(**changes, refused=RefusedView.list(reloaded.refused))


class RetryView(View):
    """How often a task is tried; without `max_attempts` the error's kind decides."""

    max_attempts: int | None
    backoff: str
    initial_delay_seconds: float
    max_delay_seconds: float


class HandlerView(View):
    """A handler that tasks can call."""

    name: str
    summary: str
    queue: str
    timeout_seconds: float
    retry: RetryView
    runs: str = Field(description="Where it runs.")
    parameters: Schema | None = Field(description="The JSON Schema of its parameters; null where any are taken.")
    result: Schema | None

    @classmethod
    def of(cls, handler: Handler) -> Self:
        """The view of a handler."""
        return cls.model_validate(describe_handler(handler))


def schema_of(declared: Declaration) -> Schema:
    """The JSON Schema of a workflow's inputs; any object where it declares none."""
    anything: Schema = {"type": "object"}
    if declared.model is None:
        return anything if declared.workflow.inputs is None else inputs_schema(declared.workflow.inputs)
    try:
        return declared.model.model_json_schema()
    except PydanticInvalidForJsonSchema:  # a type of the plugin's own
        return anything


def _fields(declared: Declaration) -> dict[str, Any]:  # the fields of WorkflowSummary
    workflow = declared.workflow
    return {
        "workflow_id": workflow.id,
        "name": workflow.name,
        "version": workflow.version,
        "description": workflow.description,
        "nodes": len(workflow.nodes),
        "origin": Path(declared.origin).name,
        "hash": workflow.hash,
        "links": WorkflowLinks.of(workflow.id),
    }
