"""CORS: pages of configured origins may read what is published, and nothing else."""

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from anabranch.api.security.public_address import route_path
from anabranch.settings import Settings

__all__ = ["ReadersCors"]

READABLE_PATHS = ("/stac", "/raster", "/features", "/files")
SEARCH_PATH = "/stac/search"
REQUEST_HEADERS = ("Authorization", "Content-Type", "If-None-Match", "If-Range", "Range", "X-Correlation-ID")
RESPONSE_HEADERS = (
    "Accept-Ranges",
    "Content-Disposition",
    "Content-Length",
    "Content-Range",
    "ETag",
    "Link",
    "Retry-After",
    "WWW-Authenticate",
    "X-Correlation-ID",
)
PREFLIGHT_CACHE_SECONDS = 600


class ReadersCors:
    """Lets pages of the configured origins read the catalog, tiles and files, and answers preflight requests."""

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        """`*` allows every origin, which is safe: the API uses no cookies."""
        self._app = app
        self._origins = frozenset(settings.cors_origins)
        self._cors = CORSMiddleware(
            app,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "HEAD", "POST"),
            allow_headers=REQUEST_HEADERS,
            expose_headers=RESPONSE_HEADERS,
            max_age=PREFLIGHT_CACHE_SECONDS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not self._origins or not _is_reading(scope):
            await self._app(scope, receive, send)
            return
        scope["state"]["origins"] = self._origins
        await self._cors(scope, receive, send)


def _is_reading(scope: Scope) -> bool:
    path = route_path(scope)
    reads = any(path == root or path.startswith(f"{root}/") for root in READABLE_PATHS)
    return reads and (scope["method"] in ("GET", "HEAD", "OPTIONS") or path == SEARCH_PATH)
