"""Requests whose end two servers may see in two places are refused, and their connection is closed."""

from starlette.datastructures import Headers

from anabranch.errors import InputError

__all__ = ["is_ambiguous", "refuse_ambiguous"]


def is_ambiguous(headers: Headers) -> bool:
    """Whether both a length and chunks are said to end the body: a proxy may have chosen the other one."""
    return "transfer-encoding" in headers and "content-length" in headers


def refuse_ambiguous(headers: Headers) -> None:
    """Refuse such a request."""
    if is_ambiguous(headers):
        raise InputError("request.framing", "the request has both a Content-Length and a Transfer-Encoding")
