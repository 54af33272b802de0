"""Handlers of sync_folder: what is to be published, and the result."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from pydantic import Field, JsonValue, field_serializer

from anabranch.engine.failure import Failure
from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import NotFound, Permanent
from anabranch.plugins.storage.handlers import MAX_FILES
from anabranch.plugins.storage.sync.compare import Compared, Known, Status, Wanted, compare
from anabranch.plugins.storage.sync.request import CompareParams
from anabranch.sql_files import read_statements
from anabranch.storage.listed_files import FailedFile
from anabranch.storage.ndjson import Output, put_output, read_lines, write_lines
from anabranch.storage.tiers import Stat
from anabranch.strict_model import StrictModel

__all__ = ["compare_content", "compare_folder", "report_sync"]

SQL = Path(__file__).with_name("statements.sql")
PUBLISH = "publish"  # the node whose tasks publish the files
MAX_SHOWN = 100
TO_PUBLISH = (Status.NEW, Status.CHANGED)


class FolderPlan(StrictModel):
    """The files to publish, and a work file with a line for each file, in the same order."""

    files: tuple[Compared, ...]
    part: dict[str, JsonValue]


@handler("storage.compare_folder", queue="files", timeout_seconds=3_600)
def compare_folder(params: CompareParams, ctx: Context) -> FolderPlan:
    """Compare the files below a folder with what is published of them; a dry run has nothing to publish."""
    files = dict(islice(_list(params.folder, ctx), MAX_FILES + 1))
    if len(files) > MAX_FILES:
        raise Permanent(
            f"there are more than {MAX_FILES:,} files below {params.folder}",
            code="storage.too_many",
            remedy="Synchronize its subfolders, one after the other.",
        )
    # After the list: a file that was listed while it was written is young by this time.
    ((now,),) = _run(ctx, "now")
    rows = _run(ctx, "find_made_from", collection=params.collection, folder=params.folder, job_id=ctx.job_id)
    known = {row[0]: Known(*row) for row in rows}
    if not files and not known:
        raise NotFound(
            "storage.not_found",
            f"there is nothing below {params.folder}",
            remedy="Fix the folder, or send files to it; `anabranch storage ls` lists what there is.",
        )
    found = [*compare(files, known, now, Wanted.of(params.extensions, params.limit))]
    lines = (each.model_dump(mode="json", exclude={"versions", "sha256"}) for each in found)
    part = ctx.work.put(write_lines(ctx.scratch / "files.ndjson", lines))
    return FolderPlan(
        files=tuple(each for each in found if each.status in TO_PUBLISH and not params.dry_run), part=part
    )


class ContentParams(StrictModel):
    """Files that have another version than their items were made from, or have no item."""

    collection: str
    files: tuple[Compared, ...]
    dry_run: bool = False


class ComparedContent(StrictModel):
    """The files to publish, in the given order, and the addresses of those that have the same content."""

    files: tuple[Compared, ...]
    same: tuple[str, ...]


@handler("storage.compare_content", queue="files", timeout_seconds=64_800)
def compare_content(params: ContentParams, ctx: Context) -> ComparedContent:
    """Read the files whose hashes are known, and record the versions of those that have the same content."""
    same = {each.address: each for each in params.files if _is_same(each, ctx)}
    if same and not params.dry_run:
        versions = [each.model_dump(include={"item", "versions", "sha256"}) for each in same.values()]
        _run(ctx, "note_versions", collection=params.collection, files=json.dumps(versions))
    files = () if params.dry_run else tuple(each for each in params.files if each.address not in same)
    return ComparedContent(files=files, same=tuple(same))


def _is_same(file: Compared, ctx: Context) -> bool:
    try:
        return bool(file.sha256) and all(
            ctx.storage.open_ranges(address, file.versions[address]).sha256(ctx.progress) == sha256
            for address, sha256 in file.sha256.items()
        )
    except (NotFound, Permanent):  # it changed since it was listed, which the job that publishes it reports
        return False


def _list(folder: str, ctx: Context) -> Iterator[tuple[str, Stat]]:
    tier = folder.partition("://")[0]
    for number, each in enumerate(ctx.storage.walk(folder), 1):
        if number % 1_000 == 0:
            ctx.progress(number, None, each.key)
        yield f"{tier}://{each.key}", each


class SyncedFile(StrictModel):
    """A file or an item of a folder, and the result."""

    address: str
    item: str
    status: Status
    code: str | None = None
    message: str | None = None
    command: str | None = Field(None, description="The command that takes a vanished file's item out of the catalog.")


class ReportParams(StrictModel):
    """What was compared, the items that were published, and the files that failed but for those whose task did.

    `same` are the addresses of files that have the same content as before, although their version is another.
    """

    collection: str
    part: dict[str, JsonValue]
    items: tuple[tuple[dict[str, JsonValue], ...], ...]
    same: tuple[str, ...] = ()
    failures: tuple[FailedFile, ...] = ()
    dry_run: bool = False


class SyncReport(StrictModel):
    """How many files there are of each status, the first hundred of each, and the list of all as an output."""

    counts: dict[Status, int]
    files: dict[Status, tuple[SyncedFile, ...]]
    items: tuple[dict[str, JsonValue], ...]
    outputs: tuple[Output, ...]

    @field_serializer("files")
    def _leave_out_none(self, files: dict[Status, tuple[SyncedFile, ...]]) -> dict[Status, list[dict[str, JsonValue]]]:
        return {
            status: [each.model_dump(mode="json", exclude_none=True) for each in found]
            for status, found in files.items()
        }


@handler("storage.report_sync", queue="files", timeout_seconds=3_600)
def report_sync(params: ReportParams, ctx: Context) -> SyncReport:
    """Count the results of the files of a folder, and write the list."""
    same = frozenset(params.same)
    compared = (_settle(each, same) for each in read_lines([ctx.work.require(params.part)], Compared))
    files = compared if params.dry_run else _end(compared, params, ctx)
    counts, shown = Counter[Status](), dict[Status, tuple[SyncedFile, ...]]()

    def note(each: SyncedFile) -> dict[str, JsonValue]:
        counts[each.status] += 1
        if counts[each.status] <= MAX_SHOWN:
            shown[each.status] = (*shown.get(each.status, ()), each)
        return each.model_dump(mode="json", exclude_none=True)

    lines = (note(_describe(each, params.collection)) for each in files)
    outputs = (put_output(ctx.storage, write_lines(ctx.scratch / "files.ndjson", lines), "files"),)
    items = tuple(islice((item for batch in params.items for item in batch), MAX_SHOWN))
    return SyncReport(counts=dict(sorted(counts.items())), files=shown, items=items, outputs=outputs)


def _settle(file: Compared, same: Collection[str]) -> Compared:
    """The file with its status as it is after its content was compared."""
    if file.address not in same:
        return file
    return file.model_copy(update={"status": Status.UNCHANGED if file.shown else Status.WITHDRAWN})


def _describe(file: "Compared | SyncedFile", collection: str) -> SyncedFile:
    """A file as it is reported."""
    if isinstance(file, SyncedFile):
        return file
    command = None
    if file.status is Status.VANISHED:
        command = (
            f"anabranch items unpublish {collection}/{file.item} --expected {file.expected} --reason 'its file is gone'"
        )
    return SyncedFile(address=file.address, item=file.item, status=file.status, command=command)


def _end(compared: Iterable[Compared], params: ReportParams, ctx: Context) -> Iterator[Compared | SyncedFile]:
    """The files, those that were to be published with the result; one that is nowhere was rejected."""
    tasks = dict(_run(ctx, "list_failures", job_id=ctx.job_id, node=PUBLISH))
    failed = {each.address: each for each in params.failures}
    published = {item["id"] for batch in params.items for item in batch}
    places = count()
    for each in compared:
        if each.status not in TO_PUBLISH:
            yield each
            continue
        failure = _find_cause(Failure.read(tasks.get(next(places)))) or failed.get(each.address)
        if each.item in published:
            done = Status.PUBLISHED if each.status is Status.NEW else Status.REPLACED
            yield each.model_copy(update={"status": done})
        elif failure:
            said = {"code": failure.code, "message": failure.message}
            yield SyncedFile(address=each.address, item=each.item, status=Status.FAILED, **said)
        else:
            yield each.model_copy(update={"status": Status.REJECTED})


def _find_cause(failure: Failure | None) -> Failure | None:
    """Why the job of a file failed, rather than that it did."""
    return failure if failure is None or failure.cause is None else _find_cause(failure.cause)


def _run(ctx: Context, query: str, **parameters: str) -> list[tuple[Any, ...]]:  # rows of any columns
    with ctx.catalog() as connection:
        return [tuple(row) for row in connection.execute(read_statements(SQL)[query].encode(), parameters).fetchall()]
