"""Compares the files of a folder with what is published of them; nothing is read or written here."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import PurePosixPath

from anabranch.canonical import sha256
from anabranch.geo.sidecar_names import names_beside
from anabranch.plugins.storage.kinds import BINARY, TEXT, Kind
from anabranch.storage.filenames import make_slug
from anabranch.storage.listed_files import ListedFile
from anabranch.storage.tiers import Stat

__all__ = ["Compared", "Known", "Status", "Wanted", "compare", "name_item"]

SETTLE_TIME = timedelta(seconds=10)
MAX_CLOCK_SKEW = timedelta(hours=1)  # between the store and the database; a later time was not given by a clock
HASH_CHARS = 16
RASTER_SUFFIXES = frozenset(suffix for suffix, kind in {**BINARY, **TEXT}.items() if kind is Kind.RASTER)


class Status(StrEnum):
    """What a file is to the catalog: before anything is published, and after."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    WITHDRAWN = "withdrawn"
    WRITING = "writing"
    LEFT = "left"
    VANISHED = "vanished"
    PUBLISHED = "published"
    REPLACED = "replaced"
    REJECTED = "rejected"
    FAILED = "failed"


@dataclass(frozen=True)
class Known:
    """What an item was last made from, its newest number, and whether readers see it; hashes may be unknown."""

    item: str
    number: int
    shown: bool
    address: str
    versions: Mapping[str, str]
    sha256: Mapping[str, str]


@dataclass(frozen=True)
class Wanted:
    """Which files are to be published: those with an extension, at most a number of them in one run."""

    suffixes: Collection[str]
    limit: int

    @classmethod
    def of(cls, extensions: Collection[str], limit: int) -> "Wanted":
        """With these extensions, or by default with those of rasters."""
        return cls({f".{one.lower().removeprefix('.')}" for one in extensions} or RASTER_SUFFIXES, limit)


class Compared(ListedFile):
    """A file that is published, or is to be."""

    status: Status


def name_item(address: str) -> str:
    """The id of the item of a file: it follows from the address alone, and no other address has it."""
    return f"{make_slug(PurePosixPath(address).name) or 'file'}-{sha256(address)[:HASH_CHARS]}"


def compare(files: Mapping[str, Stat], known: Mapping[str, Known], now: datetime, wanted: Wanted) -> Iterator[Compared]:
    """Every wanted file by address, then the items whose file has vanished; `known` is by item."""
    left = wanted.limit
    for address in files:
        if PurePosixPath(address).suffix.lower() not in wanted.suffixes:
            continue
        found = _compare_file(address, files, known.get(name_item(address)), now)
        if found.status in (Status.NEW, Status.CHANGED):
            left -= 1
            found = found if left >= 0 else found.model_copy(update={"status": Status.LEFT})
        yield found
    for each in known.values():
        if each.shown and each.address not in files and each.item == name_item(each.address):
            yield Compared(address=each.address, item=each.item, status=Status.VANISHED, expected=each.number)


def _compare_file(address: str, files: Mapping[str, Stat], known: Known | None, now: datetime) -> Compared:
    group = _group(address, files)
    versions = {each: files[each].tag for each in group}
    if known is not None and known.versions == versions:
        status = Status.UNCHANGED if known.shown else Status.WITHDRAWN
    elif any(-MAX_CLOCK_SKEW < now - files[each].modified < SETTLE_TIME for each in group):
        status = Status.WRITING
    else:
        status = Status.CHANGED if known else Status.NEW
    found = Compared(address=address, item=name_item(address), status=status, versions=versions)
    if known is None:
        return found
    hashes = _find_hashes(known, versions)
    return found.model_copy(update={"expected": known.number, "shown": known.shown, "sha256": hashes})


def _find_hashes(known: Known, versions: Mapping[str, str]) -> dict[str, str]:
    """The known hashes of the files that have another version by now; none if that can't be the same content."""
    other = [address for address, version in versions.items() if known.versions.get(address) != version]
    if known.versions.keys() != versions.keys() or not known.sha256.keys() >= set(other):
        return {}
    return {address: known.sha256[address] for address in other}


def _group(address: str, files: Mapping[str, Stat]) -> list[str]:
    """A file with the sidecars that are used with it: of each kind the first that is beside it."""
    folder, slash, name = address.rpartition("/")
    beside = {
        kind: sidecar for sidecar, kind in reversed(names_beside(name).items()) if folder + slash + sidecar in files
    }
    return [address, *(folder + slash + sidecar for sidecar in beside.values())]
