"""Routes whose answers have an ETag: a caller that has the answer gets a 304, for which nothing is opened or drawn."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import cached_property
from inspect import signature
from typing import Any, Protocol
from urllib.parse import urlencode

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from titiler.core.dependencies import CoordCRSParams, CRSParams, DstCRSParams

from anabranch.serving.etags import cache_control, has, tag_of
from anabranch.serving.parameters import query_names
from anabranch.serving.tiles.parameters import check_parameters

__all__ = ["CHECKSUM", "Query", "TaggedRoute", "Versioned", "add_missing", "is_drawn", "nothing"]

# Image formats for viewing; the other formats carry values.
IMAGES = frozenset({None, "png", "jpg", "jpeg", "webp"})
CHECKSUM = "checksum"
# rasterio fetches a CRS that is given as a URL.
CRS_DEPENDENCIES = (CRSParams, CoordCRSParams, DstCRSParams)

Query = list[tuple[str, str]]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Versioned(Protocol):
    """What a response is about."""

    @property
    def version(self) -> str:
        """A hash of everything that the response depends on, besides its URL."""


class TaggedRoute(APIRoute, ABC):
    """A route that finds what it is about, completes the query of the caller, and takes no CRS parameter."""

    subject_key: str  # in the scope of a request

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """As in FastAPI, without the CRS parameters."""
        super().__init__(path, _without_crs(endpoint), **options)

    @abstractmethod
    async def find(self, request: Request) -> Versioned:
        """What the response is about; it is found once, so that the whole response is about one version."""

    @abstractmethod
    async def complete(self, request: Request) -> Query:
        """The query with which the route's own handler is called."""

    def cache_control(self, request: Request, version: str) -> str:
        """A URL with the checksum never changes its content; others may, when something is published again."""
        for_good = request.query_params.get(CHECKSUM) == version and request.scope["route"].name != "tilejson"
        return cache_control(keyed=request.scope["state"]["keyed"], for_good=for_good)

    def get_route_handler(self) -> Handler:
        """The route's own handler, called with the completed query."""
        handle = super().get_route_handler()

        async def draw(request: Request) -> Response:
            check_parameters(request, self._names)
            subject = await self.find(request)
            request = Request({**request.scope, self.subject_key: subject}, request.receive)
            tag = tag_of(subject.version, str(request.url))
            headers = {"ETag": tag, "Cache-Control": self.cache_control(request, subject.version)}
            known = request.headers.get("If-None-Match", "")
            if known.strip() != "*" and has(known, tag):
                return Response(status_code=304, headers=headers)
            query = await self.complete(request)
            scope = {**request.scope, "query_string": urlencode(query).encode()}
            response = await handle(Request(scope, request.receive))
            response.headers.update(headers)
            return response

        return draw

    @cached_property
    def _names(self) -> frozenset[str]:
        return query_names(self.dependant)


def nothing() -> None:
    """A dependency that is not used."""


def is_drawn(request: Request) -> bool:
    """Whether a request is for a picture, or for the addresses of pictures, and not for values."""
    if request.scope["route"].name == "tilejson":
        return request.query_params.get("tile_format") in IMAGES
    return request.scope["route"].name in ("tile", "preview") and request.path_params.get("format") in IMAGES


def add_missing(query: Query, more: Query) -> Query:
    """The query, and of the others those whose names it does not have."""
    named = {name for name, _ in query}
    return query + [(name, value) for name, value in more if name not in named]


def _without_crs(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    given = signature(endpoint)
    known = [
        part.replace(default=Depends(nothing))
        if getattr(part.default, "dependency", None) in CRS_DEPENDENCIES
        else part
        for part in given.parameters.values()
    ]
    endpoint.__signature__ = given.replace(parameters=known)  # type: ignore[attr-defined]  # what inspect looks at first
    return endpoint
