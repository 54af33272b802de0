"""A workflow: what a job runs. A plain value that the validator checks; jobs are pinned to its hash (E16)."""

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass
from pydantic.json_schema import SkipJsonSchema

from anabranch.canonical import Json, canonical, decode, sha256
from anabranch.workflows.expressions import Template, read_template
from anabranch.workflows.inputs import Input
from anabranch.workflows.nodes import AnyNode, Kind, Node
from anabranch.workflows.rules import PRIORITIES, Check, Model, Whole, declared, filled
from anabranch.workflows.schedules.schedule import Schedule
from anabranch.workflows.values import ID_PATTERN, OUTPUT, read_text
from anabranch.workflows.work import Mapped, WorkflowWork

__all__ = ["Workflow"]


@dataclass(frozen=True)
class Workflow(Model):
    """A DAG of nodes that jobs run."""

    id: Annotated[str, Check(read_text, {"type": "string", "pattern": ID_PATTERN})] = Field(
        validation_alias="workflow_id", description="Its id, by which jobs are submitted."
    )
    nodes: SkipJsonSchema[tuple[AnyNode, ...]] = filled("nodes", ())  # each after those it waits for
    description: str = declared("", "What it does, in a sentence.")
    version: Annotated[int, Whole()] = declared(1, "The version of this definition.")
    priority: Annotated[int, Whole(*PRIORITIES)] = declared(5, "How urgent its tasks are: 1 comes first.")
    rerun: bool = declared(
        False, "Whether each submission makes a new job, unless one with the same parameters has not ended yet."
    )
    inputs: SkipJsonSchema[Mapping[str, Input] | None] = filled("inputs", None)
    name: str = declared("", "A name for people.")
    schedule: Schedule | None = declared(
        None, "When it runs by itself. No part of what jobs are pinned to.", examples=[{"cron": "30 2 * * *"}]
    )
    output: Mapped = declared(None, "The job's result: a mapping with expressions.", examples=[OUTPUT])

    def node(self, name: str) -> AnyNode:
        """The node with this name."""
        return self._by_name[name]

    @cached_property
    def names(self) -> list[str]:
        """The names of its nodes, in order."""
        return list(self._by_name)

    @cached_property
    def parts(self) -> frozenset[str]:
        """The hashes of the workflows that it runs jobs of."""
        return frozenset(node.work.workflow_hash for node in self.nodes if isinstance(node.work, WorkflowWork))

    @cached_property
    def cleanup(self) -> tuple[str, ...]:
        """The names of its cleanup nodes."""
        return tuple(node.name for node in self.nodes if node.cleanup)

    def behind(self, names: Collection[str]) -> set[str]:
        """The nodes that come after any of these, however far."""
        found: set[str] = set()
        for node in self.nodes:
            if not found.isdisjoint(node.parents) or not set(names).isdisjoint(node.parents):
                found.add(node.name)
        return found

    @cached_property
    def _by_name(self) -> dict[str, AnyNode]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def text(self) -> str:
        """The canonical text that jobs are pinned to."""
        stored: Any = decode(_ADAPTER.dump_json(self, exclude_defaults=True, exclude={"schedule"}))  # an object
        if self.nodes:
            stored["nodes"] = [_flatten(node, fields) for node, fields in zip(self.nodes, stored["nodes"], strict=True)]
        return canonical(stored)

    @cached_property
    def hash(self) -> str:
        """The hash of its content."""
        return sha256(self.text)

    @cached_property
    def output_template(self) -> Template | None:
        """The job's result, parsed."""
        return None if self.output is None else read_template(self.output)

    @classmethod
    def from_json(cls, definition: Json) -> "Workflow":
        """The workflow that a job was pinned to."""
        return _ADAPTER.validate_python(definition, by_alias=False, by_name=True, extra="forbid")


def _flatten(node: Node, fields: dict[str, Json]) -> dict[str, Json]:
    """A node as it is stored: with its kind, and with the fields of its task beside its own."""
    task: Any = fields.pop("task", {})  # of a fan-out: an object
    return {**fields, **task, **({} if node.kind is Kind.TASK else {"kind": node.kind})}


_ADAPTER = TypeAdapter(Workflow)
