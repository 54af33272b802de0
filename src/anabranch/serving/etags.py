"""ETags, with which a client shows that it has a response already."""

from functools import cache
from hashlib import sha256
from importlib.metadata import version

__all__ = ["has", "tag_of"]


def tag_of(*parts: str | int | bytes) -> str:
    """The ETag of a response that depends only on these parts and on the release."""
    digest = sha256(_release())
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(b"%d:" % len(data) + data)
    return f'"{digest.hexdigest()[:32]}"'


def has(if_none_match: str | None, tag: str) -> bool:
    """Whether an If-None-Match header contains this tag."""
    given = (if_none_match or "").split(",")
    return any(one.strip().removeprefix("W/") in (tag, "*") for one in given)


@cache
def _release() -> bytes:
    return version("anabranch").encode()
