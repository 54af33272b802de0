"""The outermost layer: gives requests a correlation id, authenticates callers and turns exceptions into responses."""

import asyncio
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from urllib.parse import unquote
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.access import ANONYMOUS, KEY, LOCAL, NotAuthenticated, Principal, holds_key, is_address, is_loopback
from anabranch.api.answers.errors import for_anonymous, respond
from anabranch.api.security.authentication import Authenticator
from anabranch.api.security.hang_guard import HangGuard, database_silent
from anabranch.api.security.limits import Limits
from anabranch.api.security.public_address import AllowedHosts, route_path
from anabranch.api.security.request_smuggling import is_ambiguous, refuse_ambiguous
from anabranch.errors import AnabranchError, InputError, Unavailable
from anabranch.public_url import PAGES

__all__ = ["CORRELATION_ID", "Admission"]

log = structlog.get_logger()

CORRELATION_HEADER = "X-Correlation-ID"
CORRELATION_ID = r"[\x20-\x7e]{1,128}"
PROBES = frozenset({"/livez", "/readyz"})
# Open without a key besides the probes: files of the pages and error codes. They are part of the package, the same
# everywhere, and a browser can't send a key for them (S1).
OPEN_PATHS = PROBES | {"/docs", "/errors"}
OPEN_PREFIXES = ("/ui/", "/errors/")
# Where public items can be read without a key, if the operator allows it; each shows such a caller nothing else.
PUBLIC_PATHS = ("/stac", "/raster", "/features", "/files")
SEARCH_PATH = "/stac/search"
ASK_FOR_LESS = "Ask for less, or try again."
NONE_NEEDED = "Send a valid key as `Authorization: Bearer anb_…`, or send none: this API needs no key on this address."
INERT = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"  # of what is no page
MAX_LINGER_BYTES = 16_000_000
LINGER_SECONDS = 2.0
MAX_SHORT_BODY_BYTES = 2_000_000


@dataclass(frozen=True)
class Admission:
    """Gives every request an id, refuses unauthorized callers, and lets no exception out."""

    app: ASGIApp
    _: KW_ONLY
    authenticator: Authenticator
    keys: bool  # whether they are required on loopback, too
    anonymous_read: bool  # whether public items need none
    guard: HangGuard
    hosts: AllowedHosts
    limits: Limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["correlation_id"] = _identify(Headers(scope=scope))
        state["principal"] = None
        state["keyed"] = self._asks_for_key(scope)
        exchange = _Exchange(scope, receive, send)
        try:
            with self.guard.over(lambda: exchange.waits, exchange.give_up):
                state["principal"] = await self._admit(scope)
                await self.app(scope, receive, exchange.send)
            return
        except ClientDisconnect:
            log.info("request.abandoned", path=scope["path"])
            return
        except AnabranchError as refusal:
            log.warning("request.refused", code=refusal.code, path=scope["path"])
            error = refusal
        except MemoryError:
            log.exception("request.out_of_memory", method=scope["method"], path=scope["path"])
            if exchange.started:
                raise
            error = Unavailable("api.memory", "the API has no memory left for this request", remedy=ASK_FOR_LESS)
        except Exception:  # a bug: the caller gets an error, the log gets the traceback
            log.exception("request.crashed", method=scope["method"], path=scope["path"])
            if exchange.started:
                raise
            error = AnabranchError("internal", "internal error of the API", remedy="See the log of the API.")
        await exchange.fail(error)

    async def _admit(self, scope: Scope) -> Principal | None:
        """The caller; None for an anonymous one, who may read probes and pages, which contain no data."""
        headers, path = Headers(scope=scope), route_path(scope)
        scope["state"]["unread"] = is_ambiguous(headers)
        refuse_ambiguous(headers)
        _refuse_misplaced_key(scope)
        if scope["state"]["keyed"] and path in PROBES:
            return None
        self.hosts.check(scope)
        if scope["state"]["keyed"]:
            address = _address(scope)
            self.limits.admit_address(address)
            if _is_open(path) or (_is_page(path) and "authorization" not in headers):
                return None
            if self.anonymous_read and "authorization" not in headers and _is_public(scope["method"], path):
                structlog.contextvars.bind_contextvars(principal=ANONYMOUS.name)
                return ANONYMOUS
            return await self._authenticate(headers, address)
        _check_origin(headers.getlist("origin"), scope)
        _check_site(scope)
        if "authorization" in headers and not _is_open(path):  # who sends a key acts by it, also where none is needed
            try:
                return await self._authenticate(headers, _address(scope))
            except NotAuthenticated as error:
                raise NotAuthenticated(error.code, error.message, remedy=NONE_NEEDED) from error
        structlog.contextvars.bind_contextvars(principal=LOCAL.name)
        return LOCAL

    def _asks_for_key(self, scope: Scope) -> bool:
        # The socket may be one that was opened for us, on an address that the settings don't know (S1).
        server = scope.get("server")
        return self.keys or bool(server and is_address(server[0]) and not is_loopback(server[0]))

    async def _authenticate(self, headers: Headers, address: str) -> Principal:
        principal = await self.authenticator.authenticate(headers.getlist("authorization"), address)
        self.limits.admit_key(principal)
        # The principal, in every log line of this request (P7).
        known_by = {"issuer": principal.issuer} if principal.issuer else {"key": principal.key_id}
        structlog.contextvars.bind_contextvars(principal=principal.name, **known_by)
        return principal


class _Exchange:
    """The response to one request, with its id; once given up, what the application sends is dropped."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._state = scope["state"]
        self._given_up = False
        self.started = False

    @property
    def waits(self) -> bool:
        """Whether the whole request was sent and the response has not begun."""
        length = Headers(scope=self._scope).get("content-length", "")
        is_read = self._scope["method"] not in ("POST", "PUT") or (
            length.isdecimal() and int(length) <= MAX_SHORT_BODY_BYTES
        )
        return is_read and not self.started

    async def send(self, message: Message) -> None:
        """Send a message of the application."""
        if not self._given_up:
            await self._mark_and_send(message)

    async def fail(self, error: AnabranchError) -> None:
        """Respond with an error."""
        await self._respond(error, self.send)

    async def give_up(self) -> None:
        """Respond that the database does not answer, in place of the application that waits for it."""
        self._given_up = True
        log.warning("request.given_up", method=self._scope["method"], path=self._scope["path"])
        error = database_silent() if self._state["principal"] else for_anonymous(database_silent())
        await self._respond(error, self._mark_and_send)

    async def _respond(self, error: AnabranchError, send: Send) -> None:
        answer = respond(error, path=self._scope["path"], correlation_id=self._state["correlation_id"])
        await answer(self._scope, self._receive, send)

    async def _mark_and_send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            _mark(message, self._state["correlation_id"])
            if self._state.get("unread"):
                MutableHeaders(scope=message)["Connection"] = "close"
            request = {"method": self._scope["method"], "path": self._scope["path"]}
            log.debug("request.answered", **request, status=message["status"])
        elif self._state.get("unread") and not message.get("more_body"):
            message = await _linger(message, self._receive, self._send)
        await self._send(message)


async def _linger(last: Message, receive: Receive, send: Send) -> Message:
    """Respond to a caller that still sends, and read a little more before the connection is closed.

    Closed at once, the connection may lose the response; kept open, the caller would send everything.
    """
    await send({**last, "more_body": True})
    left = MAX_LINGER_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while left > 0 and (message := await receive()).get("more_body"):
                left -= len(message.get("body", b""))
    return {"type": "http.response.body", "body": b"", "more_body": False}


def _identify(headers: Headers) -> str:
    given = headers.get(CORRELATION_HEADER)
    valid = given is not None and re.fullmatch(CORRELATION_ID, given) is not None and not holds_key(given)
    correlation_id = given if given is not None and valid else uuid4().hex
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(correlation_id=correlation_id)
    if given is not None and not valid:
        log.warning("correlation_id.replaced", reason="it must be 1 to 128 printable ASCII characters, and no key")
    return correlation_id


def _mark(start: Message, correlation_id: str) -> None:
    headers = MutableHeaders(scope=start)
    headers[CORRELATION_HEADER] = correlation_id
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("Cache-Control", "no-store")
    if start["status"] != 304:  # a browser would put it in place of that of the file which it has kept
        headers.setdefault("Content-Security-Policy", INERT)
    headers.add_vary_header("Authorization")  # a response cached for one key is not for another


def _refuse_misplaced_key(scope: Scope) -> None:
    # Proxies, browsers and logs store URLs and headers; only Authorization is made for keys (S5).
    query = unquote(scope.get("query_string", b"").decode("latin-1"))
    if holds_key(scope["path"]) or holds_key(query):
        raise InputError(
            "auth.misplaced",
            "the URL contains a key or a token",
            remedy="Send it as `Authorization: Bearer …`, and revoke this one: URLs are not secret.",
        )
    # Tokens of others are none of ours: gateways and cookies of a parent domain bring them.
    if found := [name for name, value in Headers(scope=scope).items() if name != "authorization" and KEY.search(value)]:
        raise InputError(
            "auth.misplaced",
            f"the header {found[0]} contains a key",
            remedy="Send it as `Authorization: Bearer …`.",
        )


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)


def _is_page(path: str) -> bool:
    """Whether a path is that of a page, whose shell is open; its content needs a key."""
    return path == "/" or path.split("/")[1] in PAGES


def _is_public(method: str, path: str) -> bool:
    is_read = method in ("GET", "HEAD") or (method == "POST" and path == SEARCH_PATH)
    return is_read and any(path == each or path.startswith(f"{each}/") for each in PUBLIC_PATHS)


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _check_origin(origins: Iterable[str], scope: Scope) -> None:
    # Browsers send the origin; a page of another site could submit jobs without reading the response.
    hosts = {*scope["state"]["hosts"], *Headers(scope=scope).getlist("host")}
    own = {f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")}
    allowed = own | scope["state"].get("origins", frozenset())
    if set(origins) - allowed and "*" not in allowed:
        raise AnabranchError(
            "request.origin",
            "pages of another origin may not call this API",
            remedy="Call it from its own pages, or outside a browser.",
        )


def _check_site(scope: Scope) -> None:
    """Refuse requests that pages of other sites cause, unless their origin is allowed.

    For images and scripts browsers send Sec-Fetch-Site, but no Origin. Following a link is allowed.
    """
    method, headers = scope["method"], Headers(scope=scope)
    allowed: Collection[str] = scope["state"].get("origins", frozenset())
    opened = headers.get("sec-fetch-dest", "document") == "document"  # and not within their page
    navigates = method == "GET" and headers.get("sec-fetch-mode") == "navigate" and opened
    if headers.get("sec-fetch-site") != "cross-site" or {"*", headers.get("origin")} & set(allowed) or navigates:
        return
    raise AnabranchError(
        "request.origin",
        "pages of another site may not call this API",
        remedy="Call it from its own pages, or outside a browser.",
    )
