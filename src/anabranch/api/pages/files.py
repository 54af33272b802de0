"""The files that the pages load: styles, scripts, pictures; the same in every installation, so they need no key."""

from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

from anabranch.api.answers.etags import CACHEABLE, IfNoneMatch, answer_unless_cached
from anabranch.api.openapi.declare import Responses, problems
from anabranch.api.pages.rendering import FOLDER, find_policy
from anabranch.errors import NotFound

__all__ = ["router"]

router = APIRouter(tags=["pages"])
STATIC = FOLDER / "static"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".geojson": "application/geo+json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
FILE_RESPONSES: Responses = {
    **CACHEABLE,
    200: {**CACHEABLE[200], "description": "The file", "content": {"*/*": {"schema": {"type": "string"}}}},
}


@router.get("/ui/{name:path}", response_class=Response, responses={**FILE_RESPONSES, **problems("request.route")})
async def show_part(name: str, request: Request, if_none_match: IfNoneMatch = None) -> Response:
    """A file of the pages."""
    if name not in _files():
        raise NotFound("request.route", f"the pages have no {name}")
    response = Response(_read(name), media_type=MEDIA_TYPES[Path(name).suffix])
    response.headers["Content-Security-Policy"] = find_policy(request)  # a worker has its own
    response.headers["Referrer-Policy"] = "no-referrer"
    return answer_unless_cached(response, if_none_match)


@cache
def _files() -> frozenset[str]:
    found = (path for path in STATIC.rglob("*") if path.is_file() and path.suffix in MEDIA_TYPES)
    return frozenset(path.relative_to(STATIC).as_posix() for path in found)


@cache
def _read(name: str) -> bytes:
    return (STATIC / name).read_bytes()
