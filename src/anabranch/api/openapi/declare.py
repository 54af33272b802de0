"""What a route declares for the OpenAPI document: the codes of its problems, its body, and how it may be repeated.

Its example is in `examples/`, under its operation id, which is the name of its function.
"""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from itertools import groupby
from typing import Any

from pydantic import BaseModel

from anabranch.api.answers.errors import MEDIA_TYPE
from anabranch.codes import Code, find_code

__all__ = [
    "BODY_CODES",
    "COMMON_CODES",
    "JOB_CODES",
    "JSON_TYPE",
    "REFERENCE",
    "SUBMIT_CODES",
    "Responses",
    "Schema",
    "body",
    "keyed",
    "problems",
    "queried",
    "takes",
]

Schema = dict[str, Any]  # OpenAPI's own shape
Responses = dict[int | str, Schema]

# The problems of any route: before it is reached, and while it asks the database or the store of large values.
COMMON_CODES = (
    *("request.framing", "request.malformed", "request.timeout", "request.invalid", "request.rate"),
    *("request.host", "request.origin"),
    *("auth.missing", "auth.invalid", "auth.expired", "auth.revoked", "auth.forbidden"),
    *("auth.misplaced", "auth.too_many", "auth.unavailable"),
    *("api.connections", "api.memory", "api.no_session", "api.not_ready", "api.starting", "api.stopping"),
    *("database.interrupted", "database.not_migrated", "database.refused", "database.silent", "database.unreachable"),
    *("storage.container", "storage.denied", "storage.not_installed", "storage.unreachable"),
    *("session.gone", "internal"),
)
JOB_CODES = ("job.not_found", "job.ambiguous", "job.purged")  # of a path with a job's id
SUBMIT_CODES = (
    *("workflow.not_found", "job.parameters", "node.count", "idempotency.key", "idempotency.conflict", "quota.jobs"),
    *("storage.not_readable", "platform.retired"),
)
BODY_CODES = ("request.json", "request.media_type", "request.too_large")
REFERENCE = "#/components/schemas/{model}"
RETRY_AFTER = {"Retry-After": {"$ref": "#/components/headers/Retry-After"}}
STATUS_HEADERS: dict[int, Schema] = {
    401: {"WWW-Authenticate": {"$ref": "#/components/headers/WWW-Authenticate"}},
    429: RETRY_AFTER,
    503: RETRY_AFTER,
}
JSON_TYPE = "application/json"


def problems(*codes: str) -> Responses:
    """The error responses of a route: these codes, and those of every route."""
    found = sorted(map(_require, {*codes, *COMMON_CODES}), key=_status)
    return {status: _problem(status, of_status) for status, of_status in groupby(found, key=_status)}


def _require(code: str) -> Code:
    found = find_code(code)
    if found is None or found.status is None:
        raise LookupError(f"no request is answered with a code {code!r}: list it in a codes.py, with a status")
    return found


def _status(code: Code) -> int:
    return code.status or 500


def _problem(status: int, codes: Iterable[Code]) -> Schema:
    examples = {code.code: {"$ref": f"#/components/examples/{code.code}"} for code in sorted(codes)}
    content = {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(model="Problem")}, "examples": examples}}
    headers = {"headers": STATUS_HEADERS[status]} if status in STATUS_HEADERS else {}
    return {"description": HTTPStatus(status).phrase, "content": content, **headers}


def body(given: type[BaseModel] | Schema, *, required: bool, kinds: Sequence[str] = (JSON_TYPE,)) -> Schema:
    """The `requestBody` of an operation."""
    schema = given if isinstance(given, dict) else given.model_json_schema(ref_template=REFERENCE)
    return {"requestBody": {"required": required, "content": {kind: {"schema": schema} for kind in kinds}}}


def takes(given: type[BaseModel], *codes: str, required: bool = True) -> Any:  # what FastAPI takes for a route
    """Of a route that reads a body of this model: its `requestBody`, and its problems, those of bodies among them."""
    return {"responses": problems(*BODY_CODES, *codes), "openapi_extra": body(given, required=required)}


def keyed(operation: Schema) -> Schema:
    """The same operation with the header `Idempotency-Key`."""
    header = {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "description": "Makes a request safe to repeat: one with the same key gets the response of the first one.",
    }
    return {**operation, "parameters": [header]}


def queried(model: type[BaseModel], operation: Schema) -> Schema:
    """The same operation with the query of a model that the route reads by itself."""
    fields = model.model_json_schema(ref_template=REFERENCE)["properties"].items()
    found = [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": schema["description"]}
        for name, schema in fields
    ]
    return {**operation, "parameters": [*found, *operation.get("parameters", [])]}
