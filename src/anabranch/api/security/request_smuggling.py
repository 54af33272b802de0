"""Refuses requests whose end is ambiguous (request smuggling), and closes their connection."""

from starlette.datastructures import Headers

from anabranch.errors import InputError

__all__ = ["is_ambiguous", "refuse_ambiguous"]


def is_ambiguous(headers: Headers) -> bool:
    """Whether the headers give both a length and chunks: a proxy may have used the other one."""
    return "transfer-encoding" in headers and "content-length" in headers


def refuse_ambiguous(headers: Headers) -> None:
    """Refuse an ambiguous request."""
    if is_ambiguous(headers):
        raise InputError("request.framing", "the request has both a Content-Length and a Transfer-Encoding")
