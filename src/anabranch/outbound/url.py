"""URLs that callers give us to call, read in one way (S3)."""

import re
import socket
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from anabranch.errors import InputError
from anabranch.outbound.addresses import is_internal, is_public

__all__ = ["MAX_URL_CHARACTERS", "Target", "read_exempt", "read_url"]

MAX_URL_CHARACTERS = 2000
PORTS = {"http": 80, "https": 443}
URL = re.compile(r"https?://[!-~]+", re.IGNORECASE)
NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*\.?")
NUMBER = re.compile(r"(0x[0-9a-f]+|[0-9]+)(\.(0x[0-9a-f]+|[0-9]+)){0,3}")


@dataclass(frozen=True)
class Target:
    """Where a URL leads. An `exempt` host may have private addresses, but no internal ones, and any port."""

    scheme: str
    host: str
    port: int
    path: str
    exempt: bool

    @property
    def authority(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}"

    @property
    def host_header(self) -> str:
        """The host as a request names it."""
        return _bracketed(self.host) + ("" if self.port == PORTS[self.scheme] else f":{self.port}")


def read_url(url: str, exempt: Collection[str] = ()) -> Target:
    """Where a URL leads; InputError if we would not call it. `exempt` hosts are written `host` or `host:port`.

    What a name resolves to is checked at the connection.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refused("it can't be read") from None
    host = (parts.hostname or "").rstrip(".")
    if len(url) > MAX_URL_CHARACTERS:
        raise _refused(f"it is longer than {MAX_URL_CHARACTERS} characters")
    if not URL.fullmatch(url) or "\\" in url or parts.scheme not in PORTS:
        raise _refused("it must begin with https:// or http://, and be of printable ASCII characters")
    if "@" in parts.netloc or "#" in url:
        raise _refused("it must not have a user, a password or a fragment")
    literal = _read_literal(host)
    if not host or (literal is None and not NAME.fullmatch(host)):
        raise _refused("its host is not a name or an address")
    scheme, port = parts.scheme, PORTS[parts.scheme] if port is None else port
    is_exempt = host in exempt or f"{_bracketed(host)}:{port}" in exempt
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    target = Target(scheme, host, port, path, is_exempt)
    _check(target, literal)
    return target


def read_exempt(text: str) -> str:
    """A host, or a host and a port, as `read_url` compares it; ValueError if it is neither, or is never called."""
    bare, _, port = (
        text.lower().rpartition(":") if re.search(r"[^:]:[0-9]+$|\]:[0-9]+$", text) else (text.lower(), "", "")
    )
    host = bare.removeprefix("[").removesuffix("]").rstrip(".")
    if not (NAME.fullmatch(host) or re.fullmatch(r"[0-9a-f:.]+", host)) or (port and not 0 < int(port) < 65536):
        raise ValueError(f"{text!r} is not a host; write it as hooks.example.org or hooks.example.org:8443")
    try:
        literal = _read_literal(host)
    except InputError:
        raise ValueError(f"{text!r} is not an address") from None
    if literal and is_internal(literal):
        raise ValueError(f"{text!r} is link-local or serves a cloud's metadata, and is never called")
    return f"{_bracketed(host)}:{port}" if port else host


def _read_literal(host: str) -> str | None:
    """The address that a host is: also in the short, octal and hexadecimal forms that resolvers accept."""
    if ":" in host:
        try:
            return socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, host))
        except OSError:
            raise _refused("its host is not a name or an address") from None
    if not NUMBER.fullmatch(host):
        return None
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        raise _refused("its host is not a name or an address") from None


def _check(target: Target, literal: str | None) -> None:
    """Refuse hosts and ports that we don't call; `literal` is the address that the host is, if it is one."""
    if target.port == 0:
        raise _refused("its port is 0")
    if literal and is_internal(literal):
        raise _refused("its host is link-local or serves a cloud's metadata")
    if target.exempt:
        return
    if target.port not in PORTS.values():
        raise _refused(f"its port is {target.port}, and only 80 and 443 are called", exemptible=True)
    is_local = target.host == "localhost" or target.host.endswith(".localhost")
    if is_local or (literal and not is_public(literal)):
        raise _refused("its host is not a public one", exemptible=True)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _refused(reason: str, *, exemptible: bool = False) -> InputError:
    remedy = "Give a public one like https://example.org/hook"
    if exemptible:
        remedy += "; the operator can allow others by ANABRANCH_CALLBACK_HOSTS, or the `callback_hosts` of a platform"
    return InputError("outbound.url", f"the URL can't be called: {reason}", remedy=f"{remedy}.")
