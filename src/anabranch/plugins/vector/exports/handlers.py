"""Handlers on published layers: they copy rows out of the database, and have files written of them in a sandbox."""

from pathlib import Path

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import Conflict, NotFound, Permanent
from anabranch.plugins.stac.facts import Output as ItemOutput
from anabranch.plugins.stac.item_facts import read_vector_item
from anabranch.plugins.vector.exports.copy_layer import copy_layer
from anabranch.plugins.vector.exports.handler_models import ExportedLayer, ExportParams, LayerInventory, LayerParams
from anabranch.plugins.vector.exports.models import ExportFormat, ExportOptions
from anabranch.plugins.vector.handler_models import Output, PublishedLayer
from anabranch.plugins.vector.sandbox_calls import export_in_sandbox, sandbox_folder
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.plugins.vector.tables.load import find_published, may_publish

__all__ = ["export_layer", "show_layer"]

QUEUE = "vector"
MEDIA_TYPES: dict[ExportFormat, str] = {
    "geoparquet": "application/vnd.apache.parquet",
    "flatgeobuf": "application/flatgeobuf",
    "pmtiles": "application/vnd.pmtiles",
    "csv": "text/csv",
}
TITLES: dict[ExportFormat, str] = {
    "geoparquet": "GeoParquet", "flatgeobuf": "FlatGeobuf", "pmtiles": "PMTiles", "csv": "CSV with WKT"
}  # fmt: skip


@handler("vector.show_layer", queue="files", timeout_seconds=60)
def show_layer(params: LayerParams, ctx: Context) -> LayerInventory:
    """The item, tables and rows of a published layer."""
    shown = _require_layer(ctx, params.layer).shown
    facts = shown.model_dump(include={"collection", "item", "number", "rows", "parts"})
    return LayerInventory(table=f"geo.{params.layer}", **facts)


@handler("vector.export_layer", queue=QUEUE, timeout_seconds=21_600)
def export_layer(params: ExportParams, ctx: Context) -> ExportedLayer:
    """Write the rows of a published layer to files in gold, and describe its item with them."""
    layer = _require_layer(ctx, params.layer)
    shown, folder = layer.shown, sandbox_folder(ctx)
    _check(ctx, params, layer)
    rows = copy_layer(ctx, params.layer, shown.columns, ctx.scratch / f"{params.layer}.copy")
    geometry_type = shown.geometry_type + (" Z" if shown.has_z else "")
    options = ExportOptions(geometry_type=geometry_type, columns=shown.columns, **params.model_dump())
    made = export_in_sandbox(ctx, source=rows, folder=folder, options=options)
    if made.rows != shown.rows:
        raise _changed(params.layer)
    outputs = {name: _put(ctx, name, folder / file) for name, file in made.files.items()}
    item = read_vector_item(layer.document, layer.files, shown.parts)
    kept = [output for output in item.outputs if output.asset not in outputs]
    facts = {
        "outputs": [*kept, *(_asset(name, output, made.files[name]) for name, output in outputs.items())],
        "software": {**item.software, **made.software},
        "expected": shown.number,
    }
    return ExportedLayer(
        collection=shown.collection,
        items=(item.model_copy(update=facts),),
        outputs=tuple(outputs.values()),
        rows=made.rows,
        max_zoom=made.max_zoom,
    )


def _require_layer(ctx: Context, name: str) -> PublishedLayer:
    found = find_published(ctx, name)
    if found is None:
        what, remedy = f"there is no published layer {name}", "`anabranch items list` shows what is published."
        raise NotFound("vector.no_layer", what, remedy=remedy)
    return found


def _check(ctx: Context, params: ExportParams, layer: PublishedLayer) -> None:
    """Refuse what can't be published, or would take too long, before any work."""
    shown, most = layer.shown, ctx.settings(VectorSettings).vector_pmtiles_max_rows
    if not may_publish(ctx, shown.collection, shown.item):
        what = f"layer {params.layer} is item {shown.collection}/{shown.item}, which belongs to another platform"
        raise Conflict("publication.owner", what, remedy="That platform can export it.")
    if "pmtiles" in params.formats and shown.rows > most:
        raise Permanent(
            f"layer {params.layer} has {shown.rows:,} features, and PMTiles are made of at most {most:,}",
            code="vector.pmtiles_rows",
            remedy="Leave pmtiles out of `formats`: /features serves tiles of any layer; or ask the operator to raise"
            " ANABRANCH_VECTOR_PMTILES_MAX_ROWS.",
        )


def _changed(layer: str) -> Conflict:
    what = f"layer {layer} was changed while it was exported"
    return Conflict("publication.moved", what, remedy="Submit the job again with `--rerun`.")


def _put(ctx: Context, name: ExportFormat, path: Path) -> Output:
    """Store a file in gold; it is removed from scratch at once."""
    put = ctx.storage.put(path, tier="gold", media_type=MEDIA_TYPES[name])
    path.unlink()
    return Output(kind=name, href=put.address, media_type=put.media_type, size=put.size, sha256=put.sha256)


def _asset(name: ExportFormat, output: Output, file: str) -> ItemOutput:
    return ItemOutput(**output.model_dump(), asset=name, name=file, title=TITLES[name])
