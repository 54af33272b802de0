"""Reports the system calls that a sandboxed process was refused to its server, by name.

The kernel stops the process at the call and asks the server, which always refuses. The server does not read the
process's memory, so the process can't deceive it about anything but the call's number.
"""

import fcntl
import os
import platform
import select
import socket
import struct
from collections.abc import Mapping

from anabranch.sandbox.seccomp import EPERM, end_reporting, filter_calls, numbers_of, report_calls

__all__ = ["RefusedCalls", "filter_and_report"]

RECEIVE, ANSWER = 0xC0502100, 0xC0182101
ASKED = struct.Struct("=QIIiI56x")  # id, process, flags, number, architecture
MAX_REFUSALS = 100  # after that the handle is closed, and the kernel returns ENOSYS


def filter_and_report(peer: socket.socket) -> None:
    """Block all calls that are not allowed, in this process, and report refused ones to the other end of the socket."""
    handle = report_calls()
    if handle is None:
        filter_calls()
        return
    socket.send_fds(peer, [b"x"], [handle])
    os.close(handle)
    end_reporting()


class RefusedCalls:
    """The refused calls of one process, by name."""

    def __init__(self, end: socket.socket) -> None:
        """The process sends its handle over this socket, which this object owns."""
        self._socket = end
        self._listener: int | None = None
        self._answers = 0
        self.names: dict[str, None] = {}

    def handles(self) -> list[int]:
        """The handles to poll for reading."""
        return [each for each in (self._socket.fileno(), self._listener) if each is not None and each >= 0]

    def refuse_ready(self, ready: Mapping[int, int]) -> None:
        """Handle what poll found ready, and refuse the calls."""
        for handle in set(self.handles()) & ready.keys():
            if handle != self._listener:
                _, handles, _, _ = socket.recv_fds(self._socket, 1, 1)
                self._listener = handles[0] if handles else None
                self._socket.close()
            elif ready[handle] & select.POLLIN:
                self._refuse(handle)
            else:  # the process is gone
                self._close_listener()

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        self._close_listener()

    def _refuse(self, handle: int) -> None:
        asked = bytearray(ASKED.size)
        try:
            fcntl.ioctl(handle, RECEIVE, asked)
            call, _, _, number, _ = ASKED.unpack(asked)
            fcntl.ioctl(handle, ANSWER, struct.pack("=QqiI", call, 0, -EPERM, 0))
        except FileNotFoundError:  # the process was killed while it waited
            return
        self.names[_name(number)] = None
        self._answers += 1
        if self._answers >= MAX_REFUSALS:
            self._close_listener()

    def _close_listener(self) -> None:
        if self._listener is not None:
            os.close(self._listener)
            self._listener = None


def _name(number: int) -> str:
    names = {known: name for name, known in numbers_of(platform.machine()).items()}
    return names.get(number, f"number {number}")
