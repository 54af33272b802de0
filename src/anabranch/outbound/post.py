"""Calls to an address that a caller named: resolved once, checked, bounded in time and size, no redirects (S3)."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import h11

from anabranch.errors import Unavailable
from anabranch.outbound.addresses import is_internal, is_public
from anabranch.outbound.url import Target

__all__ = ["Response", "post", "send"]

MAX_RESPONSE_BYTES = 16 * 1024
MAX_CONNECT_SECONDS = 3  # for one of several addresses
RESOLVER_THREADS = 64  # a name whose servers are slow holds one for long


@dataclass(frozen=True)
class Response:
    """The answer to a call: its status, its headers in lower case, and the first bytes of its body as they came."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def post(
    target: Target,
    headers: Mapping[str, str],
    body: bytes,
    *,
    seconds: float,
    context: ssl.SSLContext | None = None,
) -> Response:
    """Post once; of the answer's body, the first bytes."""
    sent = {"Content-Length": str(len(body)), **headers}
    return await send("POST", target, sent, body, seconds=seconds, max_bytes=MAX_RESPONSE_BYTES, context=context)


async def send(
    method: str,
    target: Target,
    headers: Mapping[str, str],
    body: bytes = b"",
    *,
    seconds: float,
    max_bytes: int,
    context: ssl.SSLContext | None = None,
) -> Response:
    """Call once; Unavailable if there is no answer. The deadline is that of the whole call, however slowly it drips.

    Of a body that is larger than `max_bytes`, the first bytes are returned.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _send(method, target, headers, body, seconds, max_bytes, context)
    except TimeoutError:
        raise Unavailable("outbound.timeout", f"there was no answer in {seconds:g} s") from None
    except (OSError, ssl.SSLError, h11.ProtocolError) as error:
        raise Unavailable("outbound.failed", _describe(error)) from error


async def _send(
    method: str,
    target: Target,
    headers: Mapping[str, str],
    body: bytes,
    seconds: float,
    max_bytes: int,
    context: ssl.SSLContext | None,
) -> Response:
    reader, writer = await _connect(target, await _resolve(target), seconds, context)
    try:
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_RESPONSE_BYTES)
        sent = {
            "Host": target.host_header,
            "Accept-Encoding": "identity",
            "Connection": "close",
            **headers,
        }
        request = h11.Request(method=method, target=target.path, headers=list(sent.items()))
        parts = [connection.send(request), connection.send(h11.Data(data=body)), connection.send(h11.EndOfMessage())]
        writer.write(b"".join(part or b"" for part in parts))
        await writer.drain()
        return await _read(connection, reader, max_bytes)
    finally:
        writer.transport.abort()  # a close that waits for the other side could wait forever


async def _read(connection: h11.Connection, reader: asyncio.StreamReader, max_bytes: int) -> Response:
    head: h11.Response | None = None
    body, received = b"", 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if received > max_bytes + MAX_RESPONSE_BYTES:  # and as much for the head
                break
            data = await reader.read(MAX_RESPONSE_BYTES)
            received += len(data)
            connection.receive_data(data)
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) >= max_bytes:
                break
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            break
    if head is None:
        raise h11.RemoteProtocolError("the answer has no status, or its headers are too long")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
    return Response(head.status_code, headers, body[:max_bytes])


async def _resolve(target: Target) -> list[str]:
    """The addresses of a host, each of them checked: one that may not be called refuses all of them."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.run_in_executor(_resolver(), _look_up, target.host, target.port)
    except OSError as error:
        raise Unavailable("outbound.failed", f"{target.host} has no address: {error.strerror}") from error
    for address in found:
        if is_internal(address):
            raise Unavailable(
                "outbound.address", f"{target.host} has an address that is link-local or serves a cloud's metadata"
            )
        if not target.exempt and not is_public(address):
            raise Unavailable("outbound.address", f"{target.host} has an address that is not public")
    return found


def _look_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def _connect(
    target: Target, addresses: list[str], seconds: float, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first of the checked addresses that takes one; TLS is that of the name.

    One that hangs leaves time for the others, and for the answer.
    """
    is_secure = target.scheme == "https"
    tls, name = (context or _context(), target.host) if is_secure else (None, None)
    share = min(MAX_CONNECT_SECONDS, seconds / (len(addresses) + 1))
    for address in addresses[:-1]:
        with suppress(OSError):
            async with asyncio.timeout(share):
                return await asyncio.open_connection(address, target.port, ssl=tls, server_hostname=name)
    return await asyncio.open_connection(addresses[-1], target.port, ssl=tls, server_hostname=name)


@cache
def _resolver() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(RESOLVER_THREADS, "resolve")


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _describe(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, OSError):
        return f"the connection failed: {error.strerror or error}"
    return f"the answer is not HTTP: {error}"
