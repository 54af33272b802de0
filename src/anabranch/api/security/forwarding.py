"""What a trusted proxy reports about a request: the client's address, and the public address."""

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from starlette.datastructures import Headers

from anabranch.settings import ForwardingHeaders

__all__ = ["Forwarded", "Proxies"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*)|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?", re.ASCII)
PREFIX = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+", re.ASCII)
FORWARDED_PAIR = re.compile(r'\s*([A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";,]*))\s*', re.ASCII)
HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-prefix")
MAX_HEADER_CHARS = 4_000


@dataclass(frozen=True)
class Forwarded:
    """The request as the outermost trusted proxy received it; None where it reported nothing."""

    client: str | None = None
    scheme: str | None = None
    host: str | None = None
    prefix: str | None = None


class Proxies:
    """The trusted proxies."""

    def __init__(self, networks: Sequence[str], headers: ForwardingHeaders = "x-forwarded") -> None:
        """By address or network; none is trusted by default. They set `headers`: others pass through from callers."""
        self._headers = headers
        self._networks: list[Network] = [ipaddress.ip_network(network, strict=False) for network in networks]

    def trusts(self, address: str | None) -> bool:
        """Whether this address is one of a trusted proxy."""
        try:
            known = ipaddress.ip_address((address or "").partition("%")[0])
        except ValueError:
            return False
        known = getattr(known, "ipv4_mapped", None) or known
        return any(known in network for network in self._networks)

    def read(self, headers: Headers) -> Forwarded:
        """What the headers that trusted proxies set report.

        Each proxy appends its own value, so they are read from the end while the proxies that added them are trusted.
        What the caller wrote comes before those and is ignored.
        """
        if any(len(value) > MAX_HEADER_CHARS for name in HEADERS for value in headers.getlist(name)):
            return Forwarded()
        try:
            if self._headers == "forwarded":
                hops = list(_read_forwarded(headers.getlist("forwarded")))
            else:
                hops = list(_read_older(headers))
        except ValueError:  # a quote that a caller left open would take in what the proxy added
            return Forwarded()
        known = Forwarded()
        for hop in reversed(hops):
            known = Forwarded(*(new or old for new, old in zip(_values(hop), _values(known), strict=True)))
            if not self.trusts(hop.client):
                break
        prefix = _last(headers.getlist("x-forwarded-prefix")) if self._headers == "x-forwarded" else ""
        return Forwarded(known.client, known.scheme, known.host, _valid(PREFIX, prefix.rstrip("/")))


def _values(hop: Forwarded) -> tuple[str | None, ...]:
    return hop.client, hop.scheme, hop.host, hop.prefix


def _read_forwarded(values: Sequence[str]) -> Iterator[Forwarded]:
    """The hops of `Forwarded` (RFC 7239), in order; ValueError if a line is malformed."""
    for pairs in chain.from_iterable(map(_parse, values)):
        yield _hop(pairs.get("for", ""), pairs.get("proto", ""), pairs.get("host", ""))


def _parse(line: str) -> list[dict[str, str]]:
    """The pairs of each hop of a line."""
    hops: list[dict[str, str]] = [{}]
    at = 0
    while found := FORWARDED_PAIR.match(line, at):
        hops[-1][found[1].lower()] = found[2] if found[2] is not None else found[3]
        at = found.end()
        if at == len(line):
            return hops
        if line[at] == ",":
            hops.append({})
        elif line[at] != ";":
            break
        at += 1
    raise ValueError("it is not written as RFC 7239 says")


def _read_older(headers: Headers) -> Iterator[Forwarded]:
    """The hops of the older headers: one for each client; the nearest proxy reports scheme and host."""
    clients = list(chain.from_iterable(value.split(",") for value in headers.getlist("x-forwarded-for")))
    scheme, host = _last(headers.getlist("x-forwarded-proto")), _last(headers.getlist("x-forwarded-host"))
    yield from (_hop(client, "", "") for client in clients[:-1])
    if clients or scheme or host:
        yield _hop(clients[-1] if clients else "", scheme, host)


def _last(values: Sequence[str]) -> str:
    return values[-1].rpartition(",")[2].strip() if values else ""


def _hop(client: str, scheme: str, host: str) -> Forwarded:
    scheme = scheme.strip().lower()
    return Forwarded(_address(client.strip()), scheme if scheme in ("http", "https") else None, _valid(HOST, host))


def _address(text: str) -> str | None:
    """The address of a client, without its port; None where it is hidden or no address."""
    bare = text[1:].partition("]")[0] if text.startswith("[") else text
    if bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return None


def _valid(pattern: re.Pattern[str], text: str) -> str | None:
    text = text.strip()
    return text if pattern.fullmatch(text) else None
