"""The OpenAPI document of every route: assembled by `make reference`, kept as a file, and served from there."""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import yaml
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from anabranch.api.answers.errors import MEDIA_TYPE, Problem, describe
from anabranch.api.openapi.declare import COMMON_CODES, JSON_TYPE, REFERENCE, Schema, problems
from anabranch.codes import Code, all_codes
from anabranch.contract import answer, control, insight, jobs, processes, stack, webhooks, workflows
from anabranch.errors import AnabranchError

__all__ = ["DOCUMENT", "MEDIA_TYPE_31", "assemble", "load_document", "operations_of", "write"]

FOLDER = Path(__file__).parent
DOCUMENT = FOLDER / "document.json"
MEDIA_TYPE_31 = "application/vnd.oai.openapi+json;version=3.1"
ABOUT = """Durable geospatial workflows on PostgreSQL, and the catalog, tiles and files that they publish.

HEAD is answered wherever GET is. Errors are problem documents (RFC 9457) with a stable `code`; each operation lists the
codes that it may answer with. Answers with an `ETag` are not sent again to a caller that names it in `If-None-Match`.
"""
CORRELATION = "X-Correlation-ID"
PARAMETERS: Schema = {
    CORRELATION: {
        "name": CORRELATION,
        "in": "header",
        "schema": {"type": "string"},
        "description": "1 to 128 printable ASCII characters; another is replaced by a new id. Every answer carries it.",
    }
}
HEADERS: Schema = {
    CORRELATION: {"schema": {"type": "string"}, "required": True, "description": "The id of this request."},
    "WWW-Authenticate": {"schema": {"type": "string"}, "description": "How to authenticate."},
    "Retry-After": {"schema": {"type": "string"}, "description": "After how many seconds to try again."},
}
# Generators make a class of each schema, and take off the underscores at the end of a name.
GENERIC_NAME = re.compile(r'("|/)Page_(\w+?)_"')
SENT: Schema = {CORRELATION: {"$ref": f"#/components/headers/{CORRELATION}"}}
EXAMPLE_PATH, EXAMPLE_ID = "/api/jobs", "0d4ac1e5b6f94c40a7f10ee9bb4ad4a0"


@cache
def load_document() -> Schema:
    """The document, without the address that serves it."""
    loaded: Schema = json.loads(DOCUMENT.read_text())
    return loaded


def write(document: Schema) -> str:
    """The document as the text of its file."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def assemble(routes: list[BaseRoute], *mounted: Schema) -> Schema:
    """The document of these routes and of the applications that are mounted beside them."""
    given = get_openapi(title="Anabranch", version="1", description=ABOUT, routes=routes)
    document: Schema = json.loads(GENERIC_NAME.sub(r'\1\2Page"', json.dumps(given)))
    schemas = document["components"]["schemas"]
    schemas["Problem"] = Problem.model_json_schema(ref_template=REFERENCE)
    _lift_bodies(document, schemas)
    for schema in list(schemas.values()):
        schemas.update(schema.pop("$defs", {}))
    _describe_fields(schemas)
    for other in mounted:
        document["paths"] |= other["paths"]
        schemas |= other["components"]["schemas"]
    for name, schema in schemas.items():
        schema["title"] = name  # that of a generic class is not unique, and generators name their classes by it
    document["components"] |= {
        "parameters": dict(PARAMETERS),
        "headers": HEADERS,
    }
    _share_responses(document)
    used = set(re.findall(r'"#/components/examples/([^"]+)"', json.dumps(document)))
    document["components"]["examples"] = {code.code: _example(code) for code in all_codes() if code.code in used}
    _add_correlation_id(document)
    _add_examples(document)
    _share_parameters(document)
    document["webhooks"] = _describe_webhooks()
    return document


def operations_of(document: Schema) -> Iterator[Schema]:
    """The operations of a document."""
    return (operation for path in document["paths"].values() for operation in path.values())


def _describe_webhooks() -> Schema:
    described: Schema = yaml.safe_load((FOLDER / "webhooks.yaml").read_text())
    for subject in ("job", "release"):
        content = described[subject]["post"]["requestBody"]["content"][JSON_TYPE]
        events = [event for event in webhooks.EVENTS if event.startswith(f"{subject}.")]
        content["schema"]["properties"]["type"]["enum"] = events
    return described


def _example(code: Code) -> Schema:
    error = AnabranchError(code.code, code.meaning.removesuffix("."))
    problem = describe(error, path=EXAMPLE_PATH, correlation_id=EXAMPLE_ID)
    return {"summary": code.meaning, "value": problem.model_dump(exclude_none=True)}


def _lift_bodies(document: Schema, schemas: Schema) -> None:
    bodies = [operation.get("requestBody", {}) for operation in operations_of(document)]
    for content in (content for body in bodies for content in body.get("content", {}).values()):
        if name := content["schema"].get("title"):
            schemas[name] = content["schema"]
            content["schema"] = {"$ref": REFERENCE.format(model=name)}


def _describe_fields(schemas: Schema) -> None:
    """By the docstrings under the fields of answers; pydantic would read them for every process that starts."""
    for module in (answer, control, insight, jobs, processes, stack, webhooks, workflows):
        for kind in ast.parse(inspect.getsource(module)).body:
            if isinstance(kind, ast.ClassDef) and kind.name in schemas:
                for field, text in pairwise(kind.body):
                    match field, text:
                        case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(said))):
                            schemas[kind.name]["properties"][name]["description"] = inspect.cleandoc(said)
                        case _:
                            pass


def _share_responses(document: Schema) -> None:
    """Write the problems that all operations have once."""
    common = problems(*COMMON_CODES)
    document["components"]["responses"] = {
        f"problem_{status}": {**response, "headers": {**response.get("headers", {}), **SENT}}
        for status, response in common.items()
    }
    for operation in operations_of(document):
        responses = operation["responses"]
        if not operation.get("security"):
            responses.pop("401", None)  # who needs no key is not asked for one
        for status, response in common.items():
            if responses.get(str(status)) == response:
                responses[str(status)] = {"$ref": f"#/components/responses/problem_{status}"}
        operation["responses"] = dict(sorted(responses.items()))


def _add_correlation_id(document: Schema) -> None:
    for operation in operations_of(document):
        operation.setdefault("parameters", []).append({"$ref": f"#/components/parameters/{CORRELATION}"})
        for response in operation["responses"].values():
            if "$ref" not in response:
                response["headers"] = {**response.get("headers", {}), **SENT}


def _add_examples(document: Schema) -> None:
    """Add the examples of `examples/`: of parameters by their names, of bodies and answers by their operations."""
    given = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((FOLDER / "examples").glob("*.yaml"))}
    by_name = given.pop("parameters")
    by_operation = {name: example for file in given.values() for name, example in file.items()}
    for operation in operations_of(document):
        example: Schema = by_operation.pop(operation["operationId"], {})
        values = by_name | example.get("parameters", {})
        for parameter in operation["parameters"]:
            if parameter.get("name") in values:
                parameter.pop("examples", None)
                parameter["example"] = values[parameter["name"]]
        if "body" in example:
            for content in operation["requestBody"]["content"].values():
                content["example"] = example["body"]
        if "answer" in example:
            _show_answer(operation["responses"], example["answer"])
    if by_operation:
        raise LookupError(f"examples of no operation: {', '.join(by_operation)}")


def _show_answer(responses: Schema, example: object) -> None:
    succeeded = (response for status, response in responses.items() if status.startswith("2"))
    for content in (content for response in succeeded for content in response.get("content", {}).items()):
        if content[0] != MEDIA_TYPE:
            content[1]["example"] = example


def _share_parameters(document: Schema) -> None:
    """Write a parameter that several operations have once; one that differs under the same name stays where it is."""
    shared = document["components"]["parameters"]
    for operation in operations_of(document):
        for place, parameter in enumerate(operation["parameters"]):
            if "$ref" not in parameter and shared.setdefault(parameter["name"], parameter) == parameter:
                operation["parameters"][place] = {"$ref": f"#/components/parameters/{parameter['name']}"}
