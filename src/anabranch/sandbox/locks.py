"""What the kernel of this machine can lock a sandbox with."""

from typing import NamedTuple

__all__ = ["Locks"]


class Locks(NamedTuple):
    """Whether there is no network, the ABI of Landlock in use (0 is none), and whether calls are filtered."""

    offline: bool
    landlock: int
    calls: bool

    def missing(self) -> list[str]:
        """The locks that this machine does not have."""
        held = {"unshare": self.offline, "landlock": self.landlock, "seccomp": self.calls}
        return [name for name, value in held.items() if not value]
