"""GET from an address that the operator named, whole or not at all."""

from collections.abc import Mapping

from anabranch.errors import Unavailable
from anabranch.outbound.post import Response, send
from anabranch.outbound.url import Target

__all__ = ["get"]


async def get(target: Target, headers: Mapping[str, str], *, seconds: float, max_bytes: int) -> Response:
    """The answer, as it came, without following redirects; Unavailable if there is none, or it is too large."""
    answer = await send("GET", target, headers, seconds=seconds, max_bytes=max_bytes + 1)
    if len(answer.body) > max_bytes:
        raise Unavailable("outbound.failed", f"the answer is larger than {max_bytes} bytes")
    return answer
