"""Answers that a caller may keep: a strong ETag names each, and one that the caller has is not sent again."""

from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import Header, Response

from anabranch.api.openapi import Responses

__all__ = ["KEPT", "IfNoneMatch", "answer_once", "has", "keep", "not_modified", "tag_of"]

IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="ETags of answers that the caller has kept.")
]
TAG: dict[str, Any] = {
    "ETag": {"schema": {"type": "string"}, "description": "Names this answer, where it may be kept."}
}
KEPT: Responses = {
    200: {"headers": TAG},
    304: {"description": "What the caller has kept is what there is", "headers": TAG},
}


def tag_of(*parts: str | int | bytes) -> str:
    """The ETag of what depends on these parts, and on the release, alone."""
    digest = sha256(_release())
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(b"%d:" % len(data) + data)
    return f'"{digest.hexdigest()[:32]}"'


def has(if_none_match: str | None, tag: str) -> bool:
    """Whether a caller says that it has the answer of this tag."""
    given = (if_none_match or "").split(",")
    return any(one.strip().removeprefix("W/") in (tag, "*") for one in given)


def keep(response: Response, tag: str) -> None:
    """Let the caller keep an answer, and ask each time whether it still stands."""
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = "private, no-cache"


def not_modified(tag: str) -> Response:
    """The answer to a caller that has it already."""
    response = Response(status_code=304)
    keep(response, tag)
    return response


def answer_once(response: Response, if_none_match: str | None) -> Response:
    """An answer that may be kept, or less where the caller has it."""
    tag = tag_of(bytes(response.body))
    if has(if_none_match, tag):
        return not_modified(tag)
    keep(response, tag)
    return response


@cache
def _release() -> bytes:
    return version("anabranch").encode()
