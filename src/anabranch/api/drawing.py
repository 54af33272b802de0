"""Drawings of workflows as responses."""

from fastapi import Response

from anabranch.api.answers.etags import CACHEABLE, answer_unless_cached
from anabranch.api.openapi.declare import Responses

__all__ = ["SVG_RESPONSES", "answer_svg"]

SVG_TYPE = "image/svg+xml"
SVG_RESPONSES: Responses = {
    **CACHEABLE,
    200: {**CACHEABLE[200], "description": "The drawing", "content": {SVG_TYPE: {"schema": {"type": "string"}}}},
}
# A drawing opened by itself is a document: it may run and load nothing.
SVG_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}


def answer_svg(drawing: str, if_none_match: str | None) -> Response:
    """The drawing, or 304 if the caller has it cached."""
    return answer_unless_cached(Response(drawing, media_type=SVG_TYPE, headers=SVG_HEADERS), if_none_match)
