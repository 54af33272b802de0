"""The handler of export_catalog: what is published becomes files, which are read again before they are stored."""

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch import Context, handler
from anabranch.errors import InputError
from anabranch.geo.boxes import Box
from anabranch.plugins.stac.exports.models import Exported, ExportParams
from anabranch.plugins.stac.facts import CatalogItem, Footprint
from anabranch.plugins.stac.facts import Output as ItemOutput
from anabranch.plugins.stac.settings import StacSettings
from anabranch.storage.ndjson import Output, write_lines

if TYPE_CHECKING:
    from anabranch.plugins.stac.exports.snapshot import Snapshot

__all__ = ["export_catalog"]

SOFTWARE = ("pyarrow", "pystac", "shapely")
# The files that are assets of the item: kind, key and title.
ASSETS = {
    "catalog.json": ("static_catalog", "catalog", "Static STAC catalog"),
    "items.parquet": ("stac_geoparquet", "items", "Items as stac-geoparquet"),
}


@handler("stac.export_catalog", queue="files", timeout_seconds=21_600)
def export_catalog(params: ExportParams, ctx: Context) -> Exported:
    """Write published collections as a static catalog and their items as stac-geoparquet into gold, and verify both."""
    from anabranch.plugins.stac.exports.snapshot import copy_documents  # late: only this needs a database

    snapshot = copy_documents(
        ctx, ctx.scratch / "documents.ndjson", params.collections, _find_root(params, ctx),
        max_items=ctx.settings(StacSettings).stac_export_max_items,
    )  # fmt: skip
    folder = ctx.scratch / "catalog"
    folder.mkdir()
    warnings = _write(params, snapshot, folder, ctx)
    outputs = _put(folder, ctx)
    item = _describe(params, snapshot, outputs)
    facts = write_lines(ctx.scratch / "facts.ndjson", [item], exclude_none=True)
    return Exported(
        facts=(ctx.work.put(facts),),
        outputs=tuple(Output(**each.model_dump(include=set(Output.model_fields))) for each in outputs if each.asset),
        exported=snapshot.items,
        warnings=tuple(warnings),
    )


def _find_root(params: ExportParams, ctx: Context) -> str:
    root = params.base_url or ctx.public_url
    if root is None:
        raise InputError(
            "export.no_url",
            "nothing says by which URL readers reach the files of items",
            remedy="Give `base_url`, like https://data.example.org, or ask the operator to set ANABRANCH_PUBLIC_URL.",
        )
    return root


def _write(params: ExportParams, snapshot: "Snapshot", folder: Path, ctx: Context) -> list[str]:
    """Write the files and read them again; returns warnings."""
    from anabranch.plugins.stac.exports.geoparquet import verify_geoparquet, write_geoparquet  # late: large libraries
    from anabranch.plugins.stac.exports.static_catalog import ITEMS_FILE, About, write_static_catalog
    from anabranch.plugins.stac.exports.verify_static_catalog import verify_static_catalog

    listed = f"{'Collections' if len(snapshot.collections) > 1 else 'Collection'} {', '.join(snapshot.collections)}"
    about = About(params.id, params.description or f"{listed}, as published.", params.title)
    write_static_catalog(snapshot, folder, about)
    ctx.progress(1, 5, "the static catalog is written")
    verify_static_catalog(folder, snapshot)
    ctx.progress(2, 5, "the static catalog is verified")
    warnings = write_geoparquet(snapshot, folder / ITEMS_FILE)
    ctx.progress(3, 5, "the GeoParquet file is written")
    verify_geoparquet(folder / ITEMS_FILE, snapshot)
    ctx.progress(4, 5, "the GeoParquet file is verified")
    return warnings


def _put(folder: Path, ctx: Context) -> list[ItemOutput]:
    """Store the files in gold, where links between them work."""
    from anabranch.plugins.stac.exports.static_catalog import media_type_of

    outputs = []
    for name, put in ctx.storage.put_folder(folder, tier="gold", media_type=media_type_of).items():
        kind, asset, title = ASSETS.get(name, ("catalog_file", None, None))
        output = ItemOutput(
            kind=kind, href=put.address, media_type=put.media_type, size=put.size, sha256=put.sha256,
            asset=asset, name=name, title=title,
        )  # fmt: skip
        outputs.append(output)
    return outputs


def _describe(params: ExportParams, snapshot: "Snapshot", outputs: list[ItemOutput]) -> CatalogItem:
    box = Box(*snapshot.extent["spatial"]["bbox"][0])
    start, end = snapshot.extent["temporal"]["interval"][0]
    return CatalogItem(
        id=params.id,
        title=params.title,
        description=params.description,
        footprint=Footprint.model_validate(box.to_geojson()),
        bbox=box,
        start_datetime=start,
        end_datetime=end,
        outputs=outputs,
        software={name: version(name) for name in SOFTWARE},
        collections=list(snapshot.collections),
        items=snapshot.items,
    )
