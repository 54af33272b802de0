"""A seccomp filter that allows only the system calls that Python and GDAL need for files, memory and threads."""

import csv
import ctypes
import os
import platform
import struct
from functools import cache
from importlib.resources import files
from typing import NamedTuple

__all__ = [
    "ABSENT",
    "ALLOWED",
    "EPERM",
    "allow_list",
    "can_filter_calls",
    "end_reporting",
    "filter_calls",
    "numbers_of",
    "report_calls",
]

SET_FILTER, ASK_ACTION = 1, 2
NEW_LISTENER = 8
LOAD, AND, JUMP_EQUAL, JUMP_ABOVE, RETURN = 0x20, 0x54, 0x15, 0x25, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in the kernel's struct seccomp_data
ALLOW, KILL, ERRNO, REPORT = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
EPERM, ENOSYS = 1, 38
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALL_BITS = 0xFFFFFFFF
OWN_PID = -1  # a placeholder for the pid of the filtered process


class Check(NamedTuple):
    """An argument by its index, the bits of it to test, and their allowed values."""

    argument: int
    bits: int
    values: tuple[int, ...]


# A thread as C libraries create it: CLONE_THREAD and the flags that go with it, without any new namespace.
MAY_BE_SHARED = 0x007D0F00
CLONE_THREAD = 0x00010000
THREAD = Check(0, ALL_BITS & ~MAY_BE_SHARED | CLONE_THREAD, (CLONE_THREAD,))
# O_TRUNC only with write access: Landlock before ABI 3 does not check truncation of a file opened read-only. The access
# mode 3 is neither reading nor writing, and opens files that Landlock would refuse for both.
READ_ONLY, WRITE_ONLY, READ_WRITE, ACCESS, TRUNCATE = 0, 1, 2, 3, 0o1000
OPENINGS = (READ_ONLY, WRITE_ONLY, READ_WRITE, WRITE_ONLY | TRUNCATE, READ_WRITE | TRUNCATE)
SET_ID = 0o6000
# Duplicates, flags and record locks (PROJ's SQLite needs them); no owner that the kernel would signal, no lease.
HANDLE_COMMANDS = (0, 1, 2, 3, 4, 5, 6, 7, 1030)
TERMINAL_QUESTIONS = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # and the flags of a handle
OWN_NAME = (15, 16)

UNCHECKED = """
read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range
stat lstat fstat newfstatat statx access faccessat faccessat2 readlink readlinkat getdents64 getcwd statfs fstatfs
ftruncate fallocate fadvise64 readahead fsync fdatasync sync_file_range copy_file_range sendfile
mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 umask dup dup2 dup3 pipe2 poll ppoll select pselect6
mmap munmap mremap mprotect madvise mincore msync brk
futex set_robust_list rseq sched_yield sched_getaffinity getcpu exit exit_group restart_syscall
rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack
clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage getrlimit
getpid gettid getppid getuid geteuid getgid getegid getrandom uname sysinfo
"""
CHECKED = {
    "clone": (THREAD,),
    "open": (Check(1, ACCESS | TRUNCATE, OPENINGS), Check(2, SET_ID, (0,))),
    "openat": (Check(2, ACCESS | TRUNCATE, OPENINGS), Check(3, SET_ID, (0,))),
    "fcntl": (Check(1, ALL_BITS, HANDLE_COMMANDS),),
    "ioctl": (Check(1, ALL_BITS, TERMINAL_QUESTIONS),),
    "prctl": (Check(0, ALL_BITS, OWN_NAME),),
    "prlimit64": (Check(0, ALL_BITS, (0, OWN_PID)),),
    "tgkill": (Check(0, ALL_BITS, (OWN_PID,)),),
}
ALLOWED: dict[str, tuple[Check, ...]] = dict.fromkeys(UNCHECKED.split(), ()) | CHECKED
# Their flags are in memory, which a filter can't read; with ENOSYS, libraries fall back to the older call.
ABSENT = ("clone3", "openat2")
REPORTING = ("sendmsg", "seccomp")


@cache
def numbers_of(machine: str) -> dict[str, int]:
    """The numbers of all system calls of an architecture, by name; some lack a call."""
    table = (files(__package__) / "syscalls.csv").read_text().splitlines()
    return {row["call"]: int(row[machine]) for row in csv.DictReader(table) if row[machine]}


def can_filter_calls() -> bool:
    """Whether the kernel supports filters, and we know the call numbers of its architecture."""
    if platform.machine() not in ARCHITECTURES:
        return False
    return _seccomp(ASK_ACTION, struct.pack("=I", ERRNO)) == 0


def filter_calls() -> None:
    """Permanently block all calls that are not allowed, in this process."""
    if _install(allow_list(platform.machine(), ERRNO | EPERM)) < 0:
        raise OSError(ctypes.get_errno(), "the kernel supports seccomp filters, but rejected ours")


def report_calls() -> int | None:
    """Block all calls but the allowed ones and those that send the handle; returns a handle that reports refusals.

    None where the kernel does not support it, or an outer program already uses the only listener.
    """
    handle = _install(allow_list(platform.machine(), REPORT, REPORTING), NEW_LISTENER)
    return handle if handle >= 0 else None


def end_reporting() -> None:
    """Block those calls, too: of two filters the stricter one wins."""
    tests = [_jump(JUMP_EQUAL, _numbers()[name], len(REPORTING) - place, 0) for place, name in enumerate(REPORTING)]
    if _install([_load(NUMBER), *tests, _give(ALLOW), _give(ERRNO | EPERM)]) < 0:
        raise OSError(ctypes.get_errno(), "the kernel rejected the second seccomp filter")


def _numbers() -> dict[str, int]:
    return numbers_of(platform.machine())


def _install(instructions: list[bytes], flags: int = 0) -> int:
    code = b"".join(instructions)
    held = ctypes.create_string_buffer(code)
    return _seccomp(SET_FILTER, struct.pack("@HP", len(instructions), ctypes.addressof(held)), flags)


def _seccomp(operation: int, what: bytes, flags: int = 0) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(_numbers()["seccomp"], operation, flags, what))


def allow_list(machine: str, refuse: int, more: tuple[str, ...] = ()) -> list[bytes]:
    """The filter: another architecture's calls kill, unknown and x32 numbers get ENOSYS, the list decides the rest."""
    numbers, allowed = numbers_of(machine), ALLOWED | dict.fromkeys(more, ())
    rules = [_rule(numbers[name], checks, refuse) for name, checks in allowed.items() if name in numbers]
    absent = [
        instruction
        for name in ABSENT
        for instruction in (_jump(JUMP_EQUAL, numbers[name], 0, 1), _give(ERRNO | ENOSYS))
    ]
    return [
        _load(ARCHITECTURE),
        _jump(JUMP_EQUAL, ARCHITECTURES[machine], 1, 0),
        _give(KILL),
        _load(NUMBER),
        _jump(JUMP_ABOVE, max(numbers.values()), 0, 1),
        _give(ERRNO | ENOSYS),
        *absent,
        *(instruction for rule in rules for instruction in rule),
        _give(refuse),
    ]


def _rule(number: int, checks: tuple[Check, ...], refuse: int) -> list[bytes]:
    """Allow one call if all checks pass; other calls continue after this rule."""
    tested = [instruction for check in checks for instruction in _test(check, refuse)]
    return [_jump(JUMP_EQUAL, number, 0, len(tested) + 1), *tested, _give(ALLOW)]


def _test(check: Check, refuse: int) -> list[bytes]:
    """Continue if the argument has one of the values, else refuse the call."""
    values = [os.getpid() if value == OWN_PID else value for value in check.values]
    # The kernel uses 32 bits of these arguments: the lower half, which comes first on both architectures.
    return [
        _load(ARGUMENTS + 8 * check.argument),
        struct.pack("=HBBI", AND, 0, 0, check.bits),
        *(_jump(JUMP_EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)),
        _give(refuse),
    ]


def _load(offset: int) -> bytes:
    return struct.pack("=HBBI", LOAD, 0, 0, offset)


def _jump(kind: int, value: int, when_true: int, when_false: int) -> bytes:
    return struct.pack("=HBBI", kind, when_true, when_false, value)


def _give(answer: int) -> bytes:
    return struct.pack("=HBBI", RETURN, 0, 0, answer)
