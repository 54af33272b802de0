"""A file of a folder between the tasks that compare, read and report it, whichever plugin they are of."""

from pydantic import Field

from anabranch.strict_model import StrictModel

__all__ = ["FailedFile", "ListedFile"]


class ListedFile(StrictModel):
    """A file as it was compared with the catalog: its versions with its sidecars, and the number of its item."""

    address: str
    item: str
    status: str
    versions: dict[str, str] = Field({})
    expected: int = 0


class FailedFile(StrictModel):
    """A file that could not be published, and why."""

    address: str
    code: str
    message: str
