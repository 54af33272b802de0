"""One listing of a watched folder, in pages; its methods block."""

from collections.abc import Callable, Sequence
from itertools import islice, pairwise

from anabranch.engine.submitting.watching.ports import FoundObject, Look, LookPage
from anabranch.errors import AnabranchError, InputError
from anabranch.storage.addresses import Address, check_path
from anabranch.storage.marks import require_marked
from anabranch.storage.read_access import ReadAccess, ReadRights, find_writer, require_watchable
from anabranch.storage.tiers import PAGE_KEYS, Stat, Storage
from anabranch.workflows.schedules.watch import matches

__all__ = ["Listing"]

FindRights = Callable[[str, Sequence[str]], ReadRights]


class Listing:
    """The objects that a schedule watches: those whose names fit, and that its platform may read."""

    def __init__(self, storage: Storage, look: Look, find_rights: FindRights) -> None:
        """Begin it; refused where the platform may not list the folder, or the tier is not the one that was marked."""
        self._look = look
        self._find_rights = find_rights
        tier = storage.tier(look.folder.tier)
        require_watchable(look.platform, look.folder, find_rights(look.folder.tier, ()))
        require_marked(look.folder.tier, tier)
        self._walk = tier.walk(look.folder.path)
        self._access = ReadAccess(look.platform, "", self._ask)
        self._after = self._last = ""

    def read(self) -> LookPage:
        """The next page; the last one has no end."""
        listed = list(islice(self._walk, PAGE_KEYS))
        named = [stat for stat in listed if _can_be_named(stat.key)]
        # What jobs wrote is left out: the job of an output would make the next one.
        delivered = [stat for stat in named if not find_writer(Address(self._look.folder.tier, stat.key))]
        if (at := _find_disorder([self._last, *(stat.key for stat in listed)])) is not None:
            message = f"the store lists {at[:200]!r} out of the order of its keys: what is missing is not known"
            raise AnabranchError("storage.order", message)
        fitting = [stat for stat in delivered if matches(self._look.pattern, stat.key.rpartition("/")[2])]
        found = list(map(self._describe, self._access.select(self._look.folder.tier, fitting)))
        through = str(Address(self._look.folder.tier, named[-1].key)) if named else self._after
        page = LookPage(self._after, through if len(listed) == PAGE_KEYS else None, found)
        self._after = through
        self._last = listed[-1].key if listed else self._last
        return page

    def _ask(self, platform: str, job_id: str, tier: str, keys: Sequence[str]) -> ReadRights:
        return self._find_rights(tier, keys)

    def _describe(self, stat: Stat) -> FoundObject:
        version = stat.tag or f"{stat.size}-{stat.modified.isoformat()}"
        return FoundObject(Address(self._look.folder.tier, stat.key), version, stat.size, stat.modified)


def _find_disorder(keys: Sequence[str]) -> str | None:
    return next((later for earlier, later in pairwise(keys) if later <= earlier), None)


def _can_be_named(key: str) -> bool:
    """Whether an address leads to an object; buckets may have others."""
    try:
        return check_path(key) == key
    except InputError:
        return False
