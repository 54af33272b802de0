"""The description of the API, complete with the problems that its routes answer with."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

from anabranch.api.errors import MEDIA_TYPE, Problem

__all__ = ["Api", "Responses", "body", "keyed", "problems"]

Schema = dict[str, Any]  # OpenAPI's own shape
Responses = dict[int | str, Schema]

EVERYWHERE = (401, 403, 500)
JSON = "application/json"


def problems(*statuses: int) -> Responses:
    """The responses of a route that may answer with these statuses, and with those that any route may."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in sorted({*EVERYWHERE, *statuses})
    }


def body(schema: Schema, *, required: bool, kinds: Sequence[str] = (JSON,)) -> Schema:
    """The part of an operation that says what its body is."""
    return {"requestBody": {"required": required, "content": {kind: {"schema": schema} for kind in kinds}}}


def keyed(operation: Schema) -> Schema:
    """The part of an operation, with the header that makes it safe to repeat."""
    header = {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "description": "A name of your own for this request: repeated under it, it gets the answer of the first time.",
    }
    return {**operation, "parameters": [header]}


class Api(FastAPI):
    """FastAPI whose description knows the problem document and the correlation id."""

    def openapi(self) -> Schema:
        """The OpenAPI description."""
        if self.openapi_schema is None:
            schema = super().openapi()
            schema.setdefault("components", {}).setdefault("schemas", {})["Problem"] = Problem.model_json_schema(
                ref_template="#/components/schemas/{model}"
            )
            _lift_definitions(schema["components"]["schemas"])
            _add_correlation_id(schema)
        return super().openapi()


def _lift_definitions(schemas: Schema) -> None:
    for schema in list(schemas.values()):
        schemas.update(schema.pop("$defs", {}))


def _add_correlation_id(schema: Schema) -> None:
    name = "X-Correlation-ID"
    asked = {
        "name": name,
        "in": "header",
        "schema": {"type": "string", "maxLength": 128},
        "description": "1 to 128 printable ASCII characters; another is replaced by a new id. Every answer carries it.",
    }
    answered = {name: {"schema": {"type": "string"}, "description": "The id of this request."}}
    for path in schema["paths"].values():
        for operation in path.values():
            operation.setdefault("parameters", []).append(asked)
            for response in operation["responses"].values():
                response["headers"] = {**response.get("headers", {}), **answered}
