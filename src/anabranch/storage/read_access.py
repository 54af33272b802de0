"""Which objects a task may read: those of its job and its platform, and what is published for its platform (S1, P6)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from anabranch.enums import DEFAULT_PLATFORM
from anabranch.errors import InputError
from anabranch.storage.addresses import Address, parse_address, parse_folder
from anabranch.storage.attempt_keys import JOBS_FOLDER, parse_key, segment
from anabranch.storage.tiers import Stat

__all__ = [
    "FindRights",
    "ReadAccess",
    "ReadRights",
    "find_writer",
    "require_own_uploads",
    "require_readable",
    "require_watchable",
    "uploads_folder",
]

UPLOADS_TIER, UPLOADS_FOLDER = "bronze", "uploads"
_UPLOAD = re.compile(rf"{UPLOADS_FOLDER}/(?:([a-z][a-z0-9_-]{{0,39}})/)?[0-9a-f]{{64}}/")


def uploads_folder(platform: str) -> str:
    """Where the uploads of a platform are; a platform's id is shorter than a hash, so it is none."""
    return UPLOADS_FOLDER if platform == DEFAULT_PLATFORM else f"{UPLOADS_FOLDER}/{platform}"


@dataclass(frozen=True)
class ReadRights:
    """What only the database knows: the folders that are listed for a platform; for `default` those that are listed for
    others; and of some objects the related jobs that wrote them, and those that are published, by address.

    Of a published object that others may replace, only the version that is shown can be read.
    """

    folders: Sequence[str] = ()
    others: Sequence[str] = ()
    related: Sequence[str] = ()
    files: Mapping[str, str | None] = field(default_factory=dict)


class FindRights(Protocol):
    """Asks the database."""

    def __call__(self, platform: str, job_id: str, tier: str, keys: Sequence[str]) -> ReadRights:
        """The rights of a job of a platform on some objects of a tier."""


class ReadAccess:
    """Answers for one task. The outputs of its job and the uploads of its platform need no look into the database; the
    first other object does, which usually answers for all of them.
    """

    def __init__(self, platform: str, job_id: str, find_rights: FindRights) -> None:
        self._platform = platform
        self._job_id = job_id
        self._find_rights = find_rights
        self._asking = Lock()
        self._folders: list[Address] | None = None  # until they are known
        self._others: list[Address] = []
        self._related: set[str] = set()
        self._files: dict[str, str | None] = {}
        self._refused: set[Address] = set()

    def check(self, at: Address) -> str | None:
        """Refuse an object that the task may not read, in the same words whether it exists or not.

        Returns the version that may be read, where it is only one.
        """
        if not self._may_read(at) and at not in self._refused:
            self._ask(at.tier, [at.path])
        if not self._may_read(at):
            self._refused.add(at)
            raise _refused(at)
        return None if self._is_ours(at) else self._files.get(str(at))

    def select(self, tier: str, stats: Sequence[Stat]) -> Iterator[Stat]:
        """Those of some objects of a listing that the task may read."""
        self._ask(tier, [stat.key for stat in stats])
        for stat in stats:
            at = Address(tier, stat.key)
            if self._is_ours(at) or (self._may_read(at) and self._files.get(str(at)) in (None, stat.tag)):
                yield stat

    def list_folders(self, wanted: Address) -> list[Address]:
        """The folders that a listing of a folder consists of, in the order of their keys; no other is looked at."""
        if self._platform == DEFAULT_PLATFORM:
            return [wanted]
        if self._folders is None:
            self._ask(wanted.tier, [])
        known = (*(self._folders or ()), Address(UPLOADS_TIER, uploads_folder(self._platform)))
        ours = {Address(wanted.tier, JOBS_FOLDER), *(each for each in known if each.tier == wanted.tier)}
        if any(_contains(each, wanted.path) for each in ours):
            return [wanted]
        below = [each for each in ours if _contains(wanted, each.path)]
        top = (each for each in below if not any(each != one and _contains(one, each.path) for one in below))
        return sorted(top, key=lambda each: f"{each.path}/")

    def _may_read(self, at: Address) -> bool:
        return self._is_ours(at) or str(at) in self._files or find_writer(at) in self._related

    def _is_ours(self, at: Address) -> bool:
        """Whether it is an output of the job itself, or the platform's."""
        if find_writer(at):
            return at.path.startswith(f"{JOBS_FOLDER}/{segment(self._job_id)}/")
        if at.tier == UPLOADS_TIER and (upload := _UPLOAD.match(at.path.casefold())):
            owner = upload[1] or DEFAULT_PLATFORM
            return owner == self._platform and at.path.startswith(f"{uploads_folder(owner)}/")
        if self._folders is None:
            return False
        if any(_contains(folder, at.path) for folder in self._folders if folder.tier == at.tier):
            return True
        return self._platform == DEFAULT_PLATFORM and not any(
            _contains(folder, at.path.casefold()) for folder in self._others if folder.tier == at.tier
        )

    def _ask(self, tier: str, keys: Sequence[str]) -> None:
        with self._asking:  # what another thread asked for meanwhile is known
            unknown = [key for key in keys if not self._may_read(Address(tier, key))]
            if not unknown and (keys or self._folders is not None):
                return
            found = self._find_rights(self._platform, self._job_id, tier, unknown)
            # A folder of others is theirs in upper and lower case: some file systems ignore case.
            self._others = [parse_folder(folder.casefold()) for folder in found.others]
            self._folders = [parse_folder(folder) for folder in found.folders]
            self._related.update(found.related)
            self._files.update(found.files)


def require_own_uploads(platform: str, addresses: Iterable[str]) -> None:
    """Refuse uploads of other platforms before there is a job; all else is checked when its tasks read."""
    for at in map(parse_address, addresses):
        upload = _UPLOAD.match(at.path) if at.tier == UPLOADS_TIER else None
        if upload and upload[1] and upload[1] != platform:
            raise _refused(at)


def require_readable(platform: str, at: Address, rights: ReadRights) -> None:
    """Refuse an object that no new job of a platform may read, before there is one."""
    ReadAccess(platform, "", lambda *_: rights).check(at)


def require_watchable(platform: str, folder: Address, rights: ReadRights) -> None:
    """Refuse a folder of which a platform may read nothing, or only parts; and one that has outputs of jobs only."""
    if find_writer(Address(folder.tier, f"{folder.path}/{JOBS_FOLDER}")):
        message = (
            f"no schedule may watch {folder}: it has what jobs wrote, and each of its jobs would make the next one"
        )
        raise InputError("storage.not_readable", message, remedy="Watch the folder that files are delivered to.")
    if ReadAccess(platform, "", lambda *_: rights).list_folders(folder) != [folder]:
        raise InputError(
            "storage.not_readable",
            f"no schedule of the platform may watch {folder}: it is not one of its folders, nor in one",
            remedy="Watch a folder of the platform's, or ask the operator to add this one to its `sources`.",
        )


def _refused(at: Address) -> InputError:
    return InputError(
        "storage.not_readable",
        f"this job may not read {at}: it is not among the uploads, folders and published files of its platform",
        remedy="Upload the file with a key of the platform, or ask the operator to add its folder to the `sources` of "
        "the platform. What another job made is readable once it is published.",
    )


def find_writer(at: Address) -> str:
    """The job that wrote an object, as its key names it; empty where no job did."""
    first, _, rest = at.path.partition("/")
    if first.casefold() != JOBS_FOLDER or (at.tier == UPLOADS_TIER and parse_key(at.path) is None):
        return ""
    return rest.partition("/")[0]


def _contains(folder: Address, path: str) -> bool:
    return not folder.path or f"{path}/".startswith(f"{folder.path}/")
