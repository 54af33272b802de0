"""Objects in tiers: what a store can do, and the tiers by name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Protocol

from anabranch.errors import NotFound
from anabranch.storage.addresses import Address, parse_address, parse_folder

__all__ = ["PAGE_KEYS", "Downloaded", "Intake", "Page", "Stat", "Storage", "Stored", "Tier"]

PAGE_KEYS = 1_000


@dataclass(frozen=True)
class Stat:
    """The metadata of an object; its tag changes whenever the object does."""

    key: str
    size: int
    modified: datetime
    tag: str


@dataclass(frozen=True)
class Stored:
    """An object that was written whole."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Downloaded:
    """An object that was read whole."""

    stat: Stat
    sha256: str


Page = tuple[Stat, ...]


class Intake(Protocol):
    """A file that is being written, invisible until it is kept. Methods block."""

    def write(self, data: bytes) -> None:
        """Append to it."""

    def keep(self, key: str) -> bool:
        """Make it durable and put it under a key, whole; False when there was one already, which stays."""

    def discard(self) -> None:
        """Remove it, unless it was kept."""


class Tier(Protocol):
    """A store of objects by key; keys are checked before. Methods block.

    Errors are ours: `storage.not_found`, `storage.container`, `storage.exists`, `storage.changed`, `storage.denied`,
    `storage.full`, `storage.unreachable`, `storage.path`.
    """

    def stat(self, key: str) -> Stat:
        """The metadata of an object."""

    def media_type(self, key: str) -> str | None:
        """The media type that an object was written with; None where the store keeps none."""

    def list(self, folder: str = "", *, after: str = "", limit: int = PAGE_KEYS) -> Page:
        """The first objects below a folder whose keys come after one, in the order of their keys."""

    def walk(self, folder: str = "") -> Iterator[Stat]:
        """All objects below a folder in the order of their keys, over one listing; what is written or removed meanwhile
        may be among them or not."""

    def stream(self, key: str, start: int = 0, length: int | None = None, *, tag: str | None = None) -> Iterator[bytes]:
        """The bytes of a range, in pieces; what of it lies behind the end is left out. With a tag, only of the version
        that had it when it was described: another one is `storage.changed`."""

    def download(self, key: str, target: Path) -> Downloaded:
        """Write an object into a file."""

    def upload(self, key: str, source: Path, *, if_absent: bool = False, media_type: str | None = None) -> Stored:
        """Write a file under a key, whole and durable. `if_absent` leaves what is there, by `storage.exists`: a store
        of a cloud sees to that in one step for small files, and for large ones looks before it begins."""

    def put(self, key: str, data: bytes, *, if_absent: bool = False, media_type: str | None = None) -> Stored:
        """Write a few bytes under a key."""

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are not there are no error."""

    def locate(self, key: str) -> Path | None:
        """The file of an object, where the store is a folder of this machine."""

    def begin(self) -> Intake:
        """Begin an object that comes in pieces."""

    def clear(self) -> None:
        """Remove unfinished files of killed processes."""


class Storage:
    """The tiers by name; objects by address."""

    def __init__(self, areas: Mapping[str, Tier]) -> None:
        """Of these tiers, and the area `work`: it holds what passes between tasks, and no address leads there."""
        self.areas = dict(areas)
        self.tiers = {name: area for name, area in areas.items() if name != "work"}

    @property
    def work(self) -> Tier:
        """The work area."""
        return self.areas["work"]

    def tier(self, name: str) -> Tier:
        """The tier of a name."""
        if name not in self.tiers:
            known = ", ".join(self.tiers)
            raise NotFound("storage.tier", f"there is no tier {name!r}", remedy=f"The tiers are {known}.")
        return self.tiers[name]

    def find(self, address: str | Address) -> tuple[Tier, str]:
        """The tier of an address, and the key in it."""
        at = address if isinstance(address, Address) else parse_address(address)
        return self.tier(at.tier), at.path

    def stat(self, address: str | Address) -> Stat:
        """The metadata of an object."""
        tier, key = self.find(address)
        return tier.stat(key)

    def list(self, folder: str, *, after: str = "", limit: int = PAGE_KEYS) -> Page:
        """The first objects below `tier://folder` whose keys come after one."""
        at = parse_folder(folder)
        return self.tier(at.tier).list(at.path, after=after, limit=limit)

    def walk(self, folder: str) -> Iterator[Stat]:
        """All objects below `tier://folder` in the order of their keys, over one listing."""
        at = parse_folder(folder)
        return self.tier(at.tier).walk(at.path)

    def stream(
        self, address: str | Address, start: int = 0, length: int | None = None, *, tag: str | None = None
    ) -> Iterator[bytes]:
        """The bytes of a range, in pieces; with a tag, of that version only."""
        tier, key = self.find(address)
        return tier.stream(key, start, length, tag=tag)

    def read(
        self, address: str | Address, start: int = 0, length: int | None = None, *, tag: str | None = None
    ) -> bytes:
        """The bytes of a range; with a tag, of that version only."""
        return b"".join(self.stream(address, start, length, tag=tag))

    def download(self, address: str | Address, target: Path) -> Downloaded:
        """Write an object into a file."""
        tier, key = self.find(address)
        return tier.download(key, target)

    def upload(
        self, address: str | Address, source: Path, *, if_absent: bool = False, media_type: str | None = None
    ) -> Stored:
        """Write a file to an address."""
        tier, key = self.find(address)
        return tier.upload(key, source, if_absent=if_absent, media_type=media_type)

    def put(
        self, address: str | Address, data: bytes, *, if_absent: bool = False, media_type: str | None = None
    ) -> Stored:
        """Write a few bytes to an address."""
        tier, key = self.find(address)
        return tier.put(key, data, if_absent=if_absent, media_type=media_type)

    def delete(self, addresses: Iterable[str | Address]) -> None:
        """Remove objects; those that are not there are no error."""
        parsed = (each if isinstance(each, Address) else parse_address(each) for each in addresses)
        for name, group in groupby(sorted(parsed, key=lambda at: at.tier), key=lambda at: at.tier):
            self.tier(name).delete([at.path for at in group])

    def clear(self) -> None:
        """Remove unfinished files of killed processes."""
        for area in self.areas.values():
            area.clear()
