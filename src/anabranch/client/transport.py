"""Calls over HTTP; what is no answer, or one that tells of a problem, is raised."""

import json
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.client.errors import error_of
from anabranch.engine.errors import AnabranchError, InputError, Unavailable

if TYPE_CHECKING:
    import httpx

__all__ = ["Transport"]

Answer = TypeVar("Answer")
CONNECT_SECONDS = 5.0
JSON = "application/json"
NDJSON = "application/x-ndjson"


class Transport:
    """Connections to the API at a URL; `timeout` bounds a request, in seconds."""

    def __init__(self, base_url: str, timeout: float, key: str | None = None) -> None:
        """Nothing is called yet; the key goes with every request."""
        _import_httpx()
        import httpx

        self._errors = httpx.RequestError
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL as error:
            raise _bad_url(str(error)) from error
        if url.scheme not in ("http", "https") or not url.host:
            raise _bad_url("it must begin with http:// or https:// and name a host")
        self.where = f"{url.scheme}://{url.netloc.decode()}"
        self.timeout = timeout
        # A proxy that the environment names can't reach our loopback. Without TLS no certificates are loaded.
        local = url.host in ("localhost", "127.0.0.1", "::1")
        self._http = httpx.Client(
            base_url=url, headers=_authorization(key), trust_env=not local, verify=url.scheme == "https"
        )

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def call(
        self,
        read: Callable[[Any], Answer],  # of JSON, which has no type before it is read
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        also: int | None = None,
        timeout: float | None = None,
        query: dict[str, str | int | None] | None = None,
        key: str | None = None,
        lines: bool = False,
    ) -> Answer:
        """What `read` makes of the answer; `also` is a status that is an answer, too; `key` makes it safe to repeat.

        With `lines`, the body and the answer are many values, a line each.
        """
        headers = _headers(None if body is None else NDJSON if lines else JSON, key)
        answer = self._send(method, path, body, timeout or self.timeout, query or {}, headers)
        told = answer.is_success or (answer.status_code == also and not _is_problem(answer))
        if not told:
            raise error_of(answer.status_code, _problem(answer))
        try:
            return read([json.loads(line) for line in answer.content.splitlines()] if lines else answer.json())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise AnabranchError(
                "api.unreadable",
                f"what answers at {self.where} does not speak as this client expects",
                remedy="See that it is Anabranch, and of the same version.",
            ) from error

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        timeout: float,
        query: dict[str, str | int | None],
        headers: dict[str, str],
    ) -> "httpx.Response":
        connect = min(timeout, CONNECT_SECONDS)
        try:
            return self._http.request(
                method,
                path,
                content=body,
                headers=headers,
                params={name: value for name, value in query.items() if value is not None},
                timeout=(connect, timeout, timeout, connect),
            )
        except self._errors as error:
            raise Unavailable(
                "api.unreachable",
                f"the API at {self.where} does not answer: {str(error) or type(error).__name__}",
                remedy="Start it with `anabranch up`.",
            ) from error


def _headers(kind: str | None, key: str | None) -> dict[str, str]:
    given = {"Content-Type": kind, "Idempotency-Key": key}
    return {name: value for name, value in given.items() if value is not None}


def _import_httpx() -> None:
    # It brings its own command line, with click and rich, and that costs more than the rest of it; what can't be
    # imported it does without.
    unwanted = "httpx._main"
    if "httpx" in sys.modules:
        return
    modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]  # None: "can't be imported"
    modules[unwanted] = None
    try:
        import httpx  # noqa: F401  # for its place in sys.modules
    finally:
        del modules[unwanted]


def _authorization(key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    # Checked here, for what the library says of a header that can't be sent would show it (S5).
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        remedy = "Mend ANABRANCH_API_KEY, or what was given in its place."
        raise InputError("auth.unsendable", "the key is empty, or has characters that no key has", remedy=remedy)
    return {"Authorization": f"Bearer {key}"}


def _problem(answer: "httpx.Response") -> dict[str, Any]:  # JSON of any shape: a proxy may have sent it
    try:
        problem = answer.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _is_problem(answer: "httpx.Response") -> bool:
    return str(answer.headers.get("content-type")).startswith("application/problem+json")


def _bad_url(reason: str) -> InputError:
    return InputError("api.url_invalid", f"the API's URL can't be used: {reason}")
