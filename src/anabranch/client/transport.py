"""Calls over HTTP; a missing answer or a problem document is raised as an error."""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.client.calls import Call
from anabranch.client.errors import THROTTLED, error_of
from anabranch.client.files import AsyncPieces, FileBody, Pieces, write_atomically
from anabranch.errors import AnabranchError, InputError, Unavailable

if TYPE_CHECKING:
    import httpx

    from anabranch.client.authorization import AsyncKey, Key

__all__ = ["AsyncTransport", "Transport"]

Answer = TypeVar("Answer")
CONNECT_SECONDS = 5.0
JSON = "application/json"
NDJSON = "application/x-ndjson"
SLOW_ANSWER_SECONDS = 600.0


class HttpProtocol:
    """Builds requests for the API at a URL and reads its answers; `timeout` limits each request, in seconds."""

    def __init__(self, base_url: str, timeout: float, key: "AsyncKey | None" = None) -> None:
        """Makes no request yet; the key is sent with every request."""
        _import_httpx()
        import httpx

        from anabranch.client.authorization import Authorization

        self._errors, self._timeouts = httpx.RequestError, (httpx.ReadTimeout, httpx.WriteTimeout)
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL as error:
            raise _bad_url(str(error)) from error
        if url.scheme not in ("http", "https") or not url.host:
            raise _bad_url("it must begin with http:// or https:// and name a host")
        self._where = f"{url.scheme}://{url.netloc.decode()}"
        self.base_url = str(url).rstrip("/")
        self._timeout = timeout
        # A proxy from the environment can't reach our loopback. Without TLS, no certificates are loaded.
        local = url.host in ("localhost", "127.0.0.1", "::1")
        self._options: dict[str, Any] = {  # what both of httpx's clients take
            "base_url": url, "auth": None if key is None else Authorization(key),
            "trust_env": not local, "verify": url.scheme == "https",
        }  # fmt: skip

    def _request(self, call: Call[Any]) -> dict[str, Any]:  # what httpx takes
        timeout = min(call.within or self._timeout, self._timeout)
        answer = (call.within or SLOW_ANSWER_SECONDS) if call.slow else timeout
        connect = min(timeout, CONNECT_SECONDS)
        kind = {"Content-Type": NDJSON if call.lines else JSON} if isinstance(call.body, bytes) else {}
        key = {} if call.key is None else {"Idempotency-Key": call.key}
        return {
            "method": call.method,
            "url": call.path,
            "headers": {**kind, **key, **call.headers},
            "params": {name: value for name, value in call.query.items() if value is not None},
            "timeout": (connect, answer, timeout, connect),
        }

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except self._timeouts as error:
            raise Unavailable(
                "api.silent",
                f"the API at {self._where} accepted a request and did not answer in time",
                remedy="Run `anabranch doctor` to see which part hangs.",
            ) from error
        except self._errors as error:
            raise Unavailable(
                "api.unreachable",
                f"the API at {self._where} does not answer: {str(error) or type(error).__name__}",
                remedy="Start it with `anabranch up --detach`, or fix ANABRANCH_API_URL if it names another.",
            ) from error

    def _check(self, call: Call[Any], answer: "httpx.Response") -> None:
        """Raise the error in an answer, if it is a problem."""
        if not (answer.is_success or (answer.status_code == call.also and not _is_problem(answer))):
            error = error_of(answer.status_code, _problem(answer))
            seconds = str(answer.headers.get("retry-after", ""))
            if isinstance(error, Unavailable) and answer.status_code == THROTTLED and seconds.isdecimal():
                error.retry_after = float(seconds)
            raise error

    def _read(self, call: Call[Answer], answer: "httpx.Response") -> Answer:
        self._check(call, answer)
        try:
            if call.lines:
                return call.read([json.loads(line) for line in answer.content.splitlines()])
            return call.read(answer.json() if answer.content else None)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise AnabranchError(
                "api.unreadable",
                f"unexpected response from {self._where}",
                remedy="Check that it is Anabranch, and of the same version.",
            ) from error


class Transport(HttpProtocol):
    """Connections to the API."""

    def __init__(self, base_url: str, timeout: float, key: "Key | None" = None) -> None:
        """Makes no request yet."""
        super().__init__(base_url, timeout, key)
        import httpx

        self._http = httpx.Client(**self._options)

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def call(self, call: Call[Answer]) -> Answer:
        """Send a request, and return the parsed answer."""
        content = Pieces(call.body) if isinstance(call.body, FileBody) else call.body
        with self._reached():
            answer = self._http.request(**self._request(call), content=content)
        return self._read(call, answer)

    @contextmanager
    def lines(self, call: Call[Any]) -> Iterator[Iterator[str]]:
        """The lines of an answer as they arrive."""
        with self._stream(call) as answer:
            yield answer.iter_lines()

    def download(self, call: Call[Any], file: Path) -> None:
        """Send a request, and write the answer to a file."""
        with write_atomically(file) as aside, self._stream(call) as answer:
            for piece in answer.iter_bytes():
                aside.write(piece)

    def hash(self, call: Call[Any]) -> str:
        """The SHA-256 of an answer."""
        digest = sha256()
        with self._stream(call) as answer:
            for piece in answer.iter_bytes():
                digest.update(piece)
        return digest.hexdigest()

    @contextmanager
    def _stream(self, call: Call[Any]) -> Iterator["httpx.Response"]:
        with self._reached(), self._http.stream(**self._request(call)) as answer:
            if not answer.is_success:
                answer.read()
            self._check(call, answer)
            yield answer


class AsyncTransport(HttpProtocol):
    """Connections to the API, for asyncio."""

    def __init__(self, base_url: str, timeout: float, key: "AsyncKey | None" = None) -> None:
        """Makes no request yet."""
        super().__init__(base_url, timeout, key)
        import httpx

        self._http = httpx.AsyncClient(**self._options)

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def call(self, call: Call[Answer]) -> Answer:
        """Send a request, and return the parsed answer."""
        content = AsyncPieces(call.body) if isinstance(call.body, FileBody) else call.body
        with self._reached():
            answer = await self._http.request(**self._request(call), content=content)
        return self._read(call, answer)

    @asynccontextmanager
    async def lines(self, call: Call[Any]) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of an answer as they arrive."""
        async with self._stream(call) as answer:
            yield answer.aiter_lines()

    async def download(self, call: Call[Any], file: Path) -> None:
        """Send a request, and write the answer to a file."""
        with write_atomically(file) as aside:
            async with self._stream(call) as answer:
                async for piece in answer.aiter_bytes():
                    aside.write(piece)

    async def hash(self, call: Call[Any]) -> str:
        """The SHA-256 of an answer."""
        digest = sha256()
        async with self._stream(call) as answer:
            async for piece in answer.aiter_bytes():
                digest.update(piece)
        return digest.hexdigest()

    @asynccontextmanager
    async def _stream(self, call: Call[Any]) -> AsyncIterator["httpx.Response"]:
        with self._reached():
            async with self._http.stream(**self._request(call)) as answer:
                if not answer.is_success:
                    await answer.aread()
                self._check(call, answer)
                yield answer


def _import_httpx() -> None:
    # httpx imports its own command line, with click and rich, which takes longer than the rest; it works without it.
    unwanted = "httpx._main"
    if "httpx" in sys.modules:
        return
    modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]  # None: "can't be imported"
    modules[unwanted] = None
    try:
        import httpx  # noqa: F401  # for its place in sys.modules
    finally:
        del modules[unwanted]


def _problem(answer: "httpx.Response") -> dict[str, Any]:  # JSON of any shape: a proxy may have sent it
    try:
        problem = answer.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _is_problem(answer: "httpx.Response") -> bool:
    return str(answer.headers.get("content-type")).startswith("application/problem+json")


def _bad_url(reason: str) -> InputError:
    remedy = "Fix ANABRANCH_API_URL, or the URL that was passed instead, like http://127.0.0.1:8787."
    return InputError("api.url_invalid", f"the API's URL is invalid: {reason}", remedy=remedy)
