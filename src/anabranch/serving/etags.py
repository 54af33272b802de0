"""ETags: names of answers, by which a caller says that it has one."""

from functools import cache
from hashlib import sha256
from importlib.metadata import version

__all__ = ["has", "tag_of"]


def tag_of(*parts: str | int | bytes) -> str:
    """The ETag of what depends on these parts, and on the release, alone."""
    digest = sha256(_release())
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(b"%d:" % len(data) + data)
    return f'"{digest.hexdigest()[:32]}"'


def has(if_none_match: str | None, tag: str) -> bool:
    """Whether a caller says that it has the answer of this tag."""
    given = (if_none_match or "").split(",")
    return any(one.strip().removeprefix("W/") in (tag, "*") for one in given)


@cache
def _release() -> bytes:
    return version("anabranch").encode()
