"""`If-Match` with the number of an item, which is its ETag: the caller acts only on what it has seen."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Header

from anabranch.errors import Conflict, InputError

__all__ = ["IfMatch", "number_tag", "read_if_match", "require_match"]

TAG = re.compile(r'"([1-9][0-9]{0,8})"', re.ASCII)
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description='The number that the caller saw last, as the ETag of the item (`"3"`);'
        " 412 if another has acted since.",
    ),
]


def number_tag(number: int) -> str:
    """The ETag of a publication's number."""
    return f'"{number}"'


def read_if_match(text: str | None, expected: int | None = None) -> int | None:
    """The number that is expected: that of the header, or else that of the body."""
    if text is None or text.strip() == "*":
        return expected
    found = TAG.fullmatch(text.strip())
    if found is None:
        remedy = "Send the ETag of the item, which is its number in quotes."
        raise InputError("request.invalid", f"If-Match is {text[:80]!r}, and not the number of an item", remedy=remedy)
    if expected not in (None, int(found[1])):
        what = f"If-Match is {text[:80]}, and `expected` is {expected}"
        raise InputError("request.invalid", what, remedy="Give one of them.")
    return int(found[1])


@contextmanager
def require_match(text: str | None) -> Iterator[None]:
    """Report a number that has moved on as a header that does not match, if it came in the header (RFC 9110)."""
    try:
        yield
    except Conflict as error:
        if text is None or error.code != "publication.moved":
            raise
        raise Conflict("publication.no_match", error.message) from error
