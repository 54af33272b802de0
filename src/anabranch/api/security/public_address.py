"""The public address of the API, from which links are made; headers of untrusted callers are not used."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send

from anabranch.access import is_loopback
from anabranch.api.security.forwarding import HEADERS, Forwarded, Proxies
from anabranch.api.security.root_path import REQUESTED, ROOT
from anabranch.errors import AnabranchError
from anabranch.settings import Settings

__all__ = ["AllowedHosts", "PublicAddress", "route_path"]

log = structlog.get_logger()


class PublicAddress:
    """Puts the public address of a request into its scope, for links."""

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        """Without a configured public URL, the address is that of the request."""
        self._app = app
        self._proxies = Proxies(settings.trusted_proxies, settings.forwarding_headers)
        self._public = urlsplit(settings.public_url) if settings.public_url else None
        self._warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            scope.setdefault("state", {})["hosts"] = headers.getlist("host")
            self._place(scope, self._read(scope, headers))
        await self._app(scope, receive, send)

    def _read(self, scope: Scope, headers: Headers) -> Forwarded:
        client = scope.get("client")
        if self._proxies.trusts(client[0] if client else None):
            return self._proxies.read(headers)
        if not self._warned and any(name in headers for name in HEADERS):
            self._warned = True
            remedy = "If that is a proxy of yours, name it in ANABRANCH_TRUSTED_PROXIES."
            log.warning("proxy.untrusted", client=client and client[0], remedy=remedy)
        return Forwarded()

    def _place(self, scope: Scope, forwarded: Forwarded) -> None:
        # In place: what is around this reads from the same scope which route answered.
        scheme, host, prefix = forwarded.scheme, forwarded.host, forwarded.prefix or ""
        if self._public:
            scheme, host, prefix = self._public.scheme, self._public.netloc, self._public.path
        if forwarded.client:
            scope["client"] = (forwarded.client, 0)
        if scheme:
            scope["scheme"] = scheme
        if host:
            MutableHeaders(scope=scope)["host"] = host
        ROOT.set(prefix)
        scope["root_path"] = prefix
        if route_path(scope) == scope["path"]:  # a proxy may have taken the prefix away, or not
            scope["path"] = prefix + scope["path"]
            scope["raw_path"] = prefix.encode() + scope.get("raw_path", b"")
        REQUESTED.set((quote(scope["path"]), scope.get("query_string", b"").decode("latin-1")))


def route_path(scope: Scope) -> str:
    """The path of a request below the prefix of the public address."""
    path, prefix = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(prefix) or "/" if path == prefix or path.startswith(f"{prefix}/") else path


@dataclass(frozen=True)
class AllowedHosts:
    """The host names under which the API may be called, checked where no keys are required or links are made of them.

    This stops DNS rebinding (a page whose name resolves to 127.0.0.1 still sends that name), and links to forged hosts.
    """

    names: Collection[str]
    has_public_url: bool

    @classmethod
    def of(cls, settings: Settings) -> "AllowedHosts":
        """The configured hosts."""
        public = urlsplit(settings.public_url).hostname if settings.public_url else None
        named = {name.lower() for name in (*settings.allowed_hosts, settings.host, public) if name}
        return cls(frozenset(named), public is not None)

    def check(self, scope: Scope) -> None:
        """Refuse a request with another host name."""
        if scope["state"]["keyed"] and self.has_public_url:
            return
        hosts = scope["state"]["hosts"]
        if len(hosts) != 1 or not self._allows(hosts[0], scope):
            raise AnabranchError(
                "request.host",
                "the Host header is no name under which this API may be called",
                remedy="Call it as 127.0.0.1, localhost or [::1]; other names are for its operator to allow, by "
                "ANABRANCH_PUBLIC_URL or ANABRANCH_ALLOWED_HOSTS.",
            )

    def _allows(self, host: str, scope: Scope) -> bool:
        name = re.sub(r":\d*$", "", host).lower()
        server = scope.get("server")
        own = {*self.names, str(server[0]).lower()} if server else self.names
        return is_loopback(name) or name.removeprefix("[").removesuffix("]") in own
