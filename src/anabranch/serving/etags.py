"""ETags, with which a client shows that it has a response already."""

from functools import cache
from hashlib import sha256
from importlib.metadata import version

__all__ = ["cache_control", "has", "tag_of"]

YEAR_SECONDS, FRESH_SECONDS = 31_536_000, 300


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


def cache_control(*, keyed: bool, for_good: bool) -> str:
    """How long a response may be cached, and by whom: of a URL whose content never changes, for good."""
    who = "private" if keyed else "public"
    return f"{who}, max-age={YEAR_SECONDS}, immutable" if for_good else f"{who}, max-age={FRESH_SECONDS}"


@cache
def _release() -> bytes:
    return version("anabranch").encode()
