"""Parameters and results of the handlers of vector collections."""

from pydantic import AwareDatetime, Field, JsonValue

from anabranch.plugins.vector.handler_models import Chunk, Cleaned, Output, Plan
from anabranch.plugins.vector.request import PublishOptions
from anabranch.sandbox.faults import Failure
from anabranch.strict_model import StrictModel

__all__ = [
    "CleanFileParams", "CleanedFile", "CleanedPart", "CollectionPlan", "FileReport", "FinishFileParams",
    "FinishedPart", "ListedFile", "SetParams", "SetReport", "Verdict",
]  # fmt: skip

WorkFile = dict[str, JsonValue]  # as ctx.work.put returns it


class ListedFile(StrictModel):
    """A file of the set, and the name that its table begins with; one that can't be used has the reason.

    `tag` is the version that was listed: another one is `source.changed`.
    """

    source: str
    table: str
    size: int = 0
    tag: str | None = None
    failure: Failure | None = None


class CollectionPlan(StrictModel):
    """The files of a set."""

    count: int
    total_bytes: int
    failed: int
    files: tuple[ListedFile, ...]


class CleanFileParams(PublishOptions):
    """A file of the set, and the caller's options."""

    file: ListedFile


class CleanedFile(StrictModel):
    """A file of the set whose rows can be loaded, or the reason why not."""

    file: ListedFile
    plan: Plan | None = None
    cleaned: Cleaned | None = None
    failure: Failure | None = None


class CleanedPart(StrictModel):
    """A cleaned file in a work file, and the files of rows to load."""

    part: WorkFile
    chunks: tuple[Chunk, ...] = ()
    outputs: tuple[Output, ...] = ()


class SetParams(StrictModel):
    """The cleaned files of a set."""

    collection: str
    parts: tuple[WorkFile, ...] = Field(min_length=1)


class FileReport(StrictModel):
    """A file of the set in the report: the tables that it became, or why it did not."""

    source: str
    size: int
    tables: tuple[str, ...] = ()
    rows: int = 0
    warnings: tuple[str, ...] = ()
    report: str | None = None
    failure: Failure | None = None


class SetReport(StrictModel):
    """The report of a set of vector files."""

    collection: str
    count: int
    failed: int
    files: tuple[FileReport, ...]


class Verdict(StrictModel):
    """Whether a set is accepted, why not, and the address of its report."""

    accepted: bool
    failure: Failure | None
    count: int
    failed: int
    warnings: tuple[str, ...]
    outputs: tuple[Output, ...]
    report: str


class FinishFileParams(StrictModel):
    """A cleaned file whose rows were all copied."""

    part: WorkFile
    datetime: AwareDatetime | None = None


class FinishedPart(StrictModel):
    """The tables of a file, checked, and a work file with the facts of their items."""

    items: WorkFile
    outputs: tuple[Output, ...]
