"""What a process gives up before it opens a file of a stranger."""

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Limits", "can_restrict_files", "leave_network", "restrict_files", "set_limits"]

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
PR_SET_NO_NEW_PRIVS = 38
PAGE = os.sysconf("SC_PAGE_SIZE")

# Landlock, by the numbers of its header: the kernel's way for an ordinary process to give up files and sockets.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION = 1
PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
FIRST_RIGHTS = 13  # of the first version; later ones added one each: refer, truncate, ioctl of devices
RIGHTS_BY_VERSION = {1: FIRST_RIGHTS, 2: FIRST_RIGHTS + 1, 3: FIRST_RIGHTS + 2, 4: FIRST_RIGHTS + 2}
BIND_AND_CONNECT = 0b11
FIRST_WITH_NET = 4
SOCKETS_AND_SIGNALS = 0b11  # abstract sockets of others, and signals to them
FIRST_WITH_SCOPES = 6
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15  # a rule for a file may name no right of folders
SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/urandom", "/proc/self")


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


def can_restrict_files() -> bool:
    """Whether the kernel has Landlock."""
    return _landlock()[1] >= 1


def restrict_files(reads: Iterable[Path], writes: Iterable[Path]) -> bool:
    """Leave this process these files and folders, what Python and its libraries need, and no TCP; False where the
    kernel has no Landlock."""
    libc, version = _landlock()
    if version < 1:
        return False
    everything = (1 << RIGHTS_BY_VERSION.get(version, FIRST_RIGHTS + 3)) - 1
    ruleset = _make_ruleset(libc, version, everything)
    try:
        for path in (*map(Path, SYSTEM), *map(Path, sys.path), Path(sys.prefix), Path(sys.base_prefix), *reads):
            _allow(libc, ruleset, path, EXECUTE | READ_FILE | READ_FOLDER)
        for path in writes:
            _allow(libc, ruleset, path, everything)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(libc.syscall(RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _landlock() -> tuple[ctypes.CDLL, int]:
    """The C library, and the version of the kernel's Landlock; less than 1 where there is none."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION))


def _make_ruleset(libc: ctypes.CDLL, version: int, everything: int) -> int:
    handled = struct.pack("=Q", everything)
    if version >= FIRST_WITH_NET:
        handled += struct.pack("=Q", BIND_AND_CONNECT)
    if version >= FIRST_WITH_SCOPES:
        handled += struct.pack("=Q", SOCKETS_AND_SIGNALS)
    ruleset = int(libc.syscall(CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "no Landlock ruleset could be made")
    return ruleset


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):  # what is not there needs no right
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            allowed = rights if path.is_dir() else rights & OF_FILES
            rule = struct.pack("=Qi", allowed, handle)
            if libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0) != 0:
                raise OSError(ctypes.get_errno(), f"no Landlock rule could be made for {path}")
        finally:
            os.close(handle)
