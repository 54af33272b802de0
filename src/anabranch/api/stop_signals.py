"""Acts on stop signals at once: a server first waits for open responses to end."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["on_stop_signal"]


@contextmanager
def on_stop_signal(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` on the running loop on SIGTERM and SIGINT, too; the server's own handlers still run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def hear(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)
        if callable(before := former[signal.Signals(number)]):
            before(number, frame)

    ours = [number for number, handler in former.items() if callable(handler)]
    for number in ours:
        signal.signal(number, hear)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, former[number])
