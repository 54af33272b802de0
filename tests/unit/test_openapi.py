"""The OpenAPI document is whole, current, and its examples are what it describes."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # its types are a package of their own
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from anabranch.access import Scope
from anabranch.api.main import ROUTES
from anabranch.api.openapi.declare import problems
from anabranch.api.openapi.document import DOCUMENT, assemble, load_document, operations_of, write
from anabranch.api.openapi.mounted import describe_features, describe_raster, describe_stac
from anabranch.codes import find_code

# Its own references, under a name that a validator of one schema finds.
NAMED: Any = json.loads(DOCUMENT.read_text().replace('"#/components', '"urn:document#/components'))
REGISTRY: Registry[Any] = (
    Registry().with_resource("urn:document", Resource.from_contents(NAMED, default_specification=DRAFT202012)).crawl()
)
OPERATIONS = {operation["operationId"]: operation for operation in operations_of(NAMED)}
OPEN = {"show_part", "show_life", "show_readiness", "list_codes", "show_code"}


def resolve(part: Any) -> Any:
    """A part of the document, or what it refers to."""
    return REGISTRY.resolver().lookup(part["$ref"]).contents if "$ref" in part else part


def find_examples(operation: Any) -> Iterator[tuple[str, Any, Any]]:
    """Each example of an operation, with where it is and its schema."""
    for parameter in map(resolve, operation["parameters"]):
        if "example" in parameter:
            yield parameter["name"], parameter["schema"], parameter["example"]
    contents = [operation.get("requestBody", {}), *map(resolve, operation["responses"].values())]
    for kind, content in (pair for part in contents for pair in part.get("content", {}).items()):
        if "example" in content:
            yield kind, content.get("schema", {}), content["example"]


def test_the_document_is_what_the_routes_declare() -> None:
    current = assemble(ROUTES.routes, describe_stac(), describe_raster(), describe_features())
    assert DOCUMENT.read_text() == write(current), "run `make reference`, and review the change of the contract"


def test_operation_ids_are_unique_names_that_generators_accept() -> None:
    named = [operation["operationId"] for operation in operations_of(load_document())]
    assert len(set(named)) == len(named) >= 75
    assert [name for name in named if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)] == []


def test_the_catalog_rasters_files_and_outputs_are_described() -> None:
    roots = {path.split("/")[1] for path in load_document()["paths"]}
    assert roots >= {
        "api",
        "stac",
        "raster",
        "features",
        "files",
        "errors",
        "livez",
        "readyz",
        "metrics",
        "openapi.json",
    }
    assert "/api/jobs/{job_id}/outputs/{name}" in load_document()["paths"]


def test_every_reference_leads_somewhere() -> None:
    for name in set(re.findall(r'"(urn:document[^"]+)"', json.dumps(NAMED))):
        assert resolve({"$ref": name}) is not None


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_has_a_scope_problems_and_an_example(name: str) -> None:
    operation = OPERATIONS[name]
    secured = [] if name in OPEN else [[{"key": [scope.value]}] for scope in Scope]
    assert operation.get("security", []) in (secured or [[]])
    assert {"400", "403", "422", "429", "500", "503"} <= operation["responses"].keys()
    assert ("401" in operation["responses"]) == bool(secured)
    assert operation["description"]
    examples = list(find_examples(operation))
    assert examples or not (operation.get("requestBody") or len(operation["parameters"]) > 2), "no example"
    for where, schema, example in examples:
        validator = Draft202012Validator(schema, registry=REGISTRY)
        assert [f"{where} {error.json_path}: {error.message}" for error in validator.iter_errors(example)] == []


def test_problems_are_those_of_the_table() -> None:
    examples = load_document()["components"]["examples"]
    for code, example in examples.items():
        known = find_code(code)
        assert known is not None
        assert (example["value"]["status"], example["value"]["retryable"]) == (known.status, known.retryable)
    with pytest.raises(LookupError, match=r"list it in a codes.py"):
        problems("job.unheard_of")


def test_schemas_of_the_framework_are_gone() -> None:
    assert "HTTPValidationError" not in json.dumps(load_document())
