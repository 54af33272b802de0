"""Marks in storage by which a process sees that it uses the same tiers and work area as the others of its database.

The first process writes a random mark into each area and notes it in the database. Every later one must find the same:
one with another home, or a URL of another store, would fail the jobs that it takes.
"""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from anabranch.errors import Conflict, NotFound, Unavailable
from anabranch.storage.addresses import RESERVED_FOLDER
from anabranch.storage.tiers import Storage, Tier

__all__ = ["Mark", "Marks", "adopt_storage", "check_storage", "join_storage", "require_marked"]

MARK_KEY = f"{RESERVED_FOLDER}/mark"


@dataclass(frozen=True)
class Mark:
    """What an area holds, and its URL in the settings of the process that found it."""

    text: str
    url: str


class Marks(Protocol):
    """The marks that count; methods block."""

    def read(self) -> Mapping[str, Mark]:
        """All of them, by area."""

    def note(self, found: Mapping[str, Mark], *, replace: bool = False) -> None:
        """Note the marks that areas hold; the first counts, unless it is replaced."""


def join_storage(storage: Storage, urls: Mapping[str, str], marks: Marks) -> None:
    """See that each area is that of the database's other processes, or mark it as the first; else a Conflict."""
    known = marks.read()
    # A database that knows no mark takes the one that the area has: it was reset, or made again.
    unknown = {area: tier for area, tier in storage.areas.items() if area not in known}
    if unknown:
        marks.note({area: Mark(_write(tier), urls[area]) for area, tier in unknown.items()})
        known = marks.read()
    for area, tier in storage.areas.items():
        _require(area, tier, urls[area], known[area])


def check_storage(storage: Storage, urls: Mapping[str, str], marks: Marks) -> bool:
    """The same, without writing anything; False where no process has started yet."""
    known = marks.read()
    for area, tier in storage.areas.items():
        if area in known:
            _require(area, tier, urls[area], known[area])
        else:
            _read(tier)  # it must answer
    return bool(known)


def require_marked(area: str, tier: Tier) -> None:
    """Refuse an area without a mark: it is another one, like the empty folder below a mount that is gone."""
    try:
        tier.stat(MARK_KEY)
    except NotFound:
        message = f"{area} holds no mark of this installation: it is not what was there when the processes started"
        raise Unavailable("storage.unreachable", message, remedy="Look whether its folder is mounted.") from None


def adopt_storage(storage: Storage, urls: Mapping[str, str], marks: Marks) -> dict[str, str]:
    """Make the areas that these settings name those of the database, whatever was noted before; what was done to each.

    An area that holds no mark gets the one that counts, so that processes with the same store go on.
    """
    known, noted, done = marks.read(), {}, {}
    for area, tier in storage.areas.items():
        found = _read(tier)
        if found is not None and area in known and known[area].text == found:
            done[area] = "unchanged"
            continue
        if found is None:
            tier.put(MARK_KEY, (known[area].text if area in known else _draw()).encode(), if_absent=True)
        noted[area] = Mark(_write(tier), urls[area])
        done[area] = "marked" if found is None else "adopted"
    if noted:
        marks.note(noted, replace=True)
    return done


def _require(area: str, tier: Tier, url: str, known: Mark) -> None:
    found = _read(tier)
    if found == known.text:
        return
    what = "holds no mark" if found is None else "holds the mark of another installation"
    raise Conflict(
        "storage.not_shared",
        f"{area} at {url} is not the store that the other processes of this database use: it {what}; theirs was at"
        f" {known.url}",
        remedy=f"Set ANABRANCH_STORAGE__{area.upper()} to the same store on every machine. If it was moved or emptied"
        " on purpose, run `anabranch storage adopt --yes` with the settings that are right.",
    )


def _read(tier: Tier) -> str | None:
    try:
        return b"".join(tier.stream(MARK_KEY)).decode()
    except NotFound:
        return None


def _write(tier: Tier) -> str:
    """The mark that an area holds; where it has none, a new one: of several that write at once, one does."""
    if (found := _read(tier)) is not None:
        return found
    with suppress(Conflict):  # another was faster
        tier.put(MARK_KEY, _draw().encode(), if_absent=True)
    return b"".join(tier.stream(MARK_KEY)).decode()


def _draw() -> str:
    return secrets.token_hex(16)
