"""Finds and reads what a job computes from: the raster and the layer that readers see when it begins."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from psycopg import Connection, sql
from psycopg.rows import dict_row
from pydantic import ValidationError

from anabranch.contract.mosaic import MosaicDocument
from anabranch.engine.worker.context import Context
from anabranch.errors import Conflict, NotFound, Permanent
from anabranch.plugins.stac.facts import Source
from anabranch.plugins.vector.publishing.derived import LayerFacts
from anabranch.plugins.vector.tables.load import find_layer
from anabranch.plugins.zonal.handler_models import PinnedLayer, PinnedRaster
from anabranch.plugins.zonal.models import MosaicTiles
from anabranch.sql_files import read_statements
from anabranch.storage.addresses import parse_address

__all__ = ["SQL", "find_polygons", "find_raster", "layer_query", "open_layer", "raster_facts", "stage_raster"]

SQL = Path(__file__).with_name("statements.sql")
COG_KINDS, MOSAIC = ("cog", "raster"), "mosaic"
TIMES = ("datetime", "start_datetime", "end_datetime")
SOFTWARE = ("exactextract", "pyproj", "rasterio", "shapely")
FindTiles = Callable[..., Any]  # of the sandbox, which returns JSON


def find_raster(ctx: Context, collection: str, item: str, asset: str) -> tuple[PinnedRaster, dict[str, Any]]:
    """The raster that an asset of an item shows, and the item's document."""
    with ctx.catalog() as connection, connection.cursor(row_factory=dict_row) as cursor:
        asked = {"collection": collection, "item": item, "asset": asset, "job_id": ctx.job_id}
        found = cursor.execute(read_statements(SQL)["find_asset"].encode(), asked).fetchone()
    if found is None or asset not in found["document"]["assets"]:
        what = f"item {collection}/{item} has no asset {asset}" if found else f"there is no item {collection}/{item}"
        known = ", ".join(sorted(found["document"]["assets"])) if found else ""
        remedy = f"Give one of its assets: {known}." if found else "`anabranch items list` shows what is published."
        raise NotFound("zonal.no_asset", what, remedy=remedy)
    kind, document, published = found.pop("kind"), found.pop("document"), set(found.pop("published"))
    if kind not in (*COG_KINDS, MOSAIC):
        what = f"is of the kind {kind}, and no raster" if kind else "is no raster that was published here"
        raise _no_raster(f"asset {asset} of {collection}/{item} {what}")
    found["publication"] = found.pop("number")
    raster = PinnedRaster(collection=collection, item=item, asset=asset, tiled=kind == MOSAIC, **found)
    if raster.tiled and not published.issuperset(_list_files(_read_mosaic(ctx, raster))):
        raise _no_raster(f"asset {asset} of {collection}/{item} is a mosaic of tiles that the item has not published")
    return raster, document


def _no_raster(what: str) -> Permanent:
    remedy = "Give the `asset` of a raster that `process_raster` published."
    return Permanent(what, code="zonal.kind", remedy=remedy)


def _read_mosaic(ctx: Context, raster: PinnedRaster) -> MosaicDocument:
    try:
        return MosaicDocument.model_validate_json(_stage(ctx, raster).read_bytes())
    except ValidationError as error:
        raise _no_raster(f"asset {raster.asset} of {raster.collection}/{raster.item} is no mosaic document") from error


def _list_files(document: MosaicDocument) -> set[str]:
    return {document.overview.address, *(tile.address for tile in document.tiles)}


def raster_facts(raster: PinnedRaster, document: dict[str, Any], title: str | None, description: str) -> LayerFacts:
    """What an item says that was computed from a raster: the time of the data is the raster's."""
    times = {name: document["properties"][name] for name in TIMES if document["properties"].get(name)}
    return LayerFacts.model_validate({
        "title": title, "description": description, **times,
        "source": Source(sha256=raster.sha256, name=parse_address(raster.address).name),
        "software": {name: version(name) for name in SOFTWARE},
    })  # fmt: skip


def stage_raster(ctx: Context, raster: PinnedRaster, find_tiles: FindTiles) -> dict[str, Path | MosaicTiles]:
    """The files as they were published, each brought to this machine once, as arguments of functions in the sandbox.

    Of a mosaic, these are the overview, and the tiles that `find_tiles` chooses.
    """
    if not raster.tiled:
        return {"raster": _stage(ctx, raster)}
    document, folder = _read_mosaic(ctx, raster), ctx.scratch / "tiles"
    folder.mkdir()
    overview = ctx.storage.stage(document.overview.address, document.overview.sha256).path
    every = MosaicTiles(grid=document.grid, windows=tuple(tile.window for tile in document.tiles))
    chosen = MosaicTiles.model_validate(find_tiles(raster=overview, mosaic=every, tiles=folder))
    for tile in document.tiles:
        if tile.window in chosen.windows:
            ctx.storage.stage(tile.address, tile.sha256).path.replace(folder / chosen.name(tile.window))
    return {"raster": overview, "mosaic": chosen, "tiles": folder}


def _stage(ctx: Context, raster: PinnedRaster) -> Path:
    return ctx.storage.stage(raster.address, raster.sha256, tag=raster.version).path


def find_polygons(ctx: Context, name: str) -> PinnedLayer:
    """The layer that readers see under a name, which has polygons."""
    shown = find_layer(ctx, name)
    if shown is None:
        remedy = "`anabranch items list` shows what is published."
        raise NotFound("vector.no_layer", f"there is no published layer {name}", remedy=remedy)
    if shown.geometry_type != "MultiPolygon":
        raise Permanent(
            f"layer {name} has geometries of the type {shown.geometry_type}",
            code="zonal.not_polygons",
            remedy="Give a layer of polygons.",
        )
    return PinnedLayer(
        name=name, collection=shown.collection, item=shown.item, publication=shown.number, has_z=shown.has_z
    )


@contextmanager
def open_layer(ctx: Context, layer: PinnedLayer) -> Iterator[Connection[Any]]:
    """A connection that may read published layers; what was read is of the publication that the job began with."""
    with ctx.database() as connection:
        yield connection
    now = find_layer(ctx, layer.name)  # numbers only rise, so this one was shown since the job began
    if now is None or now.number != layer.publication:
        raise Conflict(
            "zonal.layer_changed",
            f"layer geo.{layer.name} was publication {layer.publication} when the job began, and changed since",
            remedy="Submit the job again with `--rerun`.",
        )


def layer_query(file: Path, name: str, layer: PinnedLayer) -> sql.Composed:
    """A statement of a file that reads a layer."""
    return sql.SQL(read_statements(file)[name]).format(layer=sql.Identifier(layer.name))
