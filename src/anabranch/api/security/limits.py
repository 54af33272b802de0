"""Rate limits: requests, uploads, jobs and wrong keys; refusals say when to try again."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from anabranch.access import Principal
from anabranch.api.answers.errors import TooManyRequests
from anabranch.api.security.rates import Rate, network_of
from anabranch.errors import InputError
from anabranch.settings import Settings

__all__ = ["JobCount", "Limits"]

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
MB = 2**20
MAX_KNOWN_KEYS = 10_000
OrderT = TypeVar("OrderT")


@dataclass
class JobCount:
    """Counts the jobs of one request against the quota of their platform."""

    rate: Rate
    platform: str
    admitted: int = 0
    made: int = 0

    async def admit(
        self, orders: Sequence[OrderT], find_repeats: Callable[[Sequence[OrderT]], Awaitable[Sequence[bool]]]
    ) -> list[TooManyRequests | None]:
        """Count orders; TooManyRequests for each one over the platform's quota, unless its job exists."""
        is_scarce = 0 < self.rate.most < len(orders) or self.rate.wait_for(self.platform, len(orders)) > 0
        is_free = await find_repeats(orders) if is_scarce else [False] * len(orders)
        return [None if free else self._admit_one() for free in is_free]

    def _admit_one(self) -> TooManyRequests | None:
        if wait := self.rate.try_take(self.platform):
            return self._too_many(wait)
        self.admitted += 1
        return None

    def _too_many(self, wait: float) -> TooManyRequests:
        return TooManyRequests("quota.jobs", f"{self.platform} has submitted {self.rate.most} jobs within a day", wait)


class Limits:
    """The limits of one process: requests per key and address, wrong keys, and a platform's jobs and bytes per day."""

    def __init__(self, settings: Settings) -> None:
        self._by_key = Rate(settings.key_requests_per_minute, MINUTE)
        self._by_address = Rate(settings.address_requests_per_minute, MINUTE)
        self._wrong = Rate(settings.wrong_keys_per_minute, MINUTE)
        self._jobs = Rate(settings.platform_jobs_per_day, DAY)
        self._bytes = Rate(settings.platform_upload_mb_per_day * MB, DAY)
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def admit_address(self, address: str) -> None:
        """Count a request of an address."""
        if wait := self._by_address.try_take(network_of(address)):
            raise TooManyRequests("request.rate", "this address asks too often", wait)

    def admit_key(self, principal: Principal) -> None:
        """Count a request of a key, or of the bearer of a token."""
        if wait := self._by_key.try_take(principal.key_id or principal.actor):
            raise TooManyRequests("request.rate", "this key asks too often", wait)

    def check_guesses(self, address: str, digest: bytes) -> None:
        """Refuse keys from an address that sent too many wrong ones.

        Keys that were right recently pass: other callers may share the address.
        """
        wait = self._wrong.wait_for(network_of(address))
        if wait and digest not in self._known:
            raise TooManyRequests("auth.too_many", "this address has sent too many wrong keys", wait)

    def note_wrong(self, address: str) -> None:
        """Count a wrong key of an address."""
        self._wrong.take(network_of(address))

    def note_right(self, digest: bytes) -> None:
        """Remember a valid key, by the hash of its secret."""
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > MAX_KNOWN_KEYS:
            self._known.popitem(last=False)

    @contextmanager
    def counting_jobs(self, principal: Principal) -> "Iterator[JobCount]":
        """Count the jobs of a request, without those that existed or were refused."""
        count = JobCount(self._jobs if principal.is_remote else Rate(0, DAY), principal.platform)
        try:
            yield count
        finally:
            count.rate.take(principal.platform, count.made - count.admitted)

    async def count_bytes(
        self, principal: Principal, declared: int, pieces: AsyncIterator[bytes]
    ) -> AsyncGenerator[bytes, None]:
        """The pieces of an upload as they arrive. Its declared size is counted first, so that concurrent uploads are
        accepted or refused as a whole; what did not arrive is given back."""
        if not principal.is_remote:
            async for piece in pieces:
                yield piece
            return
        self._refuse_more_than_ever(declared)
        self._take_bytes(principal, declared)
        left = declared
        try:
            async for piece in pieces:
                self._take_bytes(principal, max(0, len(piece) - left))
                left = max(0, left - len(piece))
                yield piece
        finally:
            self._bytes.take(principal.platform, -left)

    def _refuse_more_than_ever(self, declared: int) -> None:
        if 0 < self._bytes.most < declared:
            detail = f"the file is larger than the {self._bytes.most // MB} MB that a platform may upload in a day"
            remedy = "Raise ANABRANCH_PLATFORM_UPLOAD_MB_PER_DAY, or send less."
            raise InputError("upload.too_large", detail, remedy=remedy)

    def _take_bytes(self, principal: Principal, size: int) -> None:
        if wait := self._bytes.try_take(principal.platform, size):
            detail = f"{principal.platform} may upload {self._bytes.most // MB} MB in a day"
            raise TooManyRequests("quota.bytes", detail, wait)
