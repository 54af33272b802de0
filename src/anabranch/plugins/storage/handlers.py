"""Handlers on files in the tiers."""

from pathlib import PurePosixPath

from pydantic import Field

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.strict_model import StrictModel

__all__ = ["list_files", "stage"]

MAX_FILES = 50_000
FILES_PER_PROGRESS = 1_000


class StageParams(StrictModel):
    """The address of a file; `tag` is its version from an earlier `stat`, if there was one.

    With `pin`, such a version, the file is only read for its checksum: its readers fetch ranges of this version.
    """

    source: str
    tag: str | None = None
    pin: str | None = None


class Staged(StrictModel):
    """A file that is identified by its content, and the version of it that was read."""

    source: str
    name: str
    size: int
    sha256: str
    versions: dict[str, str]  # the version that was read, by address, as `process_raster` takes it


@handler("storage.stage", queue="files", timeout_seconds=7_200)
@handler("raster.blob_to_mount", queue="files", timeout_seconds=7_200)
def stage(params: StageParams, ctx: Context) -> Staged:
    """Copy a file to this machine, once; from then on its checksum identifies it."""
    name = PurePosixPath(params.source).name
    if params.pin is not None:
        ranges = ctx.storage.open_ranges(params.source, params.pin)
        return Staged(
            source=params.source,
            name=name,
            size=ranges.size,
            sha256=ranges.sha256(ctx.progress),
            versions={params.source: params.pin},
        )
    tag = params.tag or ctx.storage.stat(params.source).tag
    staged = ctx.storage.stage(params.source, tag=tag)
    return Staged(
        source=params.source, name=name, size=staged.size, sha256=staged.sha256, versions={params.source: tag}
    )


class ListParams(StrictModel):
    """Which files of a folder to list."""

    folder: str
    extensions: tuple[str, ...] = ()
    min_bytes: int = Field(0, ge=0)
    max_bytes: int | None = Field(None, ge=0)
    limit: int = Field(10_000, ge=1, le=MAX_FILES)


class File(StrictModel):
    """A file in a tier."""

    address: str
    size: int
    modified: str


class Listed(StrictModel):
    """The files in the order of their addresses; `more` where the limit cut the list off."""

    files: tuple[File, ...]
    count: int
    total_bytes: int
    more: bool


@handler("storage.list", queue="files")
def list_files(params: ListParams, ctx: Context) -> Listed:
    """List the files below a folder of a tier."""
    tier = params.folder.partition("://")[0]
    found: list[File] = []
    for number, one in enumerate(ctx.storage.walk(params.folder), 1):
        if _is_wanted(one.key, one.size, params):
            found.append(File(address=f"{tier}://{one.key}", size=one.size, modified=one.modified.isoformat()))
        if number % FILES_PER_PROGRESS == 0:
            ctx.progress(len(found), None, one.key)
        if len(found) > params.limit:
            break
    kept = tuple(found[: params.limit])
    return Listed(
        files=kept, count=len(kept), total_bytes=sum(one.size for one in kept), more=len(found) > params.limit
    )


def _is_wanted(key: str, size: int, params: ListParams) -> bool:
    extensions = {f".{one.lower().removeprefix('.')}" for one in params.extensions}
    fits = not extensions or PurePosixPath(key).suffix.lower() in extensions
    return fits and size >= params.min_bytes and (params.max_bytes is None or size <= params.max_bytes)
