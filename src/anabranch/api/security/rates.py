"""How often something may happen: by the minute or by the day, kept in memory, for a bounded number of callers."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta

__all__ = ["Rate", "network_of"]

MAX_CALLERS = 10_000


class Rate:
    """An allowance for each caller, which is full at first and fills up evenly; 0 is no limit.

    The callers that were seen last are known: one that is forgotten has a full allowance again.
    """

    def __init__(self, most: int, every: timedelta, now: Callable[[], float] = time.monotonic) -> None:
        """`most` in each span of time."""
        self.most = most
        self._per_second = most / every.total_seconds()
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_for(self, caller: str, amount: float = 1) -> float:
        """The seconds until this caller has so much left; 0 where it has."""
        if not self.most:
            return 0.0
        missing = min(amount, self.most) - self._look(caller)
        return max(0.0, missing / self._per_second)

    def take(self, caller: str, amount: float = 1) -> None:
        """Use some of the allowance; what is missing is owed."""
        if not self.most:
            return
        self._left[caller] = (self._look(caller) - amount, self._now())
        self._left.move_to_end(caller)
        if len(self._left) > MAX_CALLERS:
            self._left.popitem(last=False)

    def try_take(self, caller: str, amount: float = 1) -> float:
        """Use some of the allowance where there is enough; the seconds to wait for it where there is not."""
        wait = self.wait_for(caller, amount)
        if not wait:
            self.take(caller, amount)
        return wait

    def _look(self, caller: str) -> float:
        left, at = self._left.get(caller, (float(self.most), self._now()))
        return min(float(self.most), left + (self._now() - at) * self._per_second)


def network_of(address: str) -> str:
    """Whom an address counts for: an IPv4 address is one caller, and one caller has 2**64 of IPv6."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return address
    return str(known.ipv4_mapped or ipaddress.ip_network((known, 64), strict=False))
