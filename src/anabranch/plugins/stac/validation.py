"""Items and collections held against the schemas of STAC and of all extensions that they declare, offline (C1)."""

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

__all__ = ["find_mistakes", "known_schemas", "validate"]

ROOT = Path(__file__).parent / "schemas"
SPEC = "https://schemas.stacspec.org/v1.1.0/"
SCHEMAS = {
    "Feature": f"{SPEC}item-spec/json-schema/item.json",
    "Collection": f"{SPEC}collection-spec/json-schema/collection.json",
}
MOST_SHOWN = 10


def validate(document: Mapping[str, Any]) -> None:
    """Refuse a document that is not what STAC and its extensions say, with every mistake."""
    if mistakes := find_mistakes(document):
        shown = "; ".join(mistakes[:MOST_SHOWN])
        more = f"; and {len(mistakes) - MOST_SHOWN} more" if len(mistakes) > MOST_SHOWN else ""
        raise InputError(
            "catalog.invalid",
            f"{str(document.get('type')).lower()} {document.get('id')} is not valid STAC: {shown}{more}",
            remedy="Mend what it is made from; nothing was published.",
        )


def find_mistakes(document: Mapping[str, Any]) -> list[str]:
    """What is wrong with a document, each with its place."""
    kind = SCHEMAS.get(str(document.get("type")))
    if kind is None:
        return [f"type: {document.get('type')!r} is neither Feature nor Collection"]
    declared = document.get("stac_extensions") or []
    unknown = [f"stac_extensions: the schema {uri} is not known here" for uri in declared if uri not in known_schemas()]
    wanted = [kind, *(uri for uri in declared if uri in known_schemas())]
    return unknown + [mistake for uri in wanted for mistake in _hold_against(uri, document)]


@cache
def known_schemas() -> dict[str, Path]:
    """The file of each schema, by its address."""
    files = {f"{SPEC}item-spec/json-schema/{path.name}": path for path in (ROOT / "stac").glob("*.json")}
    files[SCHEMAS["Collection"]] = files.pop(f"{SPEC}item-spec/json-schema/collection.json")
    files |= {f"https://geojson.org/schema/{path.name}": path for path in (ROOT / "geojson").glob("*.json")}
    files["https://proj.org/schemas/v0.7/projjson.schema.json"] = ROOT / "proj" / "projjson-0.7.json"
    for name, uri in EXTENSIONS.items():
        version = uri.split("/")[-2].removeprefix("v")
        files[uri] = ROOT / "extensions" / f"{name}-{version}.json"
    return files


def _hold_against(uri: str, document: Mapping[str, Any]) -> list[str]:
    errors = [_deepest(error) for error in _validator(uri).iter_errors(document)]
    return [f"{'.'.join(map(str, error.absolute_path)) or 'the document'}: {error.message[:300]}" for error in errors]


def _deepest(error: Any) -> Any:  # jsonschema has no types
    """Of the ways in which a choice of schemas failed, the one that got farthest: the others are of another kind."""
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
    """A schema that isn't here is nowhere."""
    raise NoSuchResource(uri)
