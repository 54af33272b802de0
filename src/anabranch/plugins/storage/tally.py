"""Totals of an inventory, counted file by file."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from heapq import nlargest
from operator import attrgetter
from pathlib import PurePosixPath

from pydantic import Field

from anabranch.plugins.storage.handlers import File
from anabranch.plugins.storage.kinds import Kind
from anabranch.storage.ndjson import Output
from anabranch.strict_model import StrictModel

__all__ = ["Entry", "Inventory", "Proposal", "Tally"]

TOP_FILES = 10
MAX_SHOWN = 100
BANDS = ("under 1 kB", "1 kB to 1 MB", "1 MB to 1 GB", "1 GB to 1 TB", "1 TB and more")
BAND_BYTES = (10**3, 10**6, 10**9, 10**12)
NO_EXTENSION = "(none)"
OTHER_EXTENSIONS = "(others)"


class Entry(File):
    """A file of an inventory; `note` where name and content disagree, `failure` where it could not be read."""

    kind: Kind | None = None
    note: str = ""
    failure: str = ""


class Amount(StrictModel):
    """A number of files, and their bytes together."""

    count: int = 0
    total_bytes: int = 0


class Remark(StrictModel):
    """A file, and what is to be said of it."""

    address: str
    message: str


class Proposal(StrictModel):
    """A file that can be submitted, with the sidecars that go with it."""

    kind: Kind
    source: str
    sidecars: tuple[str, ...] = ()


class Inventory(Amount):
    """The totals. Lists of files are cut off at 100, and their numbers are of all; the outputs have every file."""

    more: bool = Field(description="Whether the limit cut the list off.")
    extensions: dict[str, Amount]
    sizes: dict[str, Amount]
    kinds: dict[str, Amount]
    largest: tuple[File, ...]
    newest: tuple[File, ...]
    failed: int
    failures: tuple[Remark, ...]
    noted: int
    notes: tuple[Remark, ...]
    proposed: int
    proposals: tuple[Proposal, ...]
    outputs: tuple[Output, ...]


class _Amounts:
    """Amounts by name."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.sizes = Counter[str]()

    def add(self, name: str, size: int) -> None:
        self.counts[name] += 1
        self.sizes[name] += size

    def largest(self) -> dict[str, Amount]:
        """The first names by their files, and the others together."""
        names = [name for name, _ in self.counts.most_common()]
        for name in names[MAX_SHOWN:]:
            self.counts[OTHER_EXTENSIONS] += self.counts[name]
            self.sizes[OTHER_EXTENSIONS] += self.sizes[name]
        shown = names[:MAX_SHOWN] + [OTHER_EXTENSIONS] * (len(names) > MAX_SHOWN)
        return {name: Amount(count=self.counts[name], total_bytes=self.sizes[name]) for name in shown}


class Tally:
    """Counts files; it keeps only the few that it shows."""

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self._all = _Amounts()
        self._extensions = _Amounts()
        self._sizes = _Amounts()
        self._kinds = _Amounts()
        self._largest: list[File] = []
        self._newest: list[File] = []
        self._remarks: dict[str, list[Remark]] = {"note": [], "failure": []}
        self._remarked = Counter[str]()

    def add(self, entry: Entry) -> None:
        """Count a file."""
        size = entry.size
        self._all.add("", size)
        self._extensions.add(PurePosixPath(entry.address).suffix.lower() or NO_EXTENSION, size)
        self._sizes.add(BANDS[bisect_right(BAND_BYTES, size)], size)
        if entry.kind is not None:
            self._kinds.add(entry.kind, size)
        file = File(address=entry.address, size=size, modified=entry.modified)
        self._largest = nlargest(TOP_FILES, [*self._largest, file], key=attrgetter("size"))
        self._newest = nlargest(TOP_FILES, [*self._newest, file], key=attrgetter("modified"))
        for name, remarks in self._remarks.items():
            if message := getattr(entry, name):
                self._remarked[name] += 1
                if len(remarks) < MAX_SHOWN:
                    remarks.append(Remark(address=entry.address, message=message))

    def finish(
        self, *, more: bool, proposed: int, proposals: Sequence[Proposal], outputs: Sequence[Output]
    ) -> Inventory:
        """The totals."""
        sizes = self._sizes.largest()
        return Inventory(
            count=self._all.counts[""],
            total_bytes=self._all.sizes[""],
            more=more,
            extensions=self._extensions.largest(),
            sizes={band: sizes[band] for band in BANDS if band in sizes},
            kinds=self._kinds.largest(),
            largest=tuple(self._largest),
            newest=tuple(self._newest),
            failed=self._remarked["failure"],
            failures=tuple(self._remarks["failure"]),
            noted=self._remarked["note"],
            notes=tuple(self._remarks["note"]),
            proposed=proposed,
            proposals=tuple(proposals),
            outputs=tuple(outputs),
        )
