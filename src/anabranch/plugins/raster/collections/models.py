"""What the steps of a raster collection exchange: JSON at the edges; nothing here imports GDAL."""

from collections.abc import Iterable, Iterator
from typing import Literal

from pydantic import Field, JsonValue

from anabranch.plugins.raster.handler_models import CheckedFile, Plan
from anabranch.plugins.raster.models import Kind, Notice
from anabranch.plugins.raster.request import NamedSource
from anabranch.plugins.stac.facts import Output
from anabranch.sandbox.faults import Failure
from anabranch.strict_model import StrictModel

__all__ = [
    "CheckedSource",
    "Comparison",
    "Difference",
    "FileReport",
    "ListedFile",
    "Odd",
    "RasterFacts",
    "SetReport",
    "summarize_warnings",
]

WorkFile = dict[str, JsonValue]  # as ctx.work.put returns it


class ListedFile(NamedSource):
    """A file of the set with the id of its item; one that can't be used has the reason."""

    item_id: str
    size: int = 0
    failure: Failure | None = None


class RasterFacts(StrictModel):
    """What is compared between the rasters of a set; `crs` and `pixel_size` are those of the COG."""

    source: str
    item_id: str
    bands: int
    dtype: str
    crs: str
    pixel_size: tuple[float, float]
    kind: Kind


class CheckedSource(StrictModel):
    """A file that was checked: a raster that can be published, or a failure."""

    file: ListedFile
    plan: Plan | None = None
    checked: CheckedFile | None = None
    failure: Failure | None = None

    @property
    def facts(self) -> RasterFacts | None:
        """What is compared; None where the file can't be published."""
        if self.checked is None or self.checked.target is None:
            return None
        raster, target = self.checked.raster, self.checked.target
        return RasterFacts(
            source=self.file.source,
            item_id=self.file.item_id,
            bands=len(raster.bands),
            dtype=raster.dtype,
            crs=target.crs,
            pixel_size=target.pixel_size,
            kind=raster.kind,
        )


Property = Literal["bands", "dtype", "crs", "pixel_size", "kind"]


class Difference(StrictModel):
    """A property in which a raster differs from the majority."""

    property: Property
    value: str
    majority: str


class Odd(StrictModel):
    """A raster that does not fit to the others."""

    source: str
    item_id: str
    differs: tuple[Difference, ...]


class Comparison(StrictModel):
    """How alike the rasters of a set are: what most of them have, and those that differ."""

    compared: int
    tolerance: float
    majority: dict[Property, str] = Field({})
    odd: tuple[Odd, ...] = ()


class FileReport(StrictModel):
    """A file of the set in the report: what was found, and what was made of it or why nothing was."""

    source: str
    item_id: str
    size: int
    sha256: str = ""
    facts: RasterFacts | None = None
    warnings: tuple[Notice, ...] = ()
    outputs: tuple[Output, ...] = ()
    failure: Failure | None = None


class SetReport(StrictModel):
    """The report of a set of rasters."""

    collection: str
    count: int
    failed: int
    comparison: Comparison
    files: tuple[FileReport, ...]


def summarize_warnings(files: Iterable[FileReport]) -> Iterator[Notice]:
    """A warning of each code: the first, and how many files have it."""
    found: dict[str, list[tuple[str, str]]] = {}
    for file in files:
        for code, message in {notice.code: notice.message for notice in file.warnings}.items():
            found.setdefault(code, []).append((file.item_id, message))
    for code, said in found.items():
        more = f" ({len(said) - 1} more files have this warning.)" if len(said) > 1 else ""
        yield Notice(code=code, message=f"{said[0][0]}: {said[0][1]}{more}")
