"""Run times of handlers, which decide how many of their tasks a worker prefetches."""

from collections.abc import Mapping
from datetime import timedelta

__all__ = ["RunTimes"]

MAX_FAST_TIME = timedelta(milliseconds=50)
PREFETCH_TIME = timedelta(milliseconds=100)
MAX_PREFETCHED = 500


class RunTimes:
    """A moving mean of each handler's run time."""

    def __init__(self) -> None:
        """Nothing is known yet: a handler is slow until it was seen."""
        self._means: dict[str, float] = {}

    def note(self, handler: str, seconds: float) -> None:
        """Learn from one run."""
        mean = self._means.get(handler)
        self._means[handler] = seconds if mean is None else mean + 0.1 * (seconds - mean)

    def is_fast(self, handler: str) -> bool:
        """Whether tasks of this handler may be prefetched."""
        return self._means.get(handler, 1.0) < MAX_FAST_TIME.total_seconds()

    def work(self, handlers: Mapping[str, int]) -> float:
        """How many seconds these tasks would take."""
        return sum(self._means.get(handler, 1.0) * tasks for handler, tasks in handlers.items())

    def in_time(self, handler: str, time: timedelta) -> int:
        """How many tasks of a handler take about this time; at least one."""
        return max(1, min(MAX_PREFETCHED, int(time.total_seconds() / max(self._means.get(handler, 1.0), 1e-6))))

    def allowances(self) -> dict[str, int]:
        """How many tasks of each fast handler may be taken at once."""
        return {handler: self.in_time(handler, PREFETCH_TIME) for handler in self._means if self.is_fast(handler)}
