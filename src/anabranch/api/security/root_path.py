"""The path below which callers see this API: that of its public URL, or of the proxy before it."""

from contextvars import ContextVar

__all__ = ["ROOT", "at_root"]

ROOT: ContextVar[str] = ContextVar("root", default="")


def at_root(path: str) -> str:
    """A path of this API as the caller of this request has to write it."""
    return ROOT.get() + path
