"""The signals that ask a supervisor to stop, and SIGCHLD, which wakes it when a child dies."""

import select
import signal
import socket
from types import FrameType, TracebackType
from typing import Self

__all__ = ["Interrupted", "StopSignals"]

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interrupted(BaseException):
    """A stop signal arrived during the start, which can still be abandoned."""


class StopSignals:
    """Stop signals: during the start the first is raised; all are counted in `received`."""

    def __enter__(self) -> Self:
        self.received = 0
        self._raising = True
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        # An ignored signal stays ignored, as under nohup.
        wanted = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._former = {number: signal.signal(number, self._receive) for number in wanted}
        self._former[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, self._wake)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._reader.close()
        self._writer.close()

    def stop_raising(self) -> None:
        """From now on, signals are only counted."""
        self._raising = False

    def wait(self, seconds: float) -> None:
        """Sleep until a signal arrives or the time is over."""
        if select.select([self._reader], [], [], max(0.0, seconds))[0]:
            self._reader.recv(4096)

    def _wake(self, number: int, frame: FrameType | None) -> None:
        """A signal without a handler would not end `wait`."""

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received += 1
        if self._raising:
            self._raising = False
            raise Interrupted
