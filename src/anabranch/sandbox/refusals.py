"""Who looks on when a sandbox's process is refused a system call: its server, which hears the call's name.

The kernel stops the process at the call, and asks; the answer is always no. What lies in the process's memory is not
looked at, so it can't lie about more than which call it wants.
"""

import fcntl
import os
import platform
import select
import socket
import struct
from collections.abc import Mapping

from anabranch.sandbox.calls import EPERM, end_reporting, filter_calls, numbers_of, report_calls

__all__ = ["Refusals", "filter_and_report"]

RECEIVE, ANSWER = 0xC0502100, 0xC0182101
ASKED = struct.Struct("=QIIiI56x")  # id, process, flags, number, architecture
MOST_ANSWERS = 100  # then nobody asks any more, and the kernel answers that there are no such calls


def filter_and_report(there: socket.socket) -> None:
    """Give up all calls but the allowed, in this process, and let the other end of the socket hear of refused ones."""
    handle = report_calls()
    if handle is None:
        filter_calls()
        return
    socket.send_fds(there, [b"x"], [handle])
    os.close(handle)
    end_reporting()


class Refusals:
    """The calls that one process was refused, by name."""

    def __init__(self, here: socket.socket) -> None:
        """What the process sends about itself comes by this socket, which is these refusals' from now on."""
        self._here = here
        self._asking: int | None = None
        self._answers = 0
        self.names: dict[str, None] = {}

    def handles(self) -> list[int]:
        """What to poll for something to read."""
        return [each for each in (self._here.fileno(), self._asking) if each is not None and each >= 0]

    def take(self, ready: Mapping[int, int]) -> None:
        """Hear what poll found to be there, and say no."""
        for handle in set(self.handles()) & ready.keys():
            if handle != self._asking:
                _, handles, _, _ = socket.recv_fds(self._here, 1, 1)
                self._asking = handles[0] if handles else None
                self._here.close()
            elif ready[handle] & select.POLLIN:
                self._refuse(handle)
            else:  # nobody is left who could ask
                self._hang_up()

    def close(self) -> None:
        """Hear no more."""
        self._here.close()
        self._hang_up()

    def _refuse(self, handle: int) -> None:
        asked = bytearray(ASKED.size)
        try:
            fcntl.ioctl(handle, RECEIVE, asked)
            call, _, _, number, _ = ASKED.unpack(asked)
            fcntl.ioctl(handle, ANSWER, struct.pack("=QqiI", call, 0, -EPERM, 0))
        except FileNotFoundError:  # it was killed while it waited
            return
        self.names[_name(number)] = None
        self._answers += 1
        if self._answers >= MOST_ANSWERS:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._asking is not None:
            os.close(self._asking)
            self._asking = None


def _name(number: int) -> str:
    names = {known: name for name, known in numbers_of(platform.machine()).items()}
    return names.get(number, f"number {number}")
