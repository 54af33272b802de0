"""The OpenAPI document, with the problem documents of each route."""

import ast
import inspect
from collections.abc import Sequence
from http import HTTPStatus
from itertools import pairwise
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from anabranch.api.answers.errors import MEDIA_TYPE, Problem
from anabranch.contract import answer, control, jobs, processes, stack, workflows

__all__ = ["Api", "Responses", "body", "keyed", "problems"]

Schema = dict[str, Any]  # OpenAPI's own shape
Responses = dict[int | str, Schema]

# Of any route: an ambiguous end is 400, a key in the URL 422, too many requests 429, and keys that can't be looked up
# are 503.
COMMON_STATUS = (400, 401, 403, 422, 429, 500, 503)
REFERENCE = "#/components/schemas/{model}"
STATUS_HEADERS: dict[int, Schema] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "description": "How to authenticate."}},
    429: {"Retry-After": {"schema": {"type": "string"}, "description": "After how many seconds to try again."}},
    503: {"Retry-After": {"schema": {"type": "string"}, "description": "After how many seconds to try again."}},
}
JSON_TYPE = "application/json"


def problems(*statuses: int) -> Responses:
    """The error responses of a route: these statuses, and those of every route."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": content,
            **({"headers": STATUS_HEADERS[status]} if status in STATUS_HEADERS else {}),
        }
        for status in sorted({*COMMON_STATUS, *statuses})
    }


def body(given: type[BaseModel] | Schema, *, required: bool, kinds: Sequence[str] = (JSON_TYPE,)) -> Schema:
    """The `requestBody` of an operation."""
    schema = given if isinstance(given, dict) else given.model_json_schema(ref_template=REFERENCE)
    return {"requestBody": {"required": required, "content": {kind: {"schema": schema} for kind in kinds}}}


def keyed(operation: Schema) -> Schema:
    """The same operation with the header `Idempotency-Key`."""
    header = {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "description": "Makes a request safe to repeat: one with the same key gets the response of the first one.",
    }
    return {**operation, "parameters": [header]}


class Api(FastAPI):
    """FastAPI whose OpenAPI document has the problem document and the correlation id."""

    def openapi(self) -> Schema:
        """The OpenAPI document."""
        if self.openapi_schema is None:
            schema = super().openapi()
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            schemas["Problem"] = Problem.model_json_schema(ref_template=REFERENCE)
            _lift_bodies(schema["paths"], schemas)
            _lift_definitions(schemas)
            _describe_fields(schemas)
            _add_correlation_id(schema)
        return super().openapi()


def _lift_bodies(paths: Schema, schemas: Schema) -> None:
    bodies = [operation.get("requestBody", {}) for path in paths.values() for operation in path.values()]
    for content in (content for body in bodies for content in body.get("content", {}).values()):
        if name := content["schema"].get("title"):
            schemas[name] = content["schema"]
            content["schema"] = {"$ref": REFERENCE.format(model=name)}


def _lift_definitions(schemas: Schema) -> None:
    for schema in list(schemas.values()):
        schemas.update(schema.pop("$defs", {}))


def _describe_fields(schemas: Schema) -> None:
    """By the docstrings under the fields of answers; pydantic would read them for every process that starts."""
    for module in (answer, control, jobs, processes, stack, workflows):
        for kind in ast.parse(inspect.getsource(module)).body:
            if isinstance(kind, ast.ClassDef) and kind.name in schemas:
                for field, text in pairwise(kind.body):
                    match field, text:
                        case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(said))):
                            schemas[kind.name]["properties"][name]["description"] = inspect.cleandoc(said)
                        case _:
                            pass


def _add_correlation_id(schema: Schema) -> None:
    name = "X-Correlation-ID"
    asked = {
        "name": name,
        "in": "header",
        "schema": {"type": "string"},
        "description": "1 to 128 printable ASCII characters; another is replaced by a new id. Every answer carries it.",
    }
    answered = {name: {"schema": {"type": "string"}, "required": True, "description": "The id of this request."}}
    for path in schema["paths"].values():
        for operation in path.values():
            operation.setdefault("parameters", []).append(asked)
            for response in operation["responses"].values():
                response["headers"] = {**response.get("headers", {}), **answered}
