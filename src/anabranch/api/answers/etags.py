"""Cacheable responses: each has a strong ETag, and one that the caller has cached is not sent again."""

from typing import Annotated, Any

from fastapi import Header, Response

from anabranch.api.openapi.declare import Responses, problems
from anabranch.serving.etags import has, tag_of

__all__ = [
    "CACHEABLE",
    "IfNoneMatch",
    "allow_caching",
    "answer_unless_cached",
    "not_modified",
    "returns_cacheable",
]

IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="ETags of responses that the caller has cached.")
]
ETAG_HEADER: dict[str, Any] = {
    "ETag": {"schema": {"type": "string"}, "description": "Identifies this response, if it may be cached."}
}
CACHEABLE: Responses = {
    200: {"headers": ETAG_HEADER},
    304: {"description": "The cached response is still valid", "headers": ETAG_HEADER},
}


def returns_cacheable(model: type, *codes: str) -> Any:  # what FastAPI takes for a route
    """Of a route whose answer, of this model, has an ETag: its response, and the codes of its problems."""
    return {"response_model": model, "responses": {**CACHEABLE, **problems(*codes)}}


def allow_caching(response: Response, tag: str) -> None:
    """Allow the caller to cache a response, and to revalidate it each time."""
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = "private, no-cache"


def not_modified(tag: str) -> Response:
    """The response for a caller that has it cached."""
    response = Response(status_code=304)
    allow_caching(response, tag)
    return response


def answer_unless_cached(response: Response, if_none_match: str | None) -> Response:
    """The response with its ETag, or 304 if the caller has it cached."""
    tag = tag_of(bytes(response.body))
    if has(if_none_match, tag):
        return not_modified(tag)
    allow_caching(response, tag)
    return response
