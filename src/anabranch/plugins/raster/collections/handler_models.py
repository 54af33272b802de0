"""Parameters and results of the handlers of raster collections."""

from pydantic import Field

from anabranch.plugins.raster.collections.models import FileReport, ListedFile, WorkFile
from anabranch.plugins.raster.request import PublishOptions
from anabranch.plugins.stac.facts import Output, RasterItem
from anabranch.strict_model import StrictModel

__all__ = ["CheckParams", "CheckedBatch", "CollectionPlan", "ConvertParams", "Converted", "ConvertedBatch", "SetParams"]


class CollectionPlan(StrictModel):
    """The files of a set in batches, each for one task, and the first items and failures."""

    count: int
    total_bytes: int
    failed: int
    items: tuple[ListedFile, ...]
    failures: tuple[ListedFile, ...]
    batches: tuple[tuple[ListedFile, ...], ...]


class CheckParams(PublishOptions):
    """A batch of files, and the caller's options."""

    files: tuple[ListedFile, ...]


class CheckedBatch(StrictModel):
    """A batch that was checked: a work file with a line for each file."""

    part: WorkFile
    count: int
    failed: int


class SetParams(StrictModel):
    """The batches of a set."""

    collection: str
    parts: tuple[WorkFile, ...] = Field(min_length=1)
    allow_mixed: bool = False


class ConvertParams(StrictModel):
    """A batch of checked rasters."""

    part: WorkFile
    target_crs: str | None = None


class Converted(StrictModel):
    """A file after its conversion: its report, and the facts of its item unless it failed."""

    report: FileReport
    item: RasterItem | None = None


class ConvertedBatch(StrictModel):
    """A batch with its verified COGs: work files with the facts of the items, and with the reports of the files."""

    items: WorkFile
    part: WorkFile
    outputs: tuple[Output, ...]
    failed: int
