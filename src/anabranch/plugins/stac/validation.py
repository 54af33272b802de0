"""Validates items and collections against the schemas of STAC and their declared extensions, offline (C1)."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator  # type: ignore[import-untyped]  # it has no types
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource
from referencing.jsonschema import DRAFT7

from anabranch.errors import InputError
from anabranch.plugins.stac.item import EXTENSIONS

__all__ = ["find_errors", "known_schemas", "validate"]

ROOT = Path(__file__).parent / "schemas"
SPEC = "https://schemas.stacspec.org/v1.1.0/"
SCHEMAS = {
    "Feature": f"{SPEC}item-spec/json-schema/item.json",
    "Collection": f"{SPEC}collection-spec/json-schema/collection.json",
}
MAX_SHOWN_ERRORS = 10


def validate(document: Mapping[str, Any]) -> None:
    """Refuse a document that is not valid STAC; the error lists what is wrong."""
    if errors := find_errors(document):
        shown = "; ".join(errors[:MAX_SHOWN_ERRORS])
        more = f"; and {len(errors) - MAX_SHOWN_ERRORS} more" if len(errors) > MAX_SHOWN_ERRORS else ""
        raise InputError(
            "catalog.invalid",
            f"{str(document.get('type')).lower()} {document.get('id')} is not valid STAC: {shown}{more}",
            remedy="Fix the data that it is built from; nothing was published.",
        )


def find_errors(document: Mapping[str, Any]) -> list[str]:
    """The errors of a document, each with its path."""
    kind = SCHEMAS.get(str(document.get("type")))
    if kind is None:
        return [f"type: {document.get('type')!r} is neither Feature nor Collection"]
    declared = document.get("stac_extensions") or []
    unknown = [f"stac_extensions: the schema {uri} is unknown" for uri in declared if uri not in known_schemas()]
    wanted = [kind, *(uri for uri in declared if uri in known_schemas())]
    return unknown + [error for uri in wanted for error in _check_schema(uri, document)]


@cache
def known_schemas() -> dict[str, Path]:
    """The file of each schema, by its URL."""
    files = {f"{SPEC}item-spec/json-schema/{path.name}": path for path in (ROOT / "stac").glob("*.json")}
    files[SCHEMAS["Collection"]] = files.pop(f"{SPEC}item-spec/json-schema/collection.json")
    files |= {f"https://geojson.org/schema/{path.name}": path for path in (ROOT / "geojson").glob("*.json")}
    files["https://proj.org/schemas/v0.7/projjson.schema.json"] = ROOT / "proj" / "projjson-0.7.json"
    for name, uri in EXTENSIONS.items():
        version = uri.split("/")[-2].removeprefix("v")
        files[uri] = ROOT / "extensions" / f"{name}-{version}.json"
    return files


def _check_schema(uri: str, document: Mapping[str, Any]) -> list[str]:
    errors = [_deepest(error) for error in _validator(uri).iter_errors(document)]
    return [f"{'.'.join(map(str, error.absolute_path)) or 'the document'}: {error.message[:300]}" for error in errors]


def _deepest(error: Any) -> Any:  # jsonschema has no types
    """The deepest error of a choice of schemas: the other alternatives are for other kinds of documents."""
    while error.context:
        error = max(error.context, key=lambda cause: len(cause.absolute_path))
    return error


@cache
def _validator(uri: str) -> Draft7Validator:
    return Draft7Validator({"$ref": uri}, registry=_registry())


@cache
def _registry() -> Registry[Any]:
    resources = [
        (uri, Resource.from_contents(json.loads(path.read_text()), default_specification=DRAFT7))
        for uri, path in known_schemas().items()
    ]
    meta = ("http://json-schema.org/draft-07/schema", Resource.from_contents(Draft7Validator.META_SCHEMA))
    return Registry(retrieve=_refuse).with_resources([*resources, meta])  # type: ignore[call-arg]


def _refuse(uri: str) -> Resource[Any]:
    """Fetch no schema: all known ones are local files."""
    raise NoSuchResource(uri)
