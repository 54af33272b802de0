"""The caller of an application under our paths."""

from starlette.requests import Request

from anabranch.access import Principal

__all__ = ["platform_of"]


def platform_of(request: Request) -> str | None:
    """The platform whose collections the caller may see; None: all."""
    principal: Principal = request.scope["state"]["principal"]
    return principal.visible_platform
