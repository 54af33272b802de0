"""Rows and objects compared: what is published and gone, and what is there and nobody's."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from itertools import groupby, islice
from typing import Protocol

from anabranch.engine.attempt_keys import parse_key
from anabranch.engine.errors import NotFound
from anabranch.engine.storage import Stat, Storage
from anabranch.engine.work import segment

__all__ = ["Audit", "Fault", "Finding", "JobRecord", "Leftovers", "Published", "Records"]

FOLDER = "jobs"
WRITTEN = ("silver", "gold")
JOBS_AT_ONCE = 100


class Fault(StrEnum):
    """What is wrong with an object."""

    MISSING = "missing"  # published, and not there
    DAMAGED = "damaged"  # published, and of another size or content
    LOSER = "loser"  # of a job that has ended, and in none of its results
    ORPHAN = "orphan"  # of a job that is not known any more


@dataclass(frozen=True)
class Finding:
    """An object with which something is wrong."""

    fault: Fault
    address: str
    size: int
    modified: datetime | None = None

    @property
    def can_go(self) -> bool:
        """Whether nothing refers to it."""
        return self.fault in (Fault.LOSER, Fault.ORPHAN)


@dataclass(frozen=True)
class JobRecord:
    """A job: whether it has ended, whether results of its tasks lie elsewhere, and the addresses in the others."""

    ended: bool
    put_aside: bool
    addresses: frozenset[str]


class Published(Protocol):
    """An object that readers may fetch."""

    @property
    def address(self) -> str:
        """Where it is."""

    @property
    def size(self) -> int:
        """How many bytes it has."""

    @property
    def sha256(self) -> str:
        """The hash of them."""


class Records(Protocol):
    """What the database says of objects."""

    def outputs(self) -> Iterator[Published]:
        """All that is published."""

    def published(self, addresses: Collection[str]) -> set[str]:
        """Those of these addresses that are published."""

    def jobs(self, job_ids: Collection[str]) -> dict[str, JobRecord]:
        """Those of these jobs that are known."""


Opened = AbstractContextManager[Records]


class Audit:
    """Compares the tiers with the database; both may be at work meanwhile."""

    def __init__(self, storage: Storage, records: Records) -> None:
        """Nothing is looked at yet."""
        self._storage = storage
        self._records = records

    def find(self, *, checksums: bool = False) -> Iterator[Finding]:
        """Everything that is wrong; with checksums, all that is published is read whole."""
        yield from self._find_lost(checksums=checksums)
        for tier in WRITTEN:
            for jobs in _batches(self._walk(tier)):
                yield from self._find_spare(tier, jobs)

    def sweep(self, findings: Sequence[Finding], age: timedelta) -> int:
        """Remove what nothing refers to and nobody has touched for so long; how many objects."""
        before = datetime.now(UTC) - age
        spare = [found for found in findings if found.can_go and found.modified and found.modified <= before]
        self._storage.delete([found.address for found in spare])
        return len(spare)

    def _find_lost(self, *, checksums: bool) -> Iterator[Finding]:
        for output in self._records.outputs():
            try:
                stat = self._storage.stat(output.address)
            except NotFound:
                yield Finding(Fault.MISSING, output.address, output.size)
            else:
                if stat.size != output.size or (checksums and self._hash(output.address) != output.sha256):
                    yield Finding(Fault.DAMAGED, output.address, stat.size, stat.modified)

    def _hash(self, address: str) -> str:
        digest = sha256()
        for piece in self._storage.stream(address):
            digest.update(piece)
        return digest.hexdigest()

    def _walk(self, tier: str) -> Iterator[tuple[str, list[Stat]]]:
        """The objects of each job; keys come in order, so those of a job come together."""
        found = ((key.job, stat) for stat in self._storage.walk(f"{tier}://{FOLDER}") if (key := parse_key(stat.key)))
        for job, pairs in groupby(found, key=lambda pair: pair[0]):
            yield job, [stat for _, stat in pairs]

    def _find_spare(self, tier: str, jobs: Sequence[tuple[str, list[Stat]]]) -> Iterator[Finding]:
        # Before the rows: what is published while we look has its row by then.
        known = self._records.jobs([job for job, _ in jobs])
        published = self._records.published([f"{tier}://{stat.key}" for _, stats in jobs for stat in stats])
        for job, stats in jobs:
            if fault := _judge(known.get(job)):
                kept = published | (known[job].addresses if job in known else frozenset())
                addressed = ((f"{tier}://{stat.key}", stat) for stat in stats)
                yield from (Finding(fault, at, stat.size, stat.modified) for at, stat in addressed if at not in kept)


class Leftovers:
    """The objects of purged jobs, but for those that are published."""

    def __init__(self, open_storage: Callable[[], Storage], open_records: Callable[[], Opened]) -> None:
        """Both are opened when there is something to look at."""
        self._open_storage = open_storage
        self._open_records = open_records

    def remove(self, job_id: str, most: int) -> int:
        """Remove up to so many of a job's; how many, and 0 when there are none."""
        storage = self._open_storage()
        found = (
            f"{tier}://{stat.key}" for tier in WRITTEN for stat in storage.walk(f"{tier}://{FOLDER}/{segment(job_id)}")
        )
        while batch := list(islice(found, most)):
            with self._open_records() as records:
                kept = records.published(batch)
            if spare := [address for address in batch if address not in kept]:
                storage.delete(spare)
                return len(spare)
        return 0


def _judge(record: JobRecord | None) -> Fault | None:
    """What an object of a job is that nothing refers to; None where something still may."""
    if record is None:
        return Fault.ORPHAN
    return Fault.LOSER if record.ended and not record.put_aside else None


def _batches(jobs: Iterator[tuple[str, list[Stat]]]) -> Iterator[list[tuple[str, list[Stat]]]]:
    while batch := list(islice(jobs, JOBS_AT_ONCE)):
        yield batch
