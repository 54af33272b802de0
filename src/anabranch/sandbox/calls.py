"""System calls that a process gives up for good, by a seccomp filter: sockets, new processes, signals to others."""

import ctypes
import platform
import struct
from typing import NamedTuple

__all__ = ["forbid_calls"]

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, JUMP_SET, JUMP_ABOVE, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # where they are in what the kernel shows the filter
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS = 1, 38
CLONE_THREAD = 0x00010000
X32 = 0x40000000
INSTRUCTION = 8  # bytes


class Machine(NamedTuple):
    """The numbers of one architecture: its own, that of `clone` and `clone3`, and of what is forbidden."""

    architecture: int
    clone: int
    clone3: int
    forbidden: tuple[int, ...]


# socket, connect, accept, bind, listen, accept4; io_uring; fork, vfork, execve, execveat;
# kill, tkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_open, pidfd_send_signal, pidfd_getfd; ptrace, process_vm_*;
# setsid, setpgid; unshare, setns, mount, umount2, pivot_root, chroot; chmod and chown, by path and handle; utimes;
# bpf, perf_event_open, userfaultfd, keyctl, add_key, request_key, kexec, modules.
MACHINES = {
    "x86_64": Machine(
        0xC000003E, 56, 435,
        (41, 42, 43, 49, 50, 288, 425, 426, 427, 57, 58, 59, 322, 62, 200, 129, 297, 434, 424, 438, 101,
         310, 311, 112, 109, 272, 308, 165, 166, 155, 161, 90, 91, 268, 452, 92, 93, 94, 260, 132, 235, 261, 280,
         321, 298, 323, 250, 248, 249, 246, 320, 175, 313),
    ),
    "aarch64": Machine(
        0xC00000B7, 220, 435,
        (198, 203, 202, 200, 201, 242, 425, 426, 427, 221, 281, 129, 130, 138, 240, 434, 424, 438, 117,
         270, 271, 157, 154, 97, 268, 40, 39, 41, 51, 52, 53, 452, 54, 55, 88,
         280, 241, 282, 219, 217, 218, 104, 294, 105, 273),
    ),
}  # fmt: skip


def forbid_calls() -> bool:
    """Give them up; False where the architecture is not known, or the kernel has no filters."""
    machine = MACHINES.get(platform.machine())
    if machine is None:
        return False
    code = b"".join(_instructions(machine))
    held = ctypes.create_string_buffer(code)
    program = struct.pack("@HP", len(code) // INSTRUCTION, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(libc.prctl(PR_SET_SECCOMP, MODE_FILTER, program, 0, 0) == 0)


def _instructions(machine: Machine) -> list[bytes]:
    """The filter: another architecture's calls kill; threads may be made, processes not; the rest by the list."""
    refuse = ERRNO | EPERM
    listed = [
        instruction for number in machine.forbidden for instruction in (_jump(JUMP_EQUAL, number, 0, 1), _give(refuse))
    ]
    return [
        _load(ARCHITECTURE),
        _jump(JUMP_EQUAL, machine.architecture, 1, 0),
        _give(KILL),
        _load(NUMBER),
        _jump(JUMP_ABOVE, X32, 0, 1),
        _give(refuse),
        # Its flags lie in memory, which a filter can't read; told that there is no such call, libc makes the older one.
        _jump(JUMP_EQUAL, machine.clone3, 0, 1),
        _give(ERRNO | ENOSYS),
        *listed,
        _jump(JUMP_EQUAL, machine.clone, 0, 3),
        _load(FIRST_ARGUMENT),
        _jump(JUMP_SET, CLONE_THREAD, 1, 0),
        _give(refuse),
        _give(ALLOW),
    ]


def _load(offset: int) -> bytes:
    return struct.pack("=HBBI", LOAD, 0, 0, offset)


def _jump(kind: int, value: int, when_true: int, when_false: int) -> bytes:
    return struct.pack("=HBBI", kind, when_true, when_false, value)


def _give(answer: int) -> bytes:
    return struct.pack("=HBBI", RETURN, 0, 0, answer)
