"""Lets a caller with any key read what is public (S1)."""

from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.access import ANONYMOUS
from anabranch.api.security.outer_middleware import PUBLIC_PATHS
from anabranch.api.security.public_address import route_path

__all__ = ["PublicReads"]

REFUSED = (401, 403, 404)


class PublicReads:
    """Asks once more as an anonymous caller where the answer is 404, and sends that answer unless it is a refusal."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if not _may_be_public(scope):
            await self._app(scope, receive, send)
            return
        anonymous = {**scope, "state": {**scope["state"], "principal": ANONYMOUS}}
        own = _Held(send, {404})
        await self._app(scope, receive, own)
        if not own.messages:
            return
        public = _Held(send, REFUSED)
        await self._app(anonymous, receive, public)
        if public.messages:
            for message in own.messages:
                await send(message)


class _Held:
    """Sends a response, or keeps it if it has one of these statuses."""

    def __init__(self, send: Send, statuses: Collection[int]) -> None:
        self._send = send
        self._statuses = statuses
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        """Take a part of the response."""
        if self.messages or message.get("status") in self._statuses:
            self.messages.append(message)
        else:
            await self._send(message)


def _may_be_public(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    principal, path = scope["state"]["principal"], route_path(scope)
    sees_less = principal not in (None, ANONYMOUS) and principal.visible_platform is not None
    return sees_less and any(path.startswith(f"{each}/") for each in PUBLIC_PATHS)
