"""The web pages: a map of published items, and the API reference; they contain no data, and request it with a key."""

from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

from anabranch.api.answers.etags import CACHEABLE, IfNoneMatch, answer_unless_cached
from anabranch.api.deps import CurrentServing
from anabranch.api.openapi.declare import Responses, problems
from anabranch.errors import NotFound

__all__ = ["router"]

router = APIRouter(tags=["pages"])
FOLDER = Path(__file__).parents[2] / "ui"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".geojson": "application/geo+json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
TEXT = {"schema": {"type": "string"}}
PAGE_RESPONSES: Responses = {
    **CACHEABLE,
    200: {**CACHEABLE[200], "description": "The page", "content": {"text/html": TEXT}},
}
PART_RESPONSES: Responses = {**CACHEABLE, 200: {**CACHEABLE[200], "description": "The file", "content": {"*/*": TEXT}}}
# Nothing of another origin, and no script that is not a file of ours.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


@router.get("/", response_class=Response, responses={**PAGE_RESPONSES, **problems()})
async def show_page(request: Request, serving: CurrentServing, if_none_match: IfNoneMatch = None) -> Response:
    """The map; tiles and catalog start to load in the background, unless the caller is anonymous."""
    if request.state.principal:
        serving.warm()
    return _answer("index.html", if_none_match)


@router.get("/docs", response_class=Response, responses={**PAGE_RESPONSES, **problems()})
async def show_reference(if_none_match: IfNoneMatch = None) -> Response:
    """The API reference."""
    return _answer("reference.html", if_none_match)


@router.get("/ui/{name:path}", response_class=Response, responses={**PART_RESPONSES, **problems("request.route")})
async def show_part(name: str, if_none_match: IfNoneMatch = None) -> Response:
    """A file of the pages."""
    if name not in _files():
        raise NotFound("request.route", f"the page has no {name}")
    return _answer(name, if_none_match)


def _answer(name: str, if_none_match: str | None) -> Response:
    response = Response(_read(name), media_type=MEDIA_TYPES[Path(name).suffix])
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    return answer_unless_cached(response, if_none_match)


@cache
def _files() -> frozenset[str]:
    found = (path for path in FOLDER.rglob("*") if path.is_file() and path.suffix in MEDIA_TYPES)
    return frozenset(path.relative_to(FOLDER).as_posix() for path in found)


@cache
def _read(name: str) -> bytes:
    return (FOLDER / name).read_bytes()
