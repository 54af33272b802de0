"""Files between the tasks that list, compare, read and report them, whichever plugin they are of."""

from pathlib import PurePosixPath

from pydantic import Field

from anabranch.storage.tiers import Stat
from anabranch.strict_model import StrictModel

__all__ = ["FailedFile", "ListedFile", "PlannedFile"]


class ListedFile(StrictModel):
    """A file as it was compared with the catalog: its versions with its sidecars, and the number of its item.

    `sha256` has the known hashes of the files that have another version by now: if all of them are the same, it is the
    same content.
    """

    address: str
    item: str
    status: str
    versions: dict[str, str] = Field({})
    sha256: dict[str, str] = Field({}, exclude_if=lambda sha256: not sha256)
    expected: int = 0
    shown: bool = Field(True, exclude_if=lambda shown: shown)


class PlannedFile(StrictModel):
    """A file to publish, as it was when its job began, and the collection that its items join."""

    source: str
    name: str
    size: int
    tag: str
    modified: str
    collection: str

    @classmethod
    def of(cls, source: str, found: Stat, collection: str) -> "PlannedFile":
        """The file at an address, which was found there."""
        name, modified = PurePosixPath(found.key).name, found.modified.isoformat()
        return PlannedFile(
            source=source, name=name, size=found.size, tag=found.tag, modified=modified, collection=collection
        )


class FailedFile(StrictModel):
    """A file that could not be published, and why."""

    address: str
    code: str
    message: str
