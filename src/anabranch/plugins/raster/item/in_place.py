"""Catalogs rasters in place: their metadata is read by ranges, and no byte is copied."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from pydantic import Field, JsonValue

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import AnabranchError
from anabranch.plugins.raster.formats.sources import open_ranges
from anabranch.plugins.raster.handlers import QUEUE
from anabranch.plugins.raster.item.publication import COG_TYPE, build_item, find_span
from anabranch.plugins.raster.models import Described
from anabranch.plugins.raster.sandbox_calls import run_in_sandbox
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.plugins.stac.facts import Output, RasterItem, Source
from anabranch.sandbox.faults import is_fault_of_file
from anabranch.storage.filenames import make_slug
from anabranch.storage.listed_files import FailedFile, ListedFile
from anabranch.storage.ndjson import write_lines
from anabranch.strict_model import StrictModel

__all__ = ["DescribeParams", "describe_files"]

MAX_BATCH = 1_000
MEDIA_TYPES = {"GTiff": "image/tiff; application=geotiff", "JP2OpenJPEG": "image/jp2"}


class DescribeParams(StrictModel):
    """A batch of files."""

    files: tuple[ListedFile, ...] = Field(max_length=MAX_BATCH)


class DescribedFiles(StrictModel):
    """A work file with the items of a batch, a line for each, and the files that have none."""

    part: dict[str, JsonValue]
    failures: tuple[FailedFile, ...]


@handler("raster.describe_files", queue=QUEUE, timeout_seconds=3_600)
def describe_files(params: DescribeParams, ctx: Context) -> DescribedFiles:
    """Read the metadata of rasters in place; one that can't be read does not stop the others."""
    failures: list[FailedFile] = []
    path = write_lines(ctx.scratch / "items.ndjson", _describe_each(params.files, failures, ctx), exclude_none=True)
    return DescribedFiles(part=ctx.work.put(path), failures=tuple(failures))


def _describe_each(files: Sequence[ListedFile], failures: list[FailedFile], ctx: Context) -> Iterator[RasterItem]:
    for number, file in enumerate(files, 1):
        try:
            yield _describe(file, ctx)
        except AnabranchError as error:
            if not is_fault_of_file(error, ctx):
                raise
            failures.append(FailedFile(address=file.address, code=error.code, message=error.message))
        ctx.progress(number, len(files), file.address)


def _describe(file: ListedFile, ctx: Context) -> RasterItem:
    version = file.versions[file.address]
    ranges = open_ranges(ctx, file.address, version)
    settings = ctx.settings(RasterSettings)
    found = run_in_sandbox(ctx, "describe", Described, path=ranges, settings=settings)
    raster = found.raster
    span, _ = find_span(None, raster, ctx.storage.stat(file.address).modified)
    bands = [band.model_copy(update={"statistics": None}) for band in raster.bands]
    outputs = [_describe_file(file.address, version, ranges.size, found)]
    source = Source(name=raster.name, address=file.address, versions=file.versions)
    made = build_item(file.item, raster.kind, found, bands, span, outputs, source)
    return made.model_copy(update={"expected": file.expected})


def _describe_file(address: str, version: str, size: int, found: Described) -> Output:
    name, is_cog = PurePosixPath(address).name, found.cloud_optimized
    return Output(
        kind="cog" if is_cog else "raster",
        asset="data",
        name=(make_slug(name) or "raster") + PurePosixPath(name).suffix.lower(),
        href=address,
        media_type=COG_TYPE if is_cog else MEDIA_TYPES.get(found.raster.driver, "application/octet-stream"),
        size=size,
        version=version,
        drawn=None if is_cog else False,
    )
