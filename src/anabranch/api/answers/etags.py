"""Answers that a caller may allow_caching: a strong ETag names each, and one that the caller has is not sent again."""

from typing import Annotated, Any

from fastapi import Header, Response

from anabranch.api.openapi.declare import Responses
from anabranch.serving.etags import has, tag_of

__all__ = ["CACHEABLE", "IfNoneMatch", "allow_caching", "answer_unless_cached", "not_modified"]

IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="ETags of answers that the caller has kept.")
]
ETAG_HEADER: dict[str, Any] = {
    "ETag": {"schema": {"type": "string"}, "description": "Names this answer, where it may be kept."}
}
CACHEABLE: Responses = {
    200: {"headers": ETAG_HEADER},
    304: {"description": "What the caller has kept is what there is", "headers": ETAG_HEADER},
}


def allow_caching(response: Response, tag: str) -> None:
    """Let the caller allow_caching an answer, and ask each time whether it still stands."""
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = "private, no-cache"


def not_modified(tag: str) -> Response:
    """The answer to a caller that has it already."""
    response = Response(status_code=304)
    allow_caching(response, tag)
    return response


def answer_unless_cached(response: Response, if_none_match: str | None) -> Response:
    """An answer that may be kept, or less where the caller has it."""
    tag = tag_of(bytes(response.body))
    if has(if_none_match, tag):
        return not_modified(tag)
    allow_caching(response, tag)
    return response
