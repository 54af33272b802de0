"""The public path prefix of the API: from its public URL, or from a trusted proxy."""

from contextvars import ContextVar

__all__ = ["REQUESTED", "ROOT", "at_root"]

ROOT: ContextVar[str] = ContextVar("root", default="")
REQUESTED: ContextVar[tuple[str, str]] = ContextVar("requested", default=("", ""))
"""The path of this request, as its caller wrote it, and its query."""


def at_root(path: str) -> str:
    """A path of the API with the public prefix of the current request."""
    return ROOT.get() + path
