"""The public path prefix of the API: from its public URL, or from a trusted proxy."""

from contextvars import ContextVar

__all__ = ["ROOT", "at_root"]

ROOT: ContextVar[str] = ContextVar("root", default="")


def at_root(path: str) -> str:
    """A path of the API with the public prefix of the current request."""
    return ROOT.get() + path
