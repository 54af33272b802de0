"""Finds the files of a set, gives each the id of its item, and packs them into batches."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import PurePosixPath

from pydantic import ValidationError

from anabranch.canonical import sha256
from anabranch.engine.worker.context import Context
from anabranch.errors import AnabranchError, Permanent
from anabranch.plugins.raster.collections.models import ListedFile
from anabranch.plugins.raster.collections.request import CollectionRequest
from anabranch.plugins.raster.files.magic_bytes import SUFFIXES
from anabranch.plugins.raster.item.publication import slug
from anabranch.plugins.raster.plan import plan_work
from anabranch.plugins.raster.request import NamedSource, RasterRequest
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.sandbox.faults import Failure
from anabranch.storage.tiers import Stat
from anabranch.workflows.mistakes import reword

__all__ = ["find_sources", "list_files", "name_items", "pack_batches"]

MB = 2**20
MAX_LIST_BYTES = 32 * MB
READERS = 8
FILES_PER_PROGRESS = 100
MAX_SHOWN = 5
BATCH_FILES = 16
BATCH_BYTES = 64 * MB  # larger files are better spread over the workers
MAX_BATCHES = 2_500  # whose work files the parameters of one task can name

Found = tuple[NamedSource, Stat | None]


def find_sources(request: CollectionRequest, ctx: Context, most: int) -> list[Found]:
    """The files of a request: those it gives, those of its list, or the rasters below its folder."""
    found = list(_find(request, ctx, most))
    if not found:
        raise Permanent(
            f"there is no raster in {request.folder or request.source_list}",
            code="raster.no_sources",
            remedy="Check the address with `anabranch storage ls`, and the extensions.",
        )
    if len(found) > most:
        raise Permanent(
            f"there are more than {most:,} files",
            code="raster.too_many",
            remedy="Publish them in several jobs, or ask the operator to raise ANABRANCH_RASTER_MAX_FILES.",
        )
    if twice := [name for name, times in Counter(one.source for one, _ in found).items() if times > 1]:
        raise Permanent(
            f"{len(twice)} files are listed twice: {', '.join(twice[:MAX_SHOWN])}",
            code="raster.sources",
            remedy="List each file once.",
        )
    return found


def _find(request: CollectionRequest, ctx: Context, most: int) -> Iterator[Found]:
    if request.source_list:
        yield from ((one, None) for one in _read_list(request.source_list, ctx, most))
    elif request.folder:
        yield from _walk(request.folder, request.extensions, ctx, most)
    else:
        yield from ((one, None) for one in request.sources)


def _walk(folder: str, extensions: Iterable[str], ctx: Context, most: int) -> Iterator[Found]:
    tier, count = folder.partition("://")[0], 0
    wanted = frozenset(extensions) or SUFFIXES
    for stat in ctx.storage.walk(folder):
        if PurePosixPath(stat.key).suffix.lower() in wanted and count <= most:
            count += 1
            yield NamedSource(source=f"{tier}://{stat.key}"), stat


def _read_list(address: str, ctx: Context, most: int) -> Iterator[NamedSource]:
    """The lines of a list; an error names the line and not its content, which may be another's."""
    if (size := ctx.storage.stat(address).size) > MAX_LIST_BYTES:
        raise Permanent(
            f"the list has {size:,} bytes, and at most {MAX_LIST_BYTES:,} are read",
            code="raster.sources",
            remedy="Publish the files in several jobs.",
        )
    lines = ctx.storage.read(address).splitlines()
    for number, line in enumerate(lines[: most + 1], 1):
        try:
            yield NamedSource.model_validate_json(line)
        except ValidationError as error:
            said = reword(error.errors(include_input=False)[0]["msg"])
            raise Permanent(
                f"line {number} of the list does not name a raster: {said}",
                code="raster.sources",
                remedy='Write a line like {"source": "bronze://delivery/dem.tif"} for each file; item_id is optional.',
            ) from None


def list_files(
    found: Sequence[Found], ids: Sequence[str], request: CollectionRequest, ctx: Context
) -> Iterator[ListedFile]:
    """The files with their ids and sizes, in the same order; those that can't be used with the reason."""
    with ThreadPoolExecutor(READERS) as pool:
        listed = pool.map(partial(_describe, collection=request.collection, ctx=ctx), found, ids)
        for number, file in enumerate(listed, 1):
            if number % FILES_PER_PROGRESS == 0:
                ctx.progress(number, len(found), file.source)
            yield file


def _describe(found: Found, item_id: str, collection: str, ctx: Context) -> ListedFile:
    one, stat = found
    try:
        stat = stat or ctx.storage.stat(one.source)
        plan_work(RasterRequest(source=one.source, collection=collection), stat, ctx.settings(RasterSettings))
    except AnabranchError as error:
        if error.category != "permanent":
            raise
        failure = Failure.of(error)
        return ListedFile(source=one.source, item_id=item_id, size=stat.size if stat else 0, failure=failure)
    return ListedFile(source=one.source, item_id=item_id, size=stat.size)


def name_items(sources: Sequence[NamedSource]) -> list[str]:
    """The ids of items: as given, else by base name; where several have the same, with the folder's, or a hash."""
    paths = [PurePosixPath(one.source) for one in sources]
    ids = [one.item_id or slug(path.name) for one, path in zip(sources, paths, strict=True)]
    for longer in (_add_folder, _add_hash):
        times = Counter(ids)
        ids = [
            item if times[item] == 1 or one.item_id else longer(path)
            for item, one, path in zip(ids, sources, paths, strict=True)
        ]
    if twice := [item for item, times in Counter(ids).items() if times > 1]:
        raise Permanent(
            f"several files have the same item_id: {', '.join(twice[:MAX_SHOWN])}",
            code="raster.sources",
            remedy="Give each an id of its own, or leave it out.",
        )
    return ids


def _add_folder(path: PurePosixPath) -> str:
    return slug(f"{path.parent.name}-{path.name}")


def _add_hash(path: PurePosixPath) -> str:
    return f"{slug(path.name)}-{sha256(str(path))[:10]}"


def pack_batches(files: Sequence[ListedFile]) -> list[tuple[ListedFile, ...]]:
    """Batches for one task each: small files together, large ones alone as long as there are not too many."""
    fewest = -(-len(files) // MAX_BATCHES)
    batches: list[list[ListedFile]] = []
    size = 0
    for file in files:
        full = not batches or len(batches[-1]) >= max(BATCH_FILES, fewest)
        if full or (size + file.size > BATCH_BYTES and len(batches[-1]) >= fewest):
            batches.append([])
            size = 0
        batches[-1].append(file)
        size += file.size
    return [tuple(batch) for batch in batches]
