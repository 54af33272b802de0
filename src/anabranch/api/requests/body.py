"""Reads request bodies up to a limit and parses them strictly; what PostgreSQL can't store is refused here."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError

from anabranch.access import holds_key
from anabranch.api.answers.errors import InvalidRequest
from anabranch.api.deps import CurrentSettings
from anabranch.canonical import Json, JsonObject, decode
from anabranch.errors import InputError

__all__ = ["YAML_TYPES", "JsonBody", "YamlText", "check_body", "check_media_type", "parse_object", "too_large"]

Model = TypeVar("Model", bound=BaseModel)
JSON_TYPES = ("application/json",)
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain")


async def read_object(request: Request, settings: CurrentSettings) -> JsonObject:
    """The JSON object in the body; an empty body gives {}."""
    body = await _read(request, settings.max_body_bytes)
    if not body:
        return {}
    check_media_type(request, JSON_TYPES, "Send JSON, with Content-Type: application/json.")
    return parse_object(body)


async def read_yaml(request: Request, settings: CurrentSettings) -> bytes:
    """The YAML text of the body, unparsed: the loader reports its mistakes."""
    body = await _read(request, settings.max_body_bytes)
    check_media_type(request, YAML_TYPES, "Send YAML, with Content-Type: application/yaml.")
    _refuse_keys(body)
    return body


def check_body(model: type[Model], given: Mapping[str, Json]) -> Model:
    """Validate a body; every mistake in it is reported."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise InvalidRequest.of(error, "body", known=sorted(model.model_fields)) from error


JsonBody = Annotated[JsonObject, Depends(read_object)]
YamlText = Annotated[bytes, Depends(read_yaml)]


async def _read(request: Request, most: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise too_large(most, "ANABRANCH_MAX_BODY_BYTES")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large(most, "ANABRANCH_MAX_BODY_BYTES")
    return bytes(body)


def check_media_type(request: Request, wanted: Sequence[str], remedy: str) -> None:
    """Refuse a body of another media type."""
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() not in wanted:
        raise InputError("request.media_type", f"the Content-Type of the body is {given or 'missing'!r}", remedy=remedy)


def parse_object(body: bytes) -> JsonObject:
    """Parse a JSON object; InputError if it is none, or can't be stored."""
    _refuse_keys(body)
    value = _parse(body)
    if not isinstance(value, dict):
        raise InputError("request.json", "the body must be a JSON object", remedy='Send one, like {"n": 5}.')
    return value


def _refuse_keys(body: bytes) -> None:
    # What is submitted is kept in rows and shown to readers (S5).
    if b"anb_" in body and holds_key(body.decode("latin-1")):
        raise InputError(
            "auth.misplaced",
            "the body contains a key; bodies are stored and shown",
            remedy="Leave it out, and send it as `Authorization: Bearer anb_…`.",
        )


def _parse(body: bytes) -> Json:
    try:
        text = body.decode()
        with suppress(RecursionError):  # how deep it may be, `decode` says
            json.loads(text, parse_int=_refuse_huge, object_pairs_hook=_refuse_duplicates)
        return decode(text)
    except json.JSONDecodeError as error:
        said = f"the body is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise InputError("request.json", said, remedy="Fix it there.") from error
    except ValueError as error:
        raise InputError(
            "request.json",
            f"the body is not JSON that can be stored: {error}",
            remedy="Send a JSON object without these values.",
        ) from error


def _refuse_huge(digits: str) -> None:
    try:
        int(digits)
    except ValueError:
        raise ValueError(f"an integer of {len(digits.lstrip('-'))} digits is too large") from None


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ValueError(f"duplicate key {name[:80]!r} in one object")
        seen.add(name)


def too_large(most: int, setting: str, what: str = "the body") -> InputError:
    """The error for a body over the limit."""
    return InputError(
        "request.too_large", f"{what} is larger than {most} bytes", remedy=f"Raise {setting}, or send less."
    )
