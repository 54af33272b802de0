"""The STAC catalog, its tiles and its layers, served by third-party applications."""

import json
from collections.abc import Mapping

from fastapi import APIRouter, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from anabranch.access import Scope as Right
from anabranch.api.deps import CurrentServing, needs
from anabranch.api.requests.body import JsonBody
from anabranch.canonical import Json
from anabranch.serving.etags import has, tag_of
from anabranch.serving.subapps import SubApp

__all__ = ["router"]

router = APIRouter(include_in_schema=False)  # each describes itself, below its own path


class TaggingSend:
    """Sends a response that comes in one piece with its ETag, or 304 if the caller has it cached."""

    def __init__(self, send: Send, scope: Scope) -> None:
        """Responses to other requests than GET, and those that have an ETag, are sent as they are."""
        self._send = send
        self._held: Message | None = None
        self._counts = scope["method"] == "GET"
        self._cached = Headers(scope=scope).get("if-none-match")

    async def __call__(self, message: Message) -> None:
        """Take a part of a response."""
        if message["type"] == "http.response.start":
            headers = Headers(raw=message["headers"])
            if self._counts and message["status"] == 200 and "etag" not in headers:
                self._held = message
                return
        elif self._held is not None:
            start, self._held = self._held, None
            await self._send_first(start, message)
            return
        await self._send(message)

    async def _send_first(self, start: Message, body: Message) -> None:
        if not body.get("more_body"):
            tag = tag_of(body.get("body", b""))
            headers = MutableHeaders(raw=list(start["headers"]))
            headers["ETag"] = tag
            headers["Cache-Control"] = "private, no-cache"
            start = {**start, "headers": headers.raw}
            if has(self._cached, tag):
                del headers["content-length"], headers["content-type"]
                start, body = {**start, "status": 304, "headers": headers.raw}, {**body, "body": b""}
        await self._send(start)
        await self._send(body)


class SubAppResponse(Response):
    """A response that another application gives."""

    def __init__(self, app: SubApp, given: Mapping[str, Json] | None = None) -> None:
        super().__init__(None if given is None else json.dumps(given))
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with the body that was read."""
        read = False

        async def receive_given() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": bytes(self.body), "more_body": False}

        await self._app(self._describe(scope), receive_given, TaggingSend(send, scope))

    def _describe(self, scope: Scope) -> Scope:
        """The request with the content type of the body that was read."""
        if not self.body:
            return scope
        others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
        return {**scope, "headers": [*others, (b"content-type", b"application/json")]}


@router.get("/stac", dependencies=[needs(Right.READ)])
@router.get("/stac/{path:path}", dependencies=[needs(Right.READ)])
async def browse_catalog(serving: CurrentServing) -> Response:
    """Read from the STAC API."""
    return SubAppResponse(serving.stac)


@router.post("/stac/search", dependencies=[needs(Right.READ)])
async def search_catalog(given: JsonBody, serving: CurrentServing) -> Response:
    """Search the STAC API."""
    return SubAppResponse(serving.stac, given)


@router.get("/raster/{path:path}", dependencies=[needs(Right.READ)])
async def draw_raster(serving: CurrentServing) -> Response:
    """A tile, a preview or values of a published raster."""
    return SubAppResponse(serving.raster)


@router.get("/features", dependencies=[needs(Right.READ)])
@router.get("/features/{path:path}", dependencies=[needs(Right.READ)])
async def read_features(serving: CurrentServing) -> Response:
    """Features or vector tiles of a published layer."""
    return SubAppResponse(serving.features)
