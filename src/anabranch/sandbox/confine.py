"""What a process gives up before it opens a file of a stranger: the network, privileges, and more than its share."""

import ctypes
import os
import resource
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Limits", "drop_privileges", "leave_network", "set_limits"]

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 24, 28, 38, 47
CLEAR_ALL = 4
# root is no name for all capabilities, a change of user changes none, and nobody takes that back.
NO_ROOT_FOR_GOOD = 0b1110_1111
CAPABILITIES = 64  # more than any kernel has
CAPABILITY_VERSION = 0x20080522
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Limits:
    """What one call may take: memory in bytes beyond that of the empty process, seconds, bytes of a file, files."""

    memory: int
    cpu_seconds: int
    file_bytes: int
    open_files: int = 256


def leave_network() -> bool:
    """Take this process, and all that it starts, out of the network; False where the kernel doesn't let it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) == 0:
        return True
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return False
    with suppress(OSError):  # only for names: files belong to whom they belonged
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def drop_privileges() -> None:
    """Give up every capability for good, in this process and all that it starts, as root, too."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Who is not root may have no right to these two, and has nothing that they would take.
    libc.prctl(PR_SET_SECUREBITS, NO_ROOT_FOR_GOOD, 0, 0, 0)
    for capability in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, CLEAR_ALL, 0, 0, 0)
    none = struct.pack("=6I", *[0] * 6)
    if libc.capset(struct.pack("=Ii", CAPABILITY_VERSION, 0), none) or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel did not take this process's capabilities")


def set_limits(limits: Limits) -> None:
    """Bound this process."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE
    wanted = {
        resource.RLIMIT_AS: used + limits.memory,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
    }
    for kind, value in wanted.items():
        _, most = resource.getrlimit(kind)
        bound = value if most == resource.RLIM_INFINITY else min(value, most)
        # At the hard bound of processor time the kernel kills; at the soft one it tells why.
        resource.setrlimit(kind, (bound, bound + 1 if kind == resource.RLIMIT_CPU and bound == value else bound))
