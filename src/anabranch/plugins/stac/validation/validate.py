"""Validates items, collections and catalogs against the schemas of STAC and their declared extensions, offline (C1)."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema_rs import Draft7, Draft7Validator, Registry, ValidationError

from anabranch.errors import InputError
from anabranch.plugins.stac.item import EXTENSIONS

__all__ = ["find_errors", "known_schemas", "validate"]

ROOT = Path(__file__).parent / "schemas"
SPEC = "https://schemas.stacspec.org/v1.1.0/"
SCHEMAS = {
    "Feature": f"{SPEC}item-spec/json-schema/item.json",
    "Collection": f"{SPEC}collection-spec/json-schema/collection.json",
    "Catalog": f"{SPEC}catalog-spec/json-schema/catalog.json",
}
MAX_SHOWN_ERRORS = 10
# Our rows hold addresses of tiers, which may have spaces; servers make URLs of them.
FORMATS = {name: lambda _: True for name in ("iri", "iri-reference")}


def validate(document: Mapping[str, Any], *, accept_unknown: bool = False) -> None:
    """Refuse a document that is not valid STAC; the error lists what is wrong."""
    if errors := find_errors(document, accept_unknown=accept_unknown):
        shown = "; ".join(errors[:MAX_SHOWN_ERRORS])
        more = f"; and {len(errors) - MAX_SHOWN_ERRORS} more" if len(errors) > MAX_SHOWN_ERRORS else ""
        raise InputError(
            "catalog.invalid",
            f"{str(document.get('type')).lower()} {document.get('id')} is not valid STAC: {shown}{more}",
            remedy="Fix the data that it is built from; it was not published.",
        )


def find_errors(document: Mapping[str, Any], *, accept_unknown: bool = False) -> list[str]:
    """The errors of a document, each with its path; extensions of unknown schemas are errors unless accepted."""
    kind = SCHEMAS.get(str(document.get("type")))
    if kind is None:
        return [f"type: {document.get('type')!r} is not Feature, Collection or Catalog"]
    listed = document.get("stac_extensions")
    declared = [uri for uri in listed if isinstance(uri, str)] if isinstance(listed, list) else []
    unknown = [] if accept_unknown else [uri for uri in declared if uri not in known_schemas()]
    errors = [f"stac_extensions: the schema {uri[:200]} is unknown" for uri in unknown]
    wanted = [kind, *(uri for uri in declared if uri in known_schemas())]
    # Each schema of an extension includes that of an item.
    return errors + list(dict.fromkeys(error for uri in wanted for error in _check_schema(uri, document)))


@cache
def known_schemas() -> dict[str, Path]:
    """The file of each schema, by its URL."""
    files = {f"{SPEC}item-spec/json-schema/{path.name}": path for path in (ROOT / "stac").glob("*.json")}
    for kind in ("Collection", "Catalog"):
        files[SCHEMAS[kind]] = files.pop(f"{SPEC}item-spec/json-schema/{kind.lower()}.json")
    files |= {f"https://geojson.org/schema/{path.name}": path for path in (ROOT / "geojson").glob("*.json")}
    files["https://proj.org/schemas/v0.7/projjson.schema.json"] = ROOT / "proj" / "projjson-0.7.json"
    for name, uri in EXTENSIONS.items():
        version = uri.split("/")[-2].removeprefix("v")
        files[uri] = ROOT / "extensions" / f"{name}-{version}.json"
    return files


def _check_schema(uri: str, document: Mapping[str, Any]) -> list[str]:
    validator, instance = _validator(uri), dict(document)
    if validator.is_valid(instance):  # much quicker than looking for errors
        return []
    errors = [_deepest(error) for error in validator.iter_errors(instance)]
    return [f"{'.'.join(map(str, error.instance_path)) or 'the document'}: {error.message[:300]}" for error in errors]


def _deepest(error: ValidationError) -> ValidationError:
    """The deepest error of a choice of schemas, of those alternatives that are for documents of this type."""
    while context := getattr(error.kind, "context", None):
        fitting = [causes for causes in context if not any(cause.instance_path[-1:] == ["type"] for cause in causes)]
        causes = [cause for causes in fitting or context for cause in causes]
        error = max(causes, key=lambda cause: len(cause.instance_path))
    return error


@cache
def _validator(uri: str) -> Draft7Validator:
    return Draft7Validator({"$ref": uri}, registry=_registry(), formats=FORMATS, offline=True)


@cache
def _registry() -> Registry:
    resources = [(uri, json.loads(path.read_text())) for uri, path in known_schemas().items()]
    return Registry(resources, draft=Draft7, retriever=_refuse)


def _refuse(uri: str) -> None:
    """Fetch no schema: all known ones are local files."""
    raise LookupError(f"the schema {uri} is unknown")
