"""All that the duty of watched folders asks of a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from anabranch.canonical import JsonObject
from anabranch.engine.model import SessionId
from anabranch.engine.ports import TakenRight
from anabranch.engine.submitting.submission import Submission
from anabranch.enums import Scope
from anabranch.storage.addresses import Address
from anabranch.storage.read_access import ReadRights

__all__ = ["FoundObject", "Look", "LookPage", "MadeObject", "PreparedObject", "WatchStore"]


@dataclass(frozen=True)
class Look:
    """One look of a schedule at the folder that it watches, and the time when it began."""

    id: int
    platform: str
    name: str
    workflow_hash: str
    inputs: JsonObject
    parameters: JsonObject
    by_scope: Scope | None
    version: int
    folder: Address
    pattern: str | None
    stable: timedelta
    skips_existing: bool
    look: int
    now: datetime


@dataclass(frozen=True)
class FoundObject:
    """An object in a version of it, as it was listed."""

    at: Address
    version: str
    size: int
    modified: datetime


@dataclass(frozen=True)
class LookPage:
    """All objects that there are after one address and up to another, or to the end where that is None."""

    after: str
    through: str | None
    objects: Sequence[FoundObject]


@dataclass(frozen=True)
class PreparedObject:
    """An object with what its job is to be, or the reason why it can't have one."""

    found: FoundObject
    submission: Submission | None
    reason: str | None


@dataclass(frozen=True)
class MadeObject:
    """What became of an object: the state of its tick, its job, and the rights to advance that."""

    state: str
    job_id: str | None
    rights: tuple[TakenRight, ...]


class WatchStore(Protocol):
    """What was seen in watched folders; of several processes, one at a time looks at a folder."""

    async def find_rights(self, platform: str, tier: str, keys: Sequence[str]) -> ReadRights:
        """What a new job of a platform may read, as far as some objects of a tier need it."""

    async def begin_look(self, session: SessionId, busy: Sequence[int], silence: timedelta) -> Look | None:
        """Take over a look that is due; one that did not get on for so long counts as nobody's."""

    async def note(self, session: SessionId, look: Look, page: LookPage) -> list[FoundObject] | None:
        """Note a page; those of its objects that need a job now. None where the look is over."""

    async def submit(
        self, session: SessionId, look: Look, prepared: Sequence[PreparedObject]
    ) -> list[MadeObject] | None:
        """Make the jobs of objects in one commit with their ticks, all or none. None where the look is over."""

    async def end_look(self, session: SessionId, look: Look, *, complete: bool, trouble: str | None) -> bool:
        """End a look; False where another process looks by now."""

    async def remove_gone(self, age: timedelta) -> int:
        """Forget some objects that are gone for so long; how many, and 0 at the end."""

    async def note_turn(self, session: SessionId, every: timedelta) -> None:
        """Note that the duty is performed (O2)."""
