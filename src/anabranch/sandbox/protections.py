"""The kernel features that protect a sandbox on this machine."""

from typing import NamedTuple

__all__ = ["Protections"]


class Protections(NamedTuple):
    """Whether the network is off, the Landlock ABI in use (0 is none), and whether system calls are filtered."""

    offline: bool
    landlock: int
    calls: bool

    def missing(self) -> list[str]:
        """The names of the protections that this machine lacks."""
        held = {"unshare": self.offline, "landlock": self.landlock, "seccomp": self.calls}
        return [name for name, value in held.items() if not value]
