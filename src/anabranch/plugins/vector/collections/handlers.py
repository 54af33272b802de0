"""Handlers of vector collections: files are listed, each is cleaned by itself, and the set is judged as a whole."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from anabranch.canonical import Json
from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import AnabranchError, Permanent
from anabranch.plugins.vector.collections.handler_models import (
    CleanedFile,
    CleanedPart,
    CleanFileParams,
    CollectionPlan,
    FileReport,
    FinishedPart,
    FinishFileParams,
    ListedFile,
    SetParams,
    SetReport,
    Verdict,
)
from anabranch.plugins.vector.collections.request import CollectionRequest
from anabranch.plugins.vector.handler_models import CleanParams, FinishParams, Output
from anabranch.plugins.vector.handlers import finish_tables, preflight, validate_and_clean
from anabranch.plugins.vector.reading.formats import SUFFIXES
from anabranch.plugins.vector.request import VectorRequest
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.plugins.vector.tables.names import make_unique, name_base
from anabranch.sandbox.faults import Failure, is_fault_of_file, refuse_set
from anabranch.storage.ndjson import read_lines, write_lines

__all__ = ["check_files", "clean_file", "finish_file", "plan_files", "refuse_files"]

QUEUE = "vector"
MAX_BASE_CHARS = 40
MAX_OUTPUTS = 1_000  # that a result lists; the report names the tables of all


@handler("vector.plan_collection", queue="files", timeout_seconds=3_600)
def plan_files(params: CollectionRequest, ctx: Context) -> CollectionPlan:
    """List the files of a set, and name their tables; no file is read."""
    most = ctx.settings(VectorSettings).vector_max_files
    sources = list(params.sources) or list(_walk(params, ctx, most))
    _check_count(params, len(sources), most)
    files: list[ListedFile] = []
    for source in sources:
        table = make_unique(name_base(PurePosixPath(source).name), [file.table for file in files], MAX_BASE_CHARS)
        files.append(_describe(source, table, ctx))
    return CollectionPlan(
        count=len(files),
        total_bytes=sum(file.size for file in files),
        failed=sum(1 for file in files if file.failure),
        files=tuple(files),
    )


def _walk(params: CollectionRequest, ctx: Context, most: int) -> Iterator[str]:
    """The addresses of vector files below a folder, at most one more than allowed."""
    folder, wanted, count = str(params.folder), frozenset(params.extensions) or SUFFIXES, 0
    for stat in ctx.storage.walk(folder):
        if PurePosixPath(stat.key).suffix.lower() in wanted and count <= most:
            count += 1
            yield f"{folder.partition('://')[0]}://{stat.key}"


def _check_count(params: CollectionRequest, count: int, most: int) -> None:
    if count == 0:
        raise Permanent(
            f"there is no vector file in {params.folder}",
            code="vector.no_sources",
            remedy="Check the address with `anabranch storage ls`, and the extensions.",
        )
    if count > most:
        raise Permanent(
            f"there are more than {most:,} files",
            code="vector.too_many",
            remedy="Publish them in several jobs, or ask the operator to raise ANABRANCH_VECTOR_MAX_FILES.",
        )


def _describe(source: str, table: str, ctx: Context) -> ListedFile:
    try:
        found = ctx.storage.stat(source)
        return ListedFile(source=source, table=table, size=found.size, tag=found.tag)
    except AnabranchError as error:
        return ListedFile(source=source, table=table, failure=_blame(error, ctx))


def _blame(error: AnabranchError, ctx: Context) -> Failure:
    """The failure of a file; the error itself where trying again may help."""
    if is_fault_of_file(error, ctx):
        return Failure.of(error)
    raise error


@handler("vector.clean_file", queue=QUEUE, timeout_seconds=21_600)
def clean_file(params: CleanFileParams, ctx: Context) -> CleanedPart:
    """Clean one file of a set as `vector.validate_and_clean` does; its error does not stop the others."""
    done = _clean(params, ctx)
    part = ctx.work.put(write_lines(ctx.scratch / "cleaned.ndjson", [done]))
    if done.cleaned is None:
        return CleanedPart(part=part)
    return CleanedPart(part=part, chunks=done.cleaned.chunks, outputs=(done.cleaned.report,))


def _clean(params: CleanFileParams, ctx: Context) -> CleanedFile:
    file = params.file
    if file.failure:
        return CleanedFile(file=file, failure=file.failure)
    request = VectorRequest(source=file.source, table=file.table, **params.model_dump(exclude={"file"}))
    try:
        plan = preflight(request, ctx)
        plan = plan.model_copy(update={"tag": file.tag or plan.tag})
        cleaned = validate_and_clean(CleanParams(plan=plan, **request.model_dump()), ctx)
    except AnabranchError as error:
        return CleanedFile(file=file, failure=_blame(error, ctx))
    return CleanedFile(file=file, plan=plan, cleaned=cleaned)


@handler("vector.check_collection", queue="files", timeout_seconds=3_600)
def check_files(params: SetParams, ctx: Context) -> Verdict:
    """Write the report of a set, which is accepted if every file can be published under names of its own."""
    files = _refuse_same_names([_report(one) for one in _read(ctx, params.parts)])
    failed = [(file.source, file.failure) for file in files if file.failure]
    path = ctx.scratch / "report.json"
    report = SetReport(collection=params.collection, count=len(files), failed=len(failed), files=tuple(files))
    path.write_text(report.model_dump_json(indent=2, exclude_defaults=True) + "\n")
    put = ctx.storage.put(path, media_type="application/json")
    return Verdict(
        accepted=not failed,
        failure=refuse_set(failed, len(files), code="vector.files") if failed else None,
        count=len(files),
        failed=len(failed),
        warnings=tuple(f"{file.source}: {line}" for file in files for line in file.warnings)[:MAX_OUTPUTS],
        outputs=(Output(kind="report", href=put.address, media_type=put.media_type, size=put.size, sha256=put.sha256),),
        report=put.address,
    )


def _report(one: CleanedFile) -> FileReport:
    file, cleaned = one.file, one.cleaned
    if cleaned is None:
        return FileReport(source=file.source, size=file.size, failure=one.failure)
    return FileReport(
        source=file.source,
        size=file.size,
        tables=tuple(table.name for table in cleaned.tables),
        rows=sum(table.rows for table in cleaned.tables),
        warnings=cleaned.warnings,
        report=cleaned.report.href,
    )


def _refuse_same_names(files: Sequence[FileReport]) -> list[FileReport]:
    """Refuse files whose layers have the same name: `map.gpkg` with a layer `roads`, and `map_roads.gpkg`."""
    taken = Counter(table for file in files for table in file.tables)
    return [
        file.model_copy(update={"failure": _same_name(twice[0])})
        if (twice := [table for table in file.tables if taken[table] > 1])
        else file
        for file in files
    ]


def _same_name(table: str) -> Failure:
    message = f"another file has a layer that becomes the table {table}, too"
    return Failure(code="vector.names", message=message, remedy="Rename one of the files.")


@handler("vector.finish_file", queue=QUEUE, timeout_seconds=21_600)
def finish_file(params: FinishFileParams, ctx: Context) -> FinishedPart:
    """Finish the tables of a file of a set as `vector.finish_tables` does."""
    (one,) = _read(ctx, [params.part])
    if one.plan is None or one.cleaned is None:
        raise Permanent(f"{one.file.source} was not cleaned", code="vector.files")
    wanted = FinishParams(source=one.file.source, plan=one.plan, cleaned=one.cleaned, datetime=params.datetime)
    finished = finish_tables(wanted, ctx)
    items = write_lines(ctx.scratch / "items.ndjson", finished.items, exclude_none=True)
    return FinishedPart(items=ctx.work.put(items), outputs=finished.outputs)


@handler("vector.refuse_files", queue="files", timeout_seconds=60)
def refuse_files(params: Failure, ctx: Context) -> None:
    """Fail with the reason why a set is refused; its report is an output of the step before."""
    raise Permanent(params.message, code=params.code, remedy=params.remedy)


def _read(ctx: Context, parts: Sequence[Json]) -> Iterator[CleanedFile]:
    for path in map(ctx.work.require, parts):
        yield from read_lines([path], CleanedFile)
