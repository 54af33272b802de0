"""Handlers of raster collections: files are listed, then checked, compared, converted and verified in batches."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import takewhile
from pathlib import PurePosixPath
from shutil import rmtree
from typing import TypeVar

from anabranch.canonical import Json
from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import AnabranchError, Permanent
from anabranch.plugins.raster.collections.handler_models import (
    CheckedBatch,
    CheckParams,
    CollectionPlan,
    Converted,
    ConvertedBatch,
    ConvertParams,
    SetParams,
)
from anabranch.plugins.raster.collections.listing import find_sources, list_files, name_items, pack_batches
from anabranch.plugins.raster.collections.models import CheckedSource, FileReport, ListedFile, WorkFile
from anabranch.plugins.raster.collections.report import Verdict, judge_set
from anabranch.plugins.raster.collections.request import CollectionRequest
from anabranch.plugins.raster.handler_models import CogSource, ValidateParams, Verified, VerifyParams
from anabranch.plugins.raster.handlers import is_stored, preflight, require_own_items, store_cog, validate, verify
from anabranch.plugins.raster.models import ValidateOptions
from anabranch.plugins.raster.request import RasterRequest
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.plugins.stac.facts import Output
from anabranch.sandbox.faults import Failure, is_fault_of_file
from anabranch.storage.ndjson import read_lines, write_lines
from anabranch.strict_model import StrictModel

__all__ = [
    "check_rasters",
    "collect_rasters",
    "compare_rasters",
    "convert_rasters",
    "plan_collection",
    "refuse_rasters",
]

QUEUE = "raster"
MAX_SHOWN = 100
Model = TypeVar("Model", bound=StrictModel)


@handler("raster.plan_collection", queue="files", timeout_seconds=3_600)
def plan_collection(params: CollectionRequest, ctx: Context) -> CollectionPlan:
    """List the files of a set, name their items, and pack them into batches; no file is read."""
    found = find_sources(params, ctx, ctx.settings(RasterSettings).raster_max_files)
    ids = name_items([one for one, _ in found])
    require_own_items(params.collection, ids, ctx)
    files = list(list_files(found, ids, params, ctx))
    failures = [file for file in files if file.failure]
    return CollectionPlan(
        count=len(files),
        total_bytes=sum(file.size for file in files),
        failed=len(failures),
        items=tuple(files[:MAX_SHOWN]),
        failures=tuple(failures[:MAX_SHOWN]),
        batches=tuple(pack_batches(files)),
    )


@handler("raster.check_rasters", queue=QUEUE, timeout_seconds=21_600)
def check_rasters(params: CheckParams, ctx: Context) -> CheckedBatch:
    """Check each raster of a batch as `raster.validate` does; an error of one does not stop the others."""
    checked: list[CheckedSource] = []
    for number, file in enumerate(params.files, 1):
        checked.append(_check(file, params, ctx))
        ctx.progress(number, len(params.files), file.source)
        rmtree(ctx.scratch)
    failed = sum(1 for one in checked if one.failure)
    return CheckedBatch(part=_put(ctx, "checked.ndjson", checked), count=len(checked), failed=failed)


def _check(file: ListedFile, params: CheckParams, ctx: Context) -> CheckedSource:
    if file.failure:
        return CheckedSource(file=file, failure=file.failure)
    try:
        plan = preflight(RasterRequest(source=file.source, **params.model_dump(exclude={"files"})), ctx)
        options = params.model_dump(include=set(ValidateOptions.model_fields))
        wanted = ValidateParams(source=file.source, tag=plan.tag, pin=plan.pin, sidecars=plan.sidecars, **options)
        checked = validate(wanted, ctx)
        if checked.tiled:
            raise Permanent(
                f"{plan.name} has {checked.pixels:,} pixels and {plan.size:,} bytes, which is too large for one COG",
                code="raster.too_large",
                remedy="Publish it into the same collection with `process_raster`, and the others without it.",
            )
    except AnabranchError as error:
        return CheckedSource(file=file, failure=_blame(error, ctx))
    return CheckedSource(file=file, plan=plan, checked=checked)


def _blame(error: AnabranchError, ctx: Context) -> Failure:
    """The failure of a file; the error itself where trying again may help."""
    if is_fault_of_file(error, ctx):
        return Failure.of(error)
    raise error


@handler("raster.compare_rasters", queue="files", timeout_seconds=3_600)
def compare_rasters(params: SetParams, ctx: Context) -> Verdict:
    """Compare the checked rasters of a set, and write a report with all that failed or differs."""
    files = [_report(one) for one in _read(ctx, params.parts, CheckedSource)]
    return judge_set(params.collection, files, ctx, allow_mixed=params.allow_mixed)


@handler("raster.convert_rasters", queue=QUEUE, timeout_seconds=86_400)
def convert_rasters(params: ConvertParams, ctx: Context) -> ConvertedBatch:
    """Write and verify the COGs of each raster of a batch; those that an earlier attempt finished are reused."""
    rasters = list(_read(ctx, [params.part], CheckedSource))
    done = ctx.resume()
    made = list(takewhile(partial(_is_there, ctx), _read(ctx, [done.state] if done else [], Converted)))
    for one in rasters[len(made) :]:
        rmtree(ctx.scratch)
        made.append(_convert(one, params.target_crs, ctx))
        ctx.progress(len(made), len(rasters), one.file.source)
        ctx.checkpoint("converted", _put(ctx, "converted.ndjson", made))
    return ConvertedBatch(
        items=_put(ctx, "items.ndjson", [one.item for one in made if one.item]),
        part=_put(ctx, "reports.ndjson", [one.report for one in made]),
        outputs=tuple(output for one in made for output in one.report.outputs),
        failed=sum(1 for one in made if one.report.failure),
    )


def _is_there(ctx: Context, made: Converted) -> bool:
    return all(is_stored(ctx, output.href, output.size) for output in made.report.outputs)


def _convert(one: CheckedSource, target_crs: str | None, ctx: Context) -> Converted:
    plan, checked = one.plan, one.checked
    if plan is None or checked is None:
        return Converted(report=_report(one))
    source = CogSource(
        source=plan.source, sha256=checked.sha256, pin=plan.pin, raster=checked.raster, target_crs=target_crs
    )
    try:
        made = VerifyParams(
            **dict(source),
            cogs=tuple(store_cog(source, profile, ctx) for profile in checked.tiers),
            item_id=one.file.item_id,
            datetime=plan.datetime,
            modified=datetime.fromisoformat(plan.modified),
            notices=plan.warnings,
            versions=plan.versions,
        )
        found = verify(made, ctx)
    except AnabranchError as error:
        return Converted(report=_report(one, failure=_blame(error, ctx)))
    outputs = tuple(_name(output, one.file.item_id) for output in found.outputs)
    verified = found.model_copy(update={"outputs": outputs})
    return Converted(report=_report(one, verified), item=found.item.model_copy(update={"outputs": list(outputs)}))


def _name(output: Output, item_id: str) -> Output:
    """An output with a name that no other file of the set has."""
    part = "" if output.asset == "data" else f".{output.asset}"
    return output.model_copy(update={"name": f"{item_id}{part}{PurePosixPath(output.name or output.href).suffix}"})


def _report(one: CheckedSource, verified: Verified | None = None, failure: Failure | None = None) -> FileReport:
    checked = one.checked.raster.warnings if one.checked else ()
    return FileReport(
        source=one.file.source,
        item_id=one.file.item_id,
        size=one.file.size,
        sha256=one.checked.sha256 if one.checked else "",
        facts=one.facts,
        warnings=verified.warnings if verified else checked,
        outputs=verified.outputs if verified else (),
        failure=failure or one.failure,
    )


@handler("raster.collect_rasters", queue="files", timeout_seconds=3_600)
def collect_rasters(params: SetParams, ctx: Context) -> Verdict:
    """Write the report of a converted set, which is accepted if every COG was verified."""
    files = list(_read(ctx, params.parts, FileReport))
    return judge_set(params.collection, files, ctx, allow_mixed=params.allow_mixed)


@handler("raster.refuse_rasters", queue="files", timeout_seconds=60)
def refuse_rasters(params: Failure, ctx: Context) -> None:
    """Fail with the reason why a set is refused; its report is an output of the step before."""
    raise Permanent(params.message, code=params.code, remedy=params.remedy)


def _put(ctx: Context, name: str, lines: Sequence[StrictModel]) -> WorkFile:
    return ctx.work.put(write_lines(ctx.scratch / name, lines))


def _read(ctx: Context, parts: Sequence[Json], model: type[Model]) -> Iterator[Model]:
    """The models of work files, which are on this machine one at a time."""
    for path in map(ctx.work.require, parts):
        yield from read_lines([path], model)
        path.unlink()
