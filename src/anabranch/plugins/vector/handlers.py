"""Handlers on vector files: they fetch and store files, and open untrusted files only in a sandbox."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import Conflict, NotFound, Permanent
from anabranch.plugins.stac.item_facts import read_vector_item
from anabranch.plugins.vector.handler_models import (
    Chunk,
    Cleaned,
    CleanParams,
    Finished,
    FinishParams,
    Loaded,
    Plan,
    Report,
    ShownLayer,
    StagedTable,
)
from anabranch.plugins.vector.models import CleanedTable, LayerReport, ReadOptions
from anabranch.plugins.vector.publishing.derived import put_report, require_own_item
from anabranch.plugins.vector.publishing.describe import describe_item, table_output
from anabranch.plugins.vector.reading.file_names import name_plainly
from anabranch.plugins.vector.request import VectorRequest
from anabranch.plugins.vector.sandbox_calls import convert_in_sandbox, sandbox_folder
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.plugins.vector.tables.chunk_copier import ChunkCopier
from anabranch.plugins.vector.tables.load import (
    copy_chunk,
    find_item_layer,
    find_last_gid,
    find_layer,
    find_published,
    finish_table,
    require_own_name,
)
from anabranch.plugins.vector.tables.names import name_base, name_layers
from anabranch.storage.listed_files import PlannedFile

__all__ = ["finish_tables", "load_chunk", "preflight", "validate_and_clean"]

QUEUE = "vector"
MB = 2**20
LOST = {
    "not_of_its_type": "values that are not of their column's type are null",
    "not_utf8": "bytes that are not UTF-8 are replaced",
    "impossible_date": "impossible dates and times are null",
    "nanoseconds_cut": "times are cut to microseconds",
    "json_not_finite": "numbers that JSON does not have are null",
    "collection_parts_lost": "only the parts of the highest dimension are left",
}
NO_TIME = "The time of the data is unknown; set `datetime` to give it."


@handler("vector.preflight", queue="files", timeout_seconds=120)
def preflight(params: VectorRequest, ctx: Context) -> Plan:
    """Return the plan for a vector file; nothing of it is read."""
    found = ctx.storage.stat(params.source)
    name = PurePosixPath(found.key).name
    _check_size(name, found.size, ctx.settings(VectorSettings).vector_max_mb)
    table = params.table or _find_layer_name(params, ctx) or name_base(name)
    shown = find_layer(ctx, table) if params.mode == "append" else None
    _require_layer(params, table, shown)
    require_own_item(ctx, params.collection, params.item_id or table)
    if shown is None:
        require_own_name(ctx, table, params.collection, params.item_id or table)
    file = PlannedFile.of(params.source, found, params.collection)
    return Plan(
        **file.model_dump(),
        table=table,
        shown=shown,
        last_gid=find_last_gid(ctx, table) if shown else 0,
        warnings=() if params.datetime or shown else (NO_TIME,),
    )


def _find_layer_name(params: VectorRequest, ctx: Context) -> str | None:
    """The name of the layer that the item shows: its views are what readers use."""
    return find_item_layer(ctx, params.collection, params.item_id) if params.item_id else None


def _check_size(name: str, size: int, most_mb: int) -> None:
    if size == 0:
        raise Permanent(f"{name} has zero bytes", code="vector.empty", remedy="Upload the file again.")
    if size > most_mb * MB:
        raise Permanent(
            f"{name} has {size // MB} MB, and the limit is {most_mb} MB",
            code="vector.too_large",
            remedy="Send a smaller file, or ask the operator to raise ANABRANCH_VECTOR_MAX_MB.",
        )


def _require_layer(params: VectorRequest, table: str, shown: ShownLayer | None) -> None:
    """Refuse to add rows to a layer that is not there, or is another item's."""
    if params.mode != "append":
        return
    if shown is None:
        remedy = "Publish it first, without `mode`; `anabranch items list` shows what is published."
        raise NotFound("vector.no_layer", f"there is no published layer {table} to add rows to", remedy=remedy)
    if (shown.collection, shown.item) != (params.collection, params.item_id or shown.item):
        raise Conflict(
            "vector.other_item",
            f"layer {table} is item {shown.collection}/{shown.item}",
            remedy=f"Give `collection` {shown.collection}, and `item_id` {shown.item} or none.",
        )
    if params.expected not in (None, shown.number):
        what = f"item {shown.collection}/{shown.item} is at number {shown.number} by now, not {params.expected}"
        raise Conflict("publication.moved", what)


@handler("vector.validate_and_clean", queue=QUEUE, timeout_seconds=21_600)
def validate_and_clean(params: CleanParams, ctx: Context) -> Cleaned:
    """Read a vector file, clean its rows, and copy them to a table for each layer; what is left to copy is in files."""
    plan, folder, settings = params.plan, sandbox_folder(ctx), ctx.settings(VectorSettings)
    staged = ctx.storage.stage(params.source, tag=plan.tag)
    copier = ChunkCopier(ctx, folder, plan.table)
    with copier.running():
        converted = convert_in_sandbox(
            ctx, copier.add, source=_link_plainly(staged.path, ctx), folder=folder, settings=settings,
            options=ReadOptions(**params.model_dump(include=set(ReadOptions.model_fields))), **plan.target(),
        )  # fmt: skip
        chunks = copier.finish(most_bytes=settings.vector_chunk_mb * MB)
    tables = _describe_tables(plan, converted.tables, copier)
    warnings = (*plan.warnings, *chain.from_iterable(map(_list_warnings, converted.reports)))
    report = Report(
        source=params.source,
        sha256=staged.sha256,
        layers=converted.reports,
        warnings=warnings,
        software=converted.software,
    )
    return Cleaned(
        sha256=staged.sha256,
        tables=tables,
        chunks=tuple(chunks),
        warnings=warnings,
        report=put_report(ctx, report),
        software=converted.software,
    )


def _list_warnings(layer: LayerReport) -> Iterator[str]:
    yield from layer.warnings
    yield from _warn_of_dropped(layer)
    yield from _warn_of_lost(layer)


def _warn_of_dropped(layer: LayerReport) -> Iterator[str]:
    reasons = ", ".join(f"{found.count:,} {why}" for why, found in layer.dropped.items())
    if not layer.rows:
        yield f"The layer {layer.layer} has no features, and was left out."
    elif not layer.written:
        yield f"The layer {layer.layer} was left out, because all of its {layer.rows:,} rows were dropped: {reasons}."
    elif count := layer.rows - layer.written:
        yield f"{count:,} of {layer.rows:,} rows of the layer {layer.layer} were dropped: {reasons}."


def _warn_of_lost(layer: LayerReport) -> Iterator[str]:
    for why, what in LOST.items():
        if found := layer.changed.get(why):
            rows, first = f"{found.count:,} rows of the layer {layer.layer}", found.samples[0]
            shown = f" ({first.what})" if first.what else ""
            yield f"{rows} lost something ({why}): {what}, as in row {first.row:,}{shown}."


def _link_plainly(path: Path, ctx: Context) -> Path:
    """The file under a name that libraries can open."""
    name = name_plainly(path.name)
    if name == path.name:
        return path
    link = ctx.scratch / "source" / name
    link.parent.mkdir()
    link.symlink_to(path)
    return link


def _describe_tables(plan: Plan, tables: Sequence[CleanedTable], copier: ChunkCopier) -> tuple[StagedTable, ...]:
    return tuple(
        StagedTable(
            **table.model_dump(exclude={"key", "mixed", "has_z"}),
            table=copier.name(table.key),
            name=name,
            size=copier.sizes[table.key],
        )
        for name, table in zip(name_layers(plan.table, tables), tables, strict=True)
    )


@handler("vector.load_chunk", queue=QUEUE, timeout_seconds=3_600)
def load_chunk(params: Chunk, ctx: Context) -> Loaded:
    """Copy one file of rows into its table; a repeated attempt copies nothing twice."""
    return Loaded(rows=copy_chunk(ctx, params, ctx.work.require(params.file)))


@handler("vector.finish_tables", queue=QUEUE, timeout_seconds=21_600)
def finish_tables(params: FinishParams, ctx: Context) -> Finished:
    """Index the loaded tables, compare them with what was read, and describe their items."""
    cleaned = params.cleaned
    for number, table in enumerate(cleaned.tables):
        finish_table(ctx, table)
        ctx.progress(number + 1, len(cleaned.tables), table.name)
    item = params.item_id or (params.plan.shown.item if params.plan.shown else None)
    before = find_published(ctx, params.plan.table) if params.plan.shown else None
    facts = read_vector_item(before.document, before.files, before.shown.parts) if before else None
    ids = [item if item and len(cleaned.tables) == 1 else table.name for table in cleaned.tables]
    return Finished(
        outputs=(*map(table_output, cleaned.tables), cleaned.report),
        items=tuple(describe_item(params, table, id_, facts) for table, id_ in zip(cleaned.tables, ids, strict=True)),
        warnings=cleaned.warnings,
        report=cleaned.report.href,
    )
