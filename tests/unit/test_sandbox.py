"""The seccomp filter, evaluated as the kernel does it, on both architectures (TS2)."""

import errno
import re
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.sandbox.channel import Channel, MalformedMessage
from anabranch.sandbox.ranged import RangeServer
from anabranch.sandbox.seccomp import ALLOWED, allow_list, numbers_of

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL, REFUSE, ABSENT = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
# What aarch64 has only in a newer form, which is allowed as well.
ONLY_OLD = {
    "access": "faccessat", "dup2": "dup3", "lstat": "newfstatat", "mkdir": "mkdirat", "open": "openat", "poll": "ppoll",
    "readlink": "readlinkat", "rename": "renameat", "rmdir": "unlinkat", "select": "pselect6", "stat": "newfstatat",
    "time": "gettimeofday", "unlink": "unlinkat",
}  # fmt: skip
HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}
O_TRUNC, O_CREAT = 0o1000, 0o100
GLIBC_THREAD, MUSL_THREAD, FORK = 0x3D0F00, 0x7D0F00, 17
CLONE_THREAD, NEW_USER, NEW_NET = 0x10000, 0x10000000, 0x40000000


@pytest.fixture(params=ARCHITECTURES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def decide(machine: str, call: str | int, *arguments: int, architecture: int | None = None) -> int:
    """The filter's verdict, by interpreting its classic BPF instructions."""
    number = numbers_of(machine)[call] if isinstance(call, str) else call
    held = [each % 2**64 for each in (*arguments, *[0] * 6)][:6]
    shown = struct.pack("<IIQ6Q", number % 2**32, architecture or ARCHITECTURES[machine], 0, *held)
    program = [struct.unpack("=HBBI", each) for each in allow_list(machine, REFUSE)]
    place = value = 0
    while True:
        kind, when_true, when_false, constant = program[place]
        if kind == 0x06:
            return int(constant)
        if kind == 0x20:
            (value,) = struct.unpack_from("<I", shown, constant)
        elif kind == 0x54:
            value &= constant
        else:
            place += when_true if {0x15: value == constant, 0x25: value > constant}[kind] else when_false
        place += 1


def test_ts2_every_allowed_call_has_a_number_on_both_architectures() -> None:
    assert ALLOWED.keys() <= numbers_of("x86_64").keys()
    assert ALLOWED.keys() - numbers_of("aarch64").keys() == ONLY_OLD.keys()
    assert set(ONLY_OLD.values()) <= ALLOWED.keys() & numbers_of("aarch64").keys()


def test_ts2_the_numbers_are_those_of_the_kernel_s_headers(machine: str) -> None:
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip("the kernel's headers are not installed")
    kernel = in_header(header.read_text())
    ours = numbers_of(machine)
    assert {
        name: (ours[name], kernel[name]) for name in ours.keys() & kernel.keys() if ours[name] != kernel[name]
    } == {}
    assert ALLOWED.keys() & ours.keys() <= kernel.keys()


def in_header(text: str) -> Mapping[str, int]:
    numbers = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text))
    # On 64 bits these are what the header's own names for them say.
    numbers |= {"newfstatat": numbers.get("fstatat", numbers.get("newfstatat", ""))}
    return {name: int(number) for name, number in numbers.items() if number}


def test_ts2_the_filter_is_short_enough_for_the_kernel(machine: str) -> None:
    assert len(allow_list(machine, REFUSE)) <= 4096


@pytest.mark.parametrize(
    ("call", "arguments"),
    [("read", ()), ("ioctl", (0, 0x5401)), ("fcntl", (3, 1030)), ("prlimit64", (0,)), ("prctl", (15,)),
     ("clone", (GLIBC_THREAD,)), ("clone", (MUSL_THREAD,)), ("openat", (-100, 0, O_TRUNC | O_CREAT | 1, 0o644)),
     ("openat", (-100, 0, 0o2000000, 0))],
)  # fmt: skip
def test_ts2_what_files_memory_and_threads_need_is_allowed(machine: str, call: str, arguments: tuple[int, ...]) -> None:
    assert decide(machine, call, *arguments) == ALLOW


@pytest.mark.parametrize(
    ("call", "arguments"),
    [("clone", (FORK,)), ("clone", (GLIBC_THREAD & ~CLONE_THREAD,)), ("clone", (GLIBC_THREAD | NEW_USER,)),
     ("clone", (GLIBC_THREAD | NEW_NET,)), ("prlimit64", (1,)), ("prlimit64", (2**32 - 1,)), ("tgkill", (1, 1, 9)),
     ("tgkill", (0, 0, 9)), ("tgkill", (-1, 1, 9)), ("tkill", (1, 9)), ("fcntl", (3, 8)), ("fcntl", (3, 10)),
     ("fcntl", (3, 1024)), ("ioctl", (0, 0x5412)), ("ioctl", (0, 0x8901)), ("prctl", (1,)), ("prctl", (22,)),
     ("openat", (-100, 0, O_TRUNC, 0)), ("openat", (-100, 0, 3, 0)), ("openat", (-100, 0, 3 | O_TRUNC, 0)),
     ("openat", (-100, 0, O_CREAT | 1, 0o4755)), ("openat", (-100, 0, O_CREAT | 1, 0o2755)), ("setxattr", ()),
     ("truncate", ()), ("fchmod", ()), ("utimensat", ()), ("symlinkat", ()), ("linkat", ()), ("mknodat", ()),
     ("setpriority", ()), ("shmget", ()), ("socket", ()), ("sendmsg", ()), ("seccomp", ()), ("execve", ())],
)  # fmt: skip
def test_ts2_what_reaches_others_is_refused(machine: str, call: str, arguments: tuple[int, ...]) -> None:
    assert decide(machine, call, *arguments) == REFUSE


def test_ts2_what_is_not_known_is_absent_and_another_architecture_kills(machine: str) -> None:
    for call in ("clone3", "openat2", max(numbers_of(machine).values()) + 1, 9_999, -1, 0x40000000 + 39):
        assert decide(machine, call) == ABSENT
    for architecture in (0x40000003, *(each for name, each in ARCHITECTURES.items() if name != machine)):
        assert decide(machine, "read", architecture=architecture) == KILL


@pytest.mark.parametrize("line", ['{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', "[1]", "{", "[" * 50_000, "\xff"])
def test_s4_what_is_no_message_is_garbled(line: str) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(line.encode("latin-1") + b"\n")
        with pytest.raises(MalformedMessage):
            list(Channel(here).receive())


@pytest.mark.parametrize("lacking", ["descriptors", "threads"])
def test_a_source_that_cannot_be_served_leaves_no_socket_open(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []
    begun: list[threading.Thread] = []

    def pair() -> tuple[socket.socket, socket.socket]:
        if lacking == "descriptors" and len(made) == 4:
            raise OSError(errno.EMFILE, "too many")
        made.extend(ends := real())
        return ends

    def start(thread: threading.Thread) -> None:
        if len(begun) == 2:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        begin(thread)

    real, begin = socket.socketpair, threading.Thread.start
    monkeypatch.setattr(socket, "socketpair", pair)
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises((OSError, RuntimeError)), closing(RangeServer(Nothing())) as server:
        server.start()
    for thread in begun:
        thread.join()
    assert [end.fileno() for end in made if end.fileno() >= 0] == []


class Nothing:
    """A file that nobody reads."""

    name, size = "a.tif", 0

    def read(self, start: int, length: int) -> bytes:
        return b""
