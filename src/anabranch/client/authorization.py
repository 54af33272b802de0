"""Sends a key or a token with every request; a function that gives one is asked again when the API refuses it."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from inspect import isawaitable

import httpx

from anabranch.errors import InputError

__all__ = ["AsyncKey", "Authorization", "Key"]

Key = str | Callable[[], str]
AsyncKey = Key | Callable[[], Awaitable[str]]
UNAUTHORIZED = 401


class Authorization(httpx.Auth):
    """The header of every request. What a function gave is used until the API answers 401; then it is asked again."""

    def __init__(self, key: AsyncKey) -> None:
        """Asks for nothing yet."""
        self._ask = None if isinstance(key, str) else key
        self._header = _write(key) if isinstance(key, str) else None

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send a request, and once more with a new key."""
        sent = self._header or self._renew()
        request.headers["Authorization"] = sent
        answer = yield request
        if answer.status_code == UNAUTHORIZED and self._ask:
            # Another request may have asked meanwhile.
            renewed = self._header if self._header != sent else self._renew()
            if renewed and renewed != sent:
                request.headers["Authorization"] = renewed
                yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """The same, for asyncio."""
        sent = self._header or await self._renew_async()
        request.headers["Authorization"] = sent
        answer = yield request
        if answer.status_code == UNAUTHORIZED and self._ask:
            renewed = self._header if self._header != sent else await self._renew_async()
            if renewed and renewed != sent:
                request.headers["Authorization"] = renewed
                yield request

    def _renew(self) -> str:
        found = self._ask() if self._ask else ""
        if not isinstance(found, str):
            raise TypeError("a function that gives a key to Client must not be a coroutine: use AsyncClient")
        self._header = _write(found)
        return self._header

    async def _renew_async(self) -> str:
        found = self._ask() if self._ask else ""
        self._header = _write(await found if isawaitable(found) else found)
        return self._header


def _write(key: str) -> str:
    # Checked here, because httpx would show an invalid header in its error (S5).
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        remedy = "Fix ANABRANCH_API_KEY, or the key that was passed instead."
        raise InputError(
            "auth.unsendable", "the key is empty, or has characters that a key can't contain", remedy=remedy
        )
    return f"Bearer {key}"
