"""Rate limits by the minute or day, in memory, for a bounded number of callers."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta

__all__ = ["Rate", "network_of"]

MAX_CALLERS = 10_000


class Rate:
    """A token bucket for each caller, full at first; 0 means no limit.

    Only the most recent callers are remembered; a forgotten one starts with a full bucket.
    """

    def __init__(self, most: int, every: timedelta, now: Callable[[], float] = time.monotonic) -> None:
        """`most` per time span."""
        self.most = most
        self._per_second = most / every.total_seconds()
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_for(self, caller: str, amount: float = 1) -> float:
        """The seconds until the caller has this amount; 0 if it has it now."""
        if not self.most:
            return 0.0
        missing = min(amount, self.most) - self._look(caller)
        return max(0.0, missing / self._per_second)

    def take(self, caller: str, amount: float = 1) -> None:
        """Take an amount; the balance may become negative."""
        if not self.most:
            return
        self._left[caller] = (self._look(caller) - amount, self._now())
        self._left.move_to_end(caller)
        if len(self._left) > MAX_CALLERS:
            self._left.popitem(last=False)

    def try_take(self, caller: str, amount: float = 1) -> float:
        """Take an amount if there is enough and return 0, else the seconds to wait for it."""
        wait = self.wait_for(caller, amount)
        if not wait:
            self.take(caller, amount)
        return wait

    def _look(self, caller: str) -> float:
        left, at = self._left.get(caller, (float(self.most), self._now()))
        return min(float(self.most), left + (self._now() - at) * self._per_second)


def network_of(address: str) -> str:
    """The network that counts as one caller: an IPv4 address, or a /64 of IPv6."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return address
    return str(known.ipv4_mapped or ipaddress.ip_network((known, 64), strict=False))
