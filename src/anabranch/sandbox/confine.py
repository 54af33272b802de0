"""Removes network access and privileges from a process and limits its resources, before it opens an untrusted file."""

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
# root does not imply capabilities, a change of user changes none, and these bits are locked.
NO_ROOT_FOR_GOOD = 0b1110_1111
CAPABILITIES = 64  # more than any kernel has
CAPABILITY_VERSION = 0x20080522
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Limits:
    """Limits of one call: bytes of memory beyond that of the idle process, CPU seconds, bytes of a file, open files."""

    memory: int
    cpu_seconds: int
    file_bytes: int
    open_files: int = 256


def leave_network() -> bool:
    """Remove this process and its children from the network; False where the kernel doesn't allow it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) == 0:
        return True
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return False
    with suppress(OSError):  # only for the names of ids: file ownership does not change
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def drop_privileges() -> None:
    """Permanently drop all capabilities, in this process and its children, also as root."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Without root these two may fail, but then there is nothing for them to drop.
    libc.prctl(PR_SET_SECUREBITS, NO_ROOT_FOR_GOOD, 0, 0, 0)
    for capability in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, CLEAR_ALL, 0, 0, 0)
    none = struct.pack("=6I", *[0] * 6)
    if libc.capset(struct.pack("=Ii", CAPABILITY_VERSION, 0), none) or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel did not drop the capabilities of this process")


def set_limits(limits: Limits) -> None:
    """Set resource limits for this process."""
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
        # At the hard limit of CPU time the kernel sends SIGKILL; at the soft one SIGXCPU, which shows the reason.
        resource.setrlimit(kind, (bound, bound + 1 if kind == resource.RLIMIT_CPU and bound == value else bound))
