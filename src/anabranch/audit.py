"""Rows and objects compared: what is published and gone, and what is there and nobody's."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from itertools import groupby, islice
from typing import Protocol

from anabranch.errors import NotFound
from anabranch.storage.attempt_keys import parse_key, segment
from anabranch.storage.tiers import Stat, Storage

__all__ = ["Audit", "Fault", "Finding", "JobRecord", "Leftovers", "Published", "Records"]

FOLDER = "jobs"
RESULTS = "results"
WORK = "work://"
WRITTEN = ("silver", "gold")
JOBS_AT_ONCE = 100


class Fault(StrEnum):
    """What is wrong with an object."""

    MISSING = "missing"  # published or a task's result, and not there
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

    @property
    def in_work(self) -> bool:
        """Whether it is in the work area."""
        return self.address.startswith(WORK)


@dataclass(frozen=True)
class JobRecord:
    """A job: whether it has ended, whether results of its tasks were put aside, the addresses in the others, and the
    keys of those in the work area."""

    ended: bool
    put_aside: bool
    addresses: frozenset[str]
    results: frozenset[str]


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

    def results(self) -> Iterator[tuple[str, int]]:
        """All results that were put aside: their keys in the work area, and how many bytes they have."""

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
        yield from self._find_lost_results()
        for tier in WRITTEN:
            for jobs in _batches(self._walk(tier)):
                yield from self._find_spare(tier, jobs)
        for folder in (RESULTS, FOLDER):
            for jobs in _batches(_by_job(self._storage.work.walk(folder))):
                yield from self._find_spare_work(jobs)

    def sweep(self, findings: Sequence[Finding], age: timedelta) -> int:
        """Remove what nothing refers to and nobody has touched for so long; how many objects."""
        before = datetime.now(UTC) - age
        spare = [found for found in findings if found.can_go and found.modified and found.modified <= before]
        self._storage.work.delete([found.address.removeprefix(WORK) for found in spare if found.in_work])
        self._storage.delete([found.address for found in spare if not found.in_work])
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

    def _find_lost_results(self) -> Iterator[Finding]:
        for key, size in self._records.results():
            try:
                stat = self._storage.work.stat(key)
            except NotFound:
                yield Finding(Fault.MISSING, f"{WORK}{key}", size)
            else:
                if stat.size != size:
                    yield Finding(Fault.DAMAGED, f"{WORK}{key}", stat.size, stat.modified)

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

    def _find_spare_work(self, jobs: Sequence[tuple[str, list[Stat]]]) -> Iterator[Finding]:
        """What is in the work area and nobody's; the files of a job that has ended go by themselves."""
        known = self._records.jobs([job for job, _ in jobs])
        for job, stats in jobs:
            record = known.get(job)
            fault = Fault.ORPHAN if record is None else Fault.LOSER
            for stat in stats if record is None or record.ended else ():
                is_spare = record is None or (stat.key.startswith(f"{RESULTS}/") and stat.key not in record.results)
                if is_spare:
                    yield Finding(fault, f"{WORK}{stat.key}", stat.size, stat.modified)


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


def _by_job(found: Iterator[Stat]) -> Iterator[tuple[str, list[Stat]]]:
    for job, stats in groupby(found, key=lambda stat: stat.key.split("/")[1]):
        yield job, list(stats)


def _judge(record: JobRecord | None) -> Fault | None:
    """What an object of a job is that nothing refers to; None where something still may."""
    if record is None:
        return Fault.ORPHAN
    return Fault.LOSER if record.ended and not record.put_aside else None


def _batches(jobs: Iterator[tuple[str, list[Stat]]]) -> Iterator[list[tuple[str, list[Stat]]]]:
    while batch := list(islice(jobs, JOBS_AT_ONCE)):
        yield batch
