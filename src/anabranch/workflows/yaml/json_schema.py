"""The JSON Schema of a workflow file, for editors that complete and check while one types; the loader says the rest."""

from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from anabranch.workflows.definition import Workflow
from anabranch.workflows.edges import Branch, DependsOn, Edges
from anabranch.workflows.inputs import Input
from anabranch.workflows.nodes import NODES, Kind, WaitNode
from anabranch.workflows.rules import Model
from anabranch.workflows.validation import NAME
from anabranch.workflows.values import NAMES_SCHEMA

__all__ = ["workflow_schema"]

Schema = dict[str, Any]  # JSON Schema, pydantic's and ours

_EITHER: dict[type[Model], Schema] = {
    WaitNode: {
        "anyOf": [{"required": ["duration_seconds"]}, {"required": ["until"]}],
        "not": {"required": ["duration_seconds", "until"]},
    },
    Branch: {
        "anyOf": [
            {"required": ["condition"]},
            {"properties": {"default": {"const": True}}, "required": ["default"]},
        ]
    },
}


def workflow_schema() -> Schema:
    """The schema, in draft 2020-12."""
    models = (Workflow, Input, Edges, DependsOn, *NODES.values())
    adapters: Any = [(model, "validation", TypeAdapter(model)) for model in models]  # as pydantic names them
    parts: Schema = TypeAdapter.json_schemas(adapters, schema_generator=_Generator)[1]["$defs"]
    for model, rule in _EITHER.items():
        parts[model.__name__] |= rule
    parts["Edges"]["properties"]["depends_on"]["anyOf"] = [*NAMES_SCHEMA["anyOf"], _ref(DependsOn)]
    for node in NODES.values():
        edges = {key: parts["Edges"]["properties"][key] for key in node.edges}
        part = parts[node.__name__]
        part["properties"] = {"type": {"description": "What the node is."}, **edges, **part["properties"]}
    fields = parts["GateNode"]["properties"]["answer"]
    fields |= _named(fields["description"], _or_nothing(_ref(Input)))
    choices = parts["Input"]["properties"]["choices"]
    parts["Input"]["properties"]["enum"] = {**choices, "description": "Another word for choices."}
    workflow = parts["Workflow"]
    ends = {str(kind).upper(): _or_nothing(_node(kind)) for kind in (Kind.START, Kind.END)}
    nodes = {**_named("The steps, by name.", _node(Kind.TASK)), "properties": ends, "minProperties": 1}
    inputs = _named("What a job may be given, by name.", _or_nothing(_ref(Input)))
    workflow["properties"] |= {"inputs": inputs, "nodes": nodes}
    workflow["required"].append("nodes")
    unused = ("Edges", "Json", "Spread", "StageNode", "Workflow")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **workflow,
        "title": "Anabranch workflow",
        "$defs": {name: part for name, part in parts.items() if name not in unused},
    }


def _named(said: str, part: Schema) -> Schema:
    names = {"pattern": f"^{NAME.pattern}$"}
    return {"description": said, "type": "object", "propertyNames": names, "additionalProperties": part}


def _or_nothing(part: Schema) -> Schema:
    return {"anyOf": [{"type": "null"}, part]}


def _node(usual: Kind) -> Schema:
    """A node whose type decides its keys; without a type it is the usual one."""
    rules = [
        {
            "if": {"properties": {"type": {"const": str(kind)}}, "required": [] if kind is usual else ["type"]},
            "then": _ref(node),
        }
        for kind, node in NODES.items()
    ]
    kinds = {"description": "What the node is.", "enum": [str(kind) for kind in Kind], "default": str(usual)}
    return {"type": "object", "properties": {"type": kinds}, "allOf": rules}


def _ref(model: type[Model]) -> Schema:
    return {"$ref": f"#/$defs/{model.__name__}"}


class _Generator(GenerateJsonSchema):
    """Without titles, which only repeat the keys, and with the defaults that a file could hold."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # a core schema
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        if not isinstance(made.get("default"), int | float | str) or made["default"] == "":
            made.pop("default", None)
        return made

    def encode_default(self, dft: Any) -> Any:  # of a field
        return dft.total_seconds() if isinstance(dft, timedelta) else super().encode_default(dft)
