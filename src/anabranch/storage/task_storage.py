"""`ctx.storage`: fetches sources into scratch, and writes outputs under keys of the attempt."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from anabranch.canonical import sha256 as hash_text
from anabranch.errors import Changed
from anabranch.storage.addresses import Address, check_path, parse_address, parse_folder
from anabranch.storage.attempt_keys import AttemptKey, attempt_key
from anabranch.storage.ranged_object import DEFAULT_CACHE_BYTES, Ranges, source_changed
from anabranch.storage.read_access import ReadAccess
from anabranch.storage.source_cache import Sources
from anabranch.storage.tiers import PAGE_KEYS, Page, Stat, Storage

__all__ = ["Output", "Staged", "TaskStorage", "Writer"]

MAX_NAME_BYTES = 200
UPLOADS = 4  # at once, of a folder
DEFAULT_MEDIA_TYPE = "application/octet-stream"


@dataclass(frozen=True)
class Output:
    """A file that an attempt wrote; the accepted result makes it an output of its job."""

    address: str
    size: int
    sha256: str
    media_type: str


@dataclass(frozen=True)
class Staged:
    """An object that this machine has."""

    path: Path
    size: int
    sha256: str


@dataclass(frozen=True)
class Writer:
    """The attempt that writes."""

    job_id: str
    node: str
    index: int | str
    attempt: int


class TaskStorage:
    """`ctx.storage`; its methods block, so an async handler calls them in a thread.

    What the task may not read is `storage.not_readable`, whether it exists or not; listings are without it.
    """

    def __init__(
        self, storage: Storage, sources: Sources, writer: Writer, scratch: Callable[[], Path], access: ReadAccess
    ) -> None:
        self._storage = storage
        self._sources = sources
        self._writer = writer
        self._scratch = scratch
        self._access = access

    def fetch(self, address: str, sha256: str | None = None) -> Path:
        """The object as a read-only file in scratch, alone in its folder, brought to this machine at most once.

        Conflict when it has another SHA-256 than the given one, or changed while it was read.
        """
        return self.stage(address, sha256).path

    def stage(self, address: str, sha256: str | None = None, *, tag: str | None = None) -> Staged:
        """The same, with its size and its SHA-256; Permanent when it is not the version with this tag any more."""
        at, only = self._open(address)
        if only is not None and tag not in (None, only):
            raise source_changed(address)
        place, tag = self._scratch() / "sources" / _place(at), tag or only
        found = self._sources.fetch(self._storage.tier(at.tier), at, place, sha256.lower() if sha256 else None, tag=tag)
        return Staged(place, place.stat().st_size, found)

    def open_ranges(self, address: str, tag: str, *, cache_bytes: int = DEFAULT_CACHE_BYTES) -> Ranges:
        """The version of an object that had this tag, to be read by ranges and not brought to this machine.

        `source.changed`, now or at a later read, when it was replaced.
        """
        found = self.stat(address)
        if found.tag != tag:
            raise source_changed(address)
        return Ranges(self._storage, parse_address(address), found, cache_bytes=cache_bytes)

    def is_remote(self, address: str) -> bool:
        """Whether an object is in a store that is not a folder of this machine."""
        tier, key = self._storage.find(address)
        return tier.locate(key) is None

    def put(
        self, path: Path, *, tier: str = "silver", name: str | None = None, media_type: str = DEFAULT_MEDIA_TYPE
    ) -> Output:
        """Write a file to a tier under a key of this attempt; where it is, its size and its SHA-256."""
        return self._upload(path, Address(tier, str(self._new_key(name or path.name))), media_type)

    def put_folder(
        self, folder: Path, *, tier: str = "silver", media_type: Callable[[str], str] = lambda _: DEFAULT_MEDIA_TYPE
    ) -> dict[str, Output]:
        """Write all files of a folder below one new folder of this attempt, so that relative links between them work.

        Returns them by their paths in the folder, which `media_type` is called with.
        """
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        key = self._new_key(folder.name)
        places = [Address(tier, str(replace(key, name=check_path(name)))) for name in names]
        with ThreadPoolExecutor(UPLOADS) as pool:
            done = pool.map(self._upload, (folder / name for name in names), places, map(media_type, names))
            return dict(zip(names, done, strict=True))

    def _new_key(self, name: str) -> AttemptKey:
        task = self._writer
        return attempt_key(task.job_id, task.node, task.index, task.attempt, name)

    def _upload(self, path: Path, at: Address, media_type: str) -> Output:
        stored = self._storage.upload(at, path, media_type=media_type)
        return Output(str(at), stored.size, stored.sha256, media_type)

    def stat(self, address: str) -> Stat:
        """The metadata of an object."""
        at, only = self._open(address)
        found = self._storage.stat(at)
        if only not in (None, found.tag):
            raise source_changed(address)
        return found

    def list(self, folder: str, *, after: str = "", limit: int = 1_000) -> Page:
        """The first objects below `tier://folder` whose keys come after one, in the order of their keys."""
        at = self._find_folder(folder)
        found: list[Stat] = []
        for part in self._access.list_folders(at):
            last = after
            while len(found) < limit and (page := self._storage.list(str(part), after=last, limit=PAGE_KEYS)):
                found += self._access.select(at.tier, page)
                last = page[-1].key
        return tuple(found[:limit])

    def walk(self, folder: str) -> Iterator[Stat]:
        """All objects below `tier://folder` in the order of their keys, over one listing."""
        at = self._find_folder(folder)
        for part in self._access.list_folders(at):
            listed = self._storage.walk(str(part))
            while page := tuple(islice(listed, PAGE_KEYS)):
                yield from self._access.select(at.tier, page)

    def read(self, address: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a range."""
        at, only = self._open(address)
        try:
            return self._storage.read(at, start, length, tag=only)
        except Changed as error:
            raise source_changed(address) from error

    def _open(self, address: str) -> tuple[Address, str | None]:
        """An address that the task may read, and the version where only one may be read."""
        at = parse_address(address)
        self._storage.tier(at.tier)
        return at, self._access.check(at)

    def _find_folder(self, folder: str) -> Address:
        at = parse_folder(folder)
        self._storage.tier(at.tier)
        return at


def _place(at: Address) -> Path:
    """A folder for each address, so that equal names don't meet and nothing lies beside a source."""
    name = at.name
    if len(name.encode()) > MAX_NAME_BYTES:
        name = hash_text(name) + Path(name).suffix[:20]
    return Path(hash_text(str(at))[:16]) / name
