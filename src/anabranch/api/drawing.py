"""Drawings of workflows as answers."""

from fastapi import Response

from anabranch.api.answers.etags import KEPT, answer_once
from anabranch.api.openapi.declare import Responses

__all__ = ["DRAWN", "answer_svg"]

SVG = "image/svg+xml"
DRAWN: Responses = {
    **KEPT,
    200: {**KEPT[200], "description": "The drawing", "content": {SVG: {"schema": {"type": "string"}}}},
}
# A drawing that is opened by itself is a document: it runs nothing and loads nothing.
ALONE = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}


def answer_svg(drawing: str, if_none_match: str | None) -> Response:
    """A drawing as an answer, if the caller has no such one."""
    return answer_once(Response(drawing, media_type=SVG, headers=ALONE), if_none_match)
