"""What code that took over a sandbox may try: system calls, made without Python's help."""

import csv
import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "ATTACKS", "ask", "attack", "call_as_i386", "make_calls", "misuse_socket", "open_handles", "read_for_ever",
    "show_privileges",
]  # fmt: skip

Progress = Callable[..., None]

TABLE = (files("anabranch.sandbox") / "syscalls.csv").read_text().splitlines()
NUMBERS = {row["call"]: int(row[platform.machine()]) for row in csv.DictReader(TABLE) if row[platform.machine()]}
AT_FDCWD = -100
NOWHERE = -1  # an address or handle that the kernel can't use: who gets past the filter hears EFAULT or EBADF

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


class Targets(NamedTuple):
    """A process of the same user, a file outside of the folder, and one that may be read."""

    victim: int
    outside: str
    source: str

    def there(self) -> bytes:
        return os.fsencode(self.outside)

    def given(self) -> bytes:
        return os.fsencode(self.source)


def answer(name: str | int, *arguments: Any) -> int:
    """The call's answer, or less than 0: its errno."""
    number = NUMBERS[name] if isinstance(name, str) else name
    held = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    answered = int(libc.syscall(ctypes.c_long(number), *held))
    return -ctypes.get_errno() if answered == -1 else answered


def call(name: str | int, *arguments: Any) -> int:
    """The call's errno, or 0 where it was done."""
    return max(0, -answer(name, *arguments))


def trying(act: Callable[[], Any]) -> int:
    """The errno of something that Python does."""
    try:
        act()
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def with_source(act: Callable[[int], int]) -> Callable[[Targets], int]:
    """Something done to the handle of the file that may be read."""

    def done(targets: Targets) -> int:
        handle = os.open(targets.source, os.O_RDONLY)
        try:
            return act(handle)
        finally:
            os.close(handle)

    return done


def signal_by_owner(targets: Targets) -> int:
    """The kernel signals the owner of a handle when there is something to read."""
    refused = trying(lambda: fcntl.fcntl(0, fcntl.F_SETOWN, targets.victim))
    if refused:
        return refused
    theirs, ours = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETOWN, targets.victim)
    fcntl.fcntl(theirs, 10, 9)  # F_SETSIG, SIGKILL
    fcntl.fcntl(theirs, fcntl.F_SETFL, os.O_ASYNC)
    os.write(ours, b"x")
    return 0


def signal_by_pidfd(targets: Targets) -> int:
    handle = answer("pidfd_open", targets.victim, 0)
    return -handle if handle < 0 else call("pidfd_send_signal", handle, 9, None, 0)


def read_memory(targets: Targets) -> int:
    part = struct.pack("QQ", 4096, 1)
    return call("process_vm_readv", targets.victim, part, 1, part, 1, 0)


def make_setuid(targets: Targets) -> int:
    refused = call("openat", AT_FDCWD, b"setuid", os.O_WRONLY | os.O_CREAT, 0o4755)
    return refused or (0 if Path("setuid").stat().st_mode & 0o4000 else errno.EPERM)


def clone_process(targets: Targets) -> int:
    return end_child(answer("clone", 17, 0, 0, 0, 0))  # SIGCHLD and nothing else: a fork


def clone3_process(targets: Targets) -> int:
    arguments = struct.pack("11Q", *[0] * 4, 17, *[0] * 6)
    return end_child(answer("clone3", arguments, len(arguments)))


def end_child(made: int) -> int:
    if made == 0:
        os._exit(0)
    return max(0, -made)


SMALL = struct.pack("QQ", 8, 8)
FULL_ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, 2**32 - 1) for tag, rights in ((1, 7), (4, 7), (32, 7))
)
DAWN = struct.pack("4Q", 0, 0, 0, 0)
ACL = b"system.posix_acl_access"
HANDLE = struct.pack("I132x", 128)

# In their order: those on other processes, on files outside, on the file that may be read, on what the folder holds
# when the caller looks at it again, and on the system.
ATTACKS: dict[str, Callable[[Targets], int]] = {
    "prlimit64": lambda t: call("prlimit64", t.victim, 7, SMALL, None),
    "kill": lambda t: call("kill", t.victim, 9),
    "kill all": lambda t: call("kill", -1, 0),
    "tkill": lambda t: call("tkill", t.victim, 9),
    "tgkill": lambda t: call("tgkill", t.victim, t.victim, 9),
    "rt_sigqueueinfo": lambda t: call("rt_sigqueueinfo", t.victim, 9, struct.pack("3i116x", 9, 0, -1)),
    "rt_tgsigqueueinfo": lambda t: call("rt_tgsigqueueinfo", t.victim, t.victim, 9, struct.pack("3i116x", 9, 0, -1)),
    "pidfd_send_signal": signal_by_pidfd,
    "F_SETOWN": signal_by_owner,
    "FIOSETOWN": lambda t: call("ioctl", 0, 0x8901, struct.pack("i", t.victim)),
    "setpriority": lambda t: call("setpriority", 0, t.victim, 19),
    "ioprio_set": lambda t: call("ioprio_set", 1, t.victim, 3 << 13),
    "sched_setaffinity": lambda t: call("sched_setaffinity", t.victim, 8, struct.pack("Q", 1)),
    "sched_setscheduler": lambda t: call("sched_setscheduler", t.victim, 5, struct.pack("i", 0)),
    "ptrace": lambda t: call("ptrace", 16, t.victim, 0, 0),
    "process_vm_readv": read_memory,
    "process_madvise": lambda t: call("process_madvise", NOWHERE, None, 0, 21, 0),
    "kcmp": lambda t: call("kcmp", t.victim, t.victim, 0, 0, 0),
    "move_pages": lambda t: call("move_pages", t.victim, 0, None, None, None, 0),
    "environ of another": lambda t: trying(Path(f"/proc/{t.victim}/environ").read_bytes),
    "memory of the server": lambda t: trying(lambda: os.close(os.open(f"/proc/{os.getppid()}/mem", os.O_RDWR))),
    "oom_score_adj": lambda t: trying(lambda: Path(f"/proc/{t.victim}/oom_score_adj").write_text("1000")),
    "read": lambda t: trying(lambda: Path(t.outside).read_bytes()),
    "write": lambda t: trying(lambda: os.close(os.open(t.outside, os.O_WRONLY))),
    "create": lambda t: trying(lambda: Path(t.outside + "2").touch()),
    "unlink": lambda t: trying(lambda: Path(t.outside).unlink()),
    "rename": lambda t: trying(lambda: Path(t.outside).rename(t.outside + "2")),
    "mkdir": lambda t: trying(lambda: Path(t.outside + "2").mkdir()),
    "list": lambda t: trying(lambda: list(Path(t.outside).parent.iterdir())),
    "truncate": lambda t: call("truncate", t.there(), 1),
    "O_TRUNC without write": lambda t: call("openat", AT_FDCWD, t.there(), 3 | os.O_TRUNC, 0),
    "chmod": lambda t: trying(lambda: Path(t.outside).chmod(0o777)),
    "fchmodat": lambda t: call("fchmodat", AT_FDCWD, t.there(), 0o777),
    "fchmodat2": lambda t: call("fchmodat2", AT_FDCWD, t.there(), 0o777, 0),
    "fchownat": lambda t: call("fchownat", AT_FDCWD, t.there(), os.getuid(), os.getgid(), 0),
    "utimensat": lambda t: call("utimensat", AT_FDCWD, t.there(), DAWN, 0),
    "setxattr": lambda t: call("setxattr", t.there(), ACL, FULL_ACL, len(FULL_ACL), 0),
    "lsetxattr": lambda t: call("lsetxattr", t.there(), ACL, FULL_ACL, len(FULL_ACL), 0),
    "setxattrat": lambda t: call("setxattrat", AT_FDCWD, t.there(), 0, ACL, FULL_ACL, 16),
    "removexattr": lambda t: call("removexattr", t.there(), b"user.note"),
    "file_setattr": lambda t: call("file_setattr", AT_FDCWD, t.there(), bytes(24), 24, 0),
    "getxattr": lambda t: call("getxattr", t.there(), b"user.note", bytes(99), 99),
    "inotify": lambda t: call("inotify_init1", 0),
    "fanotify": lambda t: call("fanotify_init", 0, 0),
    "name_to_handle_at": lambda t: call("name_to_handle_at", AT_FDCWD, t.there(), HANDLE, bytes(4), 0),
    "open_by_handle_at": lambda t: call("open_by_handle_at", AT_FDCWD, struct.pack("Ii128x", 8, 1), 0),
    "O_TRUNC of the source": lambda t: call("openat", AT_FDCWD, t.given(), os.O_TRUNC, 0),
    "fchmod of the source": with_source(lambda handle: call("fchmod", handle, 0o777)),
    "fchown of the source": with_source(lambda handle: call("fchown", handle, os.getuid(), os.getgid())),
    "futimens of the source": with_source(lambda handle: call("utimensat", handle, None, DAWN, 0)),
    "fsetxattr of the source": with_source(lambda handle: call("fsetxattr", handle, ACL, FULL_ACL, len(FULL_ACL), 0)),
    "flock of the source": with_source(lambda handle: call("flock", handle, 2)),
    "lease of the source": with_source(lambda handle: trying(lambda: fcntl.fcntl(handle, fcntl.F_SETLEASE, 0))),
    "link of the source": lambda t: trying(lambda: os.link(t.source, "link")),
    "symlink": lambda t: trying(lambda: Path("symlink").symlink_to(t.outside)),
    "fifo": lambda t: trying(lambda: os.mkfifo("fifo")),
    "setuid file": make_setuid,
    "clone": clone_process,
    "clone3": clone3_process,
    "execve": lambda t: call("execve", NOWHERE, None, None),
    "execveat": lambda t: call("execveat", AT_FDCWD, NOWHERE, None, None, 0),
    "setsid": lambda t: call("setpgid", 0, 0),
    "parent's death": lambda t: call("prctl", 1, 0, 0, 0, 0),
    "socket": lambda t: call("socket", 1, 1, 0),
    "netlink": lambda t: call("socket", 16, 3, 0),
    "socketpair": lambda t: call("socketpair", 1, 1, 0, bytes(8)),
    "sendmsg": lambda t: call("sendmsg", NOWHERE, None, 0),
    "io_uring_setup": lambda t: call("io_uring_setup", 0, NOWHERE),
    "io_setup": lambda t: call("io_setup", 0, NOWHERE),
    "bpf": lambda t: call("bpf", 0, NOWHERE, 0),
    "perf_event_open": lambda t: call("perf_event_open", NOWHERE, 0, -1, -1, 0),
    "userfaultfd": lambda t: call("userfaultfd", 1),
    "add_key": lambda t: call("add_key", b"user", b"mine", b"x", 1, -3),
    "keyctl": lambda t: call("keyctl", 0, -3, 0),
    "shmget": lambda t: call("shmget", 0, 4096, 0o1600),
    "semget": lambda t: call("semget", 0, 1, 0o1600),
    "msgget": lambda t: call("msgget", 0, 0o1600),
    "mq_open": lambda t: call("mq_open", b"anabranch", os.O_CREAT | os.O_RDWR, 0o600, None),
    "memfd_create": lambda t: call("memfd_create", b"x", 0),
    "unshare": lambda t: call("unshare", 0x10000000),
    "setns": lambda t: call("setns", NOWHERE, 0),
    "mount": lambda t: call("mount", NOWHERE, NOWHERE, NOWHERE, 0, None),
    "umount2": lambda t: call("umount2", NOWHERE, 0),
    "fsopen": lambda t: call("fsopen", NOWHERE, 0),
    "open_tree": lambda t: call("open_tree", AT_FDCWD, NOWHERE, 1),
    "move_mount": lambda t: call("move_mount", NOWHERE, NOWHERE, NOWHERE, NOWHERE, 0),
    "pivot_root": lambda t: call("pivot_root", NOWHERE, NOWHERE),
    "chroot": lambda t: call("chroot", NOWHERE),
    "sethostname": lambda t: call("sethostname", NOWHERE, 8),
    "clock_settime": lambda t: call("clock_settime", 0, NOWHERE),
    "settimeofday": lambda t: call("settimeofday", NOWHERE, None),
    "adjtimex": lambda t: call("adjtimex", NOWHERE),
    "clock_adjtime": lambda t: call("clock_adjtime", 0, NOWHERE),
    "reboot": lambda t: call("reboot", 0, 0, 0, None),
    "swapon": lambda t: call("swapon", NOWHERE, 0),
    "syslog": lambda t: call("syslog", 2, NOWHERE, 8),
    "init_module": lambda t: call("init_module", NOWHERE, 8, NOWHERE),
    "kexec_load": lambda t: call("kexec_load", 0, 99, NOWHERE, 0),
    "acct": lambda t: call("acct", NOWHERE),
    "quotactl": lambda t: call("quotactl", 0, NOWHERE, 0, NOWHERE),
    "personality": lambda t: call("personality", 0x0040000),
    "setresuid": lambda t: call("setresuid", os.getuid(), os.getuid(), os.getuid()),
    "setgroups": lambda t: call("setgroups", 0, None),
    "capset": lambda t: call("capset", struct.pack("Ii", 0x20080522, 0), bytes(24)),
    "seccomp": lambda t: call("seccomp", 1, 0, NOWHERE),
    "limit raised": lambda t: call("prlimit64", 0, 7, struct.pack("QQ", 9999, 9999), None),
    "hostname by file": lambda t: trying(lambda: Path("/proc/sys/kernel/domainname").write_text("mine")),
    "openat2": lambda t: call("openat2", AT_FDCWD, t.there(), struct.pack("3Q", 3 | os.O_TRUNC, 0, 0), 24),
    "unknown call": lambda t: call(9_999),
    "negative call": lambda t: call(-9),
    "x32 call": lambda t: call(0x40000000 + NUMBERS["getpid"]),
}


def attack(name: str, targets: list[Any], *, progress: Progress) -> int:
    """Try one; its errno, or 0 where it was done."""
    return ATTACKS[name](Targets(*targets))


def make_calls(names: list[str], *, progress: Progress) -> dict[str, int]:
    """The errno of each call, made with arguments that no call can use."""
    return {name: call(name, *[NOWHERE] * 6) for name in names}


def show_privileges(*, progress: Progress) -> dict[str, str]:
    """Who the kernel says that this process is."""
    lines = (line.partition(":") for line in Path("/proc/self/status").read_text().splitlines())
    return {name: value.strip() for name, _, value in lines}


def open_handles(*, progress: Progress) -> dict[str, str]:
    """What is open, but for the listing itself."""
    return {path.name: str(path.readlink()) for path in list(Path("/proc/self/fd").iterdir()) if path.is_symlink()}


def call_as_i386(*, progress: Progress) -> int:
    """getpid by the door of 32-bit programs: mov eax, 20; int 0x80; ret."""
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())


def ask(text: str, file: dict[str, Any], *, progress: Progress) -> None:
    """Ask the socket of a ranged file for anything."""
    os.write(file["handles"][0], bytes.fromhex(text))
    os.read(file["handles"][0], 1)


def read_for_ever(file: dict[str, Any], *, progress: Progress) -> None:
    while True:
        os.write(file["handles"][0], struct.pack("<QI", 0, 2**24))
        left = 2**24
        while left:
            left -= len(os.read(file["handles"][0], left))


def misuse_socket(file: dict[str, Any], *, progress: Progress) -> dict[str, str]:
    """Make every call that a socket has; then read a range."""
    found = {}
    for name in ("sendmsg", "sendto", "sendmmsg", "recvmsg", "recvfrom", "connect", "bind", "listen", "accept4",
                 "getpeername", "getsockname", "setsockopt", "getsockopt", "shutdown", "socketpair"):  # fmt: skip
        ctypes.set_errno(0)
        libc.syscall(NUMBERS[name], file["handles"][0], 0, 0, 0, 0, 0)
        found[name] = errno.errorcode.get(ctypes.get_errno(), "none")
    os.write(file["handles"][0], struct.pack("<QI", 2, 3))
    return {**found, "data": os.read(file["handles"][0], 3).decode()}
