"""A read-only cache of source files by SHA-256, shared by the processes of a machine."""

import errno
import fcntl
import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import disk_usage

from anabranch.canonical import sha256 as hash_text
from anabranch.errors import Conflict, Unavailable
from anabranch.storage.addresses import Address
from anabranch.storage.fsync import fsync
from anabranch.storage.ranged_object import source_changed
from anabranch.storage.tiers import Downloaded, Stat, Tier

__all__ = ["Sources"]

# Every file of the cache has this time of change: one that was written to by a link to it shows another.
SEALED_MTIME_NS = 946_684_800 * 10**9
NO_LINK_ERRNOS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)


class Sources:
    """A least-recently-used cache of bounded size. It may be deleted at any time."""

    def __init__(self, folder: Path, most: int) -> None:
        """In this folder, which is made when it is needed; 0 keeps nothing."""
        self._folder = folder
        self._most = most

    def fetch(
        self, tier: Tier, address: Address, target: Path, wanted: str | None = None, *, tag: str | None = None
    ) -> str:
        """Put an object at a path, read-only, through the cache; its SHA-256, which is the one wanted if any is.

        With a tag, only the version that has it: another one is `source.changed`.
        """
        with self._lock(hash_text(str(address))[:2]) as aside:
            stat = tier.stat(address.path)
            _check_tag(address, stat, tag)
            known = self._recall(address, stat)
            # A hash alone is no right to read: the cache holds files of all platforms (S1).
            if known is not None and known == (wanted or known) and self._link(known, target):
                return known
            self._make_room(address, stat.size)
            got = tier.download(address.path, aside)
            _check_tag(address, got.stat, tag)  # it may have been replaced since
            _check(address, got, wanted)
            self._keep(aside, got, target)
            self._remember(address, got)
        self._evict(got.stat.size)
        return got.sha256

    def clear(self) -> None:
        """Remove unfinished downloads of killed processes."""
        for left in (self._folder / "incoming").glob("*"):
            with suppress(BlockingIOError), self._lock(left.name, wait=False) as aside:
                aside.unlink(missing_ok=True)

    @contextmanager
    def _lock(self, name: str, *, wait: bool = True) -> Iterator[Path]:
        """One of a few locks, which its holder's death frees, and the file that only the holder writes."""
        for folder in ("locks", "incoming"):
            (self._folder / folder).mkdir(parents=True, exist_ok=True)
        with (self._folder / "locks" / name).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            aside = self._folder / "incoming" / name
            aside.unlink(missing_ok=True)
            try:
                yield aside
            finally:
                aside.unlink(missing_ok=True)

    def _keep(self, aside: Path, got: Downloaded, target: Path) -> None:
        aside.chmod(0o444)
        if got.stat.size > self._most:
            _move(aside, target)
            return
        fsync(aside)  # a crash of the machine must not leave a sealed file that is not whole
        os.utime(aside, ns=(time.time_ns(), SEALED_MTIME_NS))
        place = self._place(got.sha256)
        place.parent.mkdir(parents=True, exist_ok=True)
        _link(aside, target)
        aside.replace(place)

    def _link(self, digest: str, target: Path) -> bool:
        """Put a file of the cache at a path; False when it is not there, or not as it was put there."""
        place = self._place(digest)
        try:
            if place.stat().st_mtime_ns != SEALED_MTIME_NS:
                place.unlink()
                return False
            os.utime(place, ns=(time.time_ns(), SEALED_MTIME_NS))
            _link(place, target)
        except FileNotFoundError:  # another process evicted it
            return False
        return True

    def _recall(self, address: Address, stat: Stat) -> str | None:
        """The SHA-256 that this very version of an object had when it was fetched before."""
        with suppress(OSError):
            return self._note(address, stat).read_text() or None
        return None

    def _remember(self, address: Address, got: Downloaded) -> None:
        note = self._note(address, got.stat)
        note.parent.mkdir(parents=True, exist_ok=True)
        aside = note.with_suffix(f".{os.getpid()}")
        aside.write_text(got.sha256)
        aside.replace(note)

    def _note(self, address: Address, stat: Stat) -> Path:
        identity = f"{address}\n{stat.tag}\n{stat.size}\n{stat.modified.isoformat()}"
        return self._folder / "notes" / hash_text(identity)

    def _place(self, digest: str) -> Path:
        return self._folder / "files" / digest[:2] / digest

    def _make_room(self, address: Address, size: int) -> None:
        """Remove the files that were not used for longest until a new one fits; raise where it never does."""
        if disk_usage(self._folder).free >= size:
            return
        with self._lock("evict"):
            for _, _, file in sorted(self._held()):
                if disk_usage(self._folder).free >= size:
                    break
                self._remove(file)
            self._total_file.unlink(missing_ok=True)
        if (free := disk_usage(self._folder).free) < size:
            raise Unavailable(
                "storage.full",
                f"{address} has {size:,} bytes, and {self._folder}, where it is copied to, has {free:,} free",
                remedy="Free disk space there, or move ANABRANCH_HOME to a larger disk; then run the job again.",
            )

    def _evict(self, added: int) -> None:
        """Remove what was used longest ago; while the noted sum of all sizes is small enough, no file is looked at."""
        with self._lock("evict"):
            total = self._noted_total() + added
            if total > self._most:
                held = sorted(self._held())
                total = sum(size for _, size, _ in held)
                for _, size, file in held:
                    if total <= self._most:
                        break
                    self._remove(file)
                    total -= size
            self._total_file.write_text(str(total))

    def _noted_total(self) -> float:
        try:
            return int(self._total_file.read_text())
        except (OSError, ValueError):
            return math.inf  # all files must be looked at

    @property
    def _total_file(self) -> Path:
        return self._folder / "total"

    def _remove(self, file: Path) -> None:
        file.unlink(missing_ok=True)
        self._forget(file.name)

    def _held(self) -> Iterator[tuple[int, int, Path]]:
        for file in (self._folder / "files").glob("*/*"):
            with suppress(FileNotFoundError):
                found = file.stat()
                yield found.st_atime_ns, found.st_size, file

    def _forget(self, digest: str) -> None:
        for note in (self._folder / "notes").glob("*"):
            with suppress(FileNotFoundError):
                if note.read_text() == digest:
                    note.unlink()


def _check_tag(address: Address, found: Stat, tag: str | None) -> None:
    if tag not in (None, found.tag):
        raise source_changed(str(address))


def _check(address: Address, got: Downloaded, wanted: str | None) -> None:
    if wanted not in (None, got.sha256):
        raise Conflict(
            "storage.checksum",
            f"{address} has the SHA-256 {got.sha256}, and not {wanted}, which it was said to have",
            remedy="See whether it was replaced; submit the job again with what is there now.",
        )


def _link(place: Path, target: Path) -> None:
    """A hard link, or a copy where there can be none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(place, target)
    except OSError as error:
        if error.errno not in NO_LINK_ERRNOS:
            raise
        shutil.copyfile(place, target)
        target.chmod(0o444)


def _move(aside: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.move(aside, target)
