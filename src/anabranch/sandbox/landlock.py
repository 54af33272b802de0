"""Restricts the files and sockets of a process with Landlock, which needs no privileges."""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["find_landlock", "restrict_files"]

# Constants of linux/landlock.h, and the call numbers, which are the same on every architecture.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_ABI = 1
PATH_BENEATH = 1
WRITE_FILE, READ_FILE, READ_FOLDER = 1 << 1, 1 << 2, 1 << 3
REMOVE_FOLDER, REMOVE_FILE, MAKE_FOLDER, MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
REFER, TRUNCATE = 1 << 13, 1 << 14
READ = READ_FILE | READ_FOLDER
# No links, devices, pipes or sockets: the caller opens the files in the folder, and would follow a link or block.
WRITE = WRITE_FILE | REMOVE_FOLDER | REMOVE_FILE | MAKE_FOLDER | MAKE_FILE | REFER | TRUNCATE
OF_FILES = WRITE_FILE | READ_FILE | TRUNCATE  # a rule for a file must not have folder rights
# The number of rights in each ABI, from the lowest bit: 2 added links and moves, 3 truncation, 5 device ioctls.
RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
NEWEST_FOR_FILES = max(RIGHTS_BY_ABI)
BIND_AND_CONNECT = 0b11
FIRST_WITH_NET = 4
SOCKETS_AND_SIGNALS = 0b11  # abstract sockets of other processes, and signals to them
FIRST_WITH_SCOPES = 6
SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/urandom", "/proc/self")


def find_landlock(newest: int | None = None) -> int:
    """The ABI of the kernel's Landlock, at most `newest`; 0 where there is none."""
    found = max(0, int(_libc().syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_ABI)))
    return found if newest is None else min(found, newest)


def restrict_files(reads: Iterable[Path], writes: Iterable[Path], abi: int) -> None:
    """Restrict this process to these files and folders and those that Python needs; no TCP, no executables."""
    libc, known = _libc(), (1 << RIGHTS_BY_ABI[min(abi, NEWEST_FOR_FILES)]) - 1
    system = dict.fromkeys((*SYSTEM, *sys.path, sys.prefix, sys.base_prefix))
    ruleset = _make_ruleset(libc, abi, known)
    try:
        for path in (*map(Path, system), *reads):
            _allow(libc, ruleset, path, READ & known)
        for path in writes:
            _allow(libc, ruleset, path, (READ | WRITE) & known)
        if libc.syscall(RESTRICT_SELF, ruleset, 0) != 0:
            raise OSError(ctypes.get_errno(), "the kernel has Landlock, but did not let this process use it")
    finally:
        os.close(ruleset)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _make_ruleset(libc: ctypes.CDLL, abi: int, known: int) -> int:
    handled = struct.pack("=Q", known)
    if abi >= FIRST_WITH_NET:
        handled += struct.pack("=Q", BIND_AND_CONNECT)
    if abi >= FIRST_WITH_SCOPES:
        handled += struct.pack("=Q", SOCKETS_AND_SIGNALS)
    ruleset = int(libc.syscall(CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "could not create a Landlock ruleset")
    return ruleset


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):  # a missing path needs no rule
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            allowed = rights if path.is_dir() else rights & OF_FILES
            rule = struct.pack("=Qi", allowed, handle)
            if libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0) != 0:
                raise OSError(ctypes.get_errno(), f"could not create a Landlock rule for {path}")
        finally:
            os.close(handle)
