"""Compares stored objects with the database: finds missing, damaged and unreferenced ones."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from itertools import groupby, islice
from typing import Protocol

from anabranch.errors import NotFound
from anabranch.storage.attempt_keys import JOBS_FOLDER, parse_key, segment
from anabranch.storage.large_results import RESULTS_FOLDER
from anabranch.storage.tiers import Stat, Storage

__all__ = ["Audit", "Fault", "Finding", "JobRecord", "Published", "PurgedObjects", "Records"]

WORK_SCHEME = "work://"
JOB_TIERS = ("silver", "gold")
BATCH_JOBS = 100


class Fault(StrEnum):
    """What is wrong with an object."""

    MISSING = "missing"  # published or a task's result, and not there
    DAMAGED = "damaged"  # published, and of another size or content
    UNACCEPTED = "unaccepted"  # of a job that has ended, and in none of its results
    ORPHAN = "orphan"  # of a job that is not known any more


@dataclass(frozen=True)
class Finding:
    """An object with which something is wrong."""

    fault: Fault
    address: str
    size: int
    modified: datetime | None = None

    @property
    def is_unreferenced(self) -> bool:
        """Whether nothing refers to it."""
        return self.fault in (Fault.UNACCEPTED, Fault.ORPHAN)

    @property
    def in_work(self) -> bool:
        """Whether it is in the work area."""
        return self.address.startswith(WORK_SCHEME)


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
    """The records of objects in the database."""

    def files(self) -> Iterator[Published]:
        """The objects of all publications, former and withdrawn ones too, until retention removes them."""

    def results(self) -> Iterator[tuple[str, int]]:
        """All results that were put aside: their keys in the work area, and how many bytes they have."""

    def published(self, addresses: Collection[str]) -> set[str]:
        """Those of these addresses that a publication uses."""

    def jobs(self, job_ids: Collection[str]) -> dict[str, JobRecord]:
        """Those of these jobs that are known."""


Opened = AbstractContextManager[Records]


class Audit:
    """Compares the tiers with the database; both may be at work meanwhile."""

    def __init__(self, storage: Storage, records: Records) -> None:
        self._storage = storage
        self._records = records

    def find(self, *, checksums: bool = False) -> Iterator[Finding]:
        """Everything that is wrong; with checksums, all that is published is read whole."""
        yield from self._find_bad_outputs(checksums=checksums)
        yield from self._find_bad_results()
        for tier in JOB_TIERS:
            for jobs in _batches(self._walk(tier)):
                yield from self._find_unreferenced(tier, jobs)
        for folder in (RESULTS_FOLDER, JOBS_FOLDER):
            for jobs in _batches(_by_job(self._storage.work.walk(folder))):
                yield from self._find_unreferenced_work(jobs)

    def sweep(self, findings: Sequence[Finding], age: timedelta) -> int:
        """Remove the unreferenced objects that were not modified for this long; returns how many."""
        before = datetime.now(UTC) - age
        spare = [found for found in findings if found.is_unreferenced and found.modified and found.modified <= before]
        self._storage.work.delete([found.address.removeprefix(WORK_SCHEME) for found in spare if found.in_work])
        self._storage.delete([found.address for found in spare if not found.in_work])
        return len(spare)

    def _find_bad_outputs(self, *, checksums: bool) -> Iterator[Finding]:
        for output in self._records.files():
            try:
                stat = self._storage.stat(output.address)
            except NotFound:
                yield Finding(Fault.MISSING, output.address, output.size)
            else:
                if stat.size != output.size or (checksums and self._hash(output.address) != output.sha256):
                    yield Finding(Fault.DAMAGED, output.address, stat.size, stat.modified)

    def _find_bad_results(self) -> Iterator[Finding]:
        for key, size in self._records.results():
            try:
                stat = self._storage.work.stat(key)
            except NotFound:
                yield Finding(Fault.MISSING, f"{WORK_SCHEME}{key}", size)
            else:
                if stat.size != size:
                    yield Finding(Fault.DAMAGED, f"{WORK_SCHEME}{key}", stat.size, stat.modified)

    def _hash(self, address: str) -> str:
        digest = sha256()
        for piece in self._storage.stream(address):
            digest.update(piece)
        return digest.hexdigest()

    def _walk(self, tier: str) -> Iterator[tuple[str, list[Stat]]]:
        """The objects of each job; keys come in order, so those of a job come together."""
        found = (
            (key.job, stat) for stat in self._storage.walk(f"{tier}://{JOBS_FOLDER}") if (key := parse_key(stat.key))
        )
        for job, pairs in groupby(found, key=lambda pair: pair[0]):
            yield job, [stat for _, stat in pairs]

    def _find_unreferenced(self, tier: str, jobs: Sequence[tuple[str, list[Stat]]]) -> Iterator[Finding]:
        # After the objects were listed: one that was published meanwhile has its row by now.
        known = self._records.jobs([job for job, _ in jobs])
        published = self._records.published([f"{tier}://{stat.key}" for _, stats in jobs for stat in stats])
        for job, stats in jobs:
            if fault := _judge(known.get(job)):
                kept = published | (known[job].addresses if job in known else frozenset())
                addressed = ((f"{tier}://{stat.key}", stat) for stat in stats)
                yield from (Finding(fault, at, stat.size, stat.modified) for at, stat in addressed if at not in kept)

    def _find_unreferenced_work(self, jobs: Sequence[tuple[str, list[Stat]]]) -> Iterator[Finding]:
        """The unreferenced objects of the work area, but for work files of ended jobs: workers remove those."""
        known = self._records.jobs([job for job, _ in jobs])
        for job, stats in jobs:
            record = known.get(job)
            fault = Fault.ORPHAN if record is None else Fault.UNACCEPTED
            for stat in stats if record is None or record.ended else ():
                unreferenced = record is None or (
                    stat.key.startswith(f"{RESULTS_FOLDER}/") and stat.key not in record.results
                )
                if unreferenced:
                    yield Finding(fault, f"{WORK_SCHEME}{stat.key}", stat.size, stat.modified)


class PurgedObjects:
    """Removes the unpublished objects of purged jobs."""

    def __init__(self, open_storage: Callable[[], Storage], open_records: Callable[[], Opened]) -> None:
        """Both are opened on each call."""
        self._open_storage = open_storage
        self._open_records = open_records

    def remove(self, job_id: str, most: int) -> int:
        """Remove up to `most` objects of a job; returns how many, and 0 when there are none."""
        storage = self._open_storage()
        found = (
            f"{tier}://{stat.key}"
            for tier in JOB_TIERS
            for stat in storage.walk(f"{tier}://{JOBS_FOLDER}/{segment(job_id)}")
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
    """The fault of an unreferenced object of a job; None while a result may still refer to it."""
    if record is None:
        return Fault.ORPHAN
    return Fault.UNACCEPTED if record.ended and not record.put_aside else None


def _batches(jobs: Iterator[tuple[str, list[Stat]]]) -> Iterator[list[tuple[str, list[Stat]]]]:
    while batch := list(islice(jobs, BATCH_JOBS)):
        yield batch
