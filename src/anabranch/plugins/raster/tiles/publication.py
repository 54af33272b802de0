"""What a raster in tiles is published with: mosaic documents, overviews, tiles, and one item."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import JsonValue

from anabranch.contract.mosaic import MOSAIC_TYPE, MosaicDocument, Overview, StoredFile
from anabranch.engine.worker.context import Context
from anabranch.plugins.raster.handler_models import Verified, VerifiedCog
from anabranch.plugins.raster.item.publication import (
    ASSETS,
    COG_TYPE,
    Span,
    describe_item,
    find_span,
    name_cog,
    publish_verified,
)
from anabranch.plugins.raster.models import Profile
from anabranch.plugins.raster.tiles.handler_models import Mosaic, MosaicParams, MosaicReport, TileReport
from anabranch.plugins.raster.tiles.models import TileFacts
from anabranch.plugins.stac.facts import Output, RasterItem
from anabranch.storage.ndjson import write_lines

__all__ = ["collect_mosaics", "put_document", "put_file", "put_overview", "put_tile_items"]


def collect_mosaics(params: MosaicParams, ctx: Context, mosaics: Sequence[Mosaic], thumbnail: Path) -> Verified:
    """Describe the mosaics, their tiles and the item, which shows the first mosaic, and store the report."""
    cogs = [
        VerifiedCog(
            tier=one.tier,
            **one.document.overview.model_dump(include=set(StoredFile.model_fields)),
            verified=one.overview,
        )
        for one in mosaics
    ]
    tiles = tuple(TileReport(tile=one.tile, written=one.written) for mosaic in mosaics for one in mosaic.tiles)
    return publish_verified(
        params,
        ctx,
        mosaics[0].inspected,
        cogs,
        (output for mosaic in mosaics for output in _list_outputs(params.raster.name, mosaic)),
        thumbnail,
        lambda report: MosaicReport(**dict(report), grid=params.scheme.grid, tiles=tiles),
    )


def put_tile_items(params: MosaicParams, ctx: Context, mosaics: Sequence[Mosaic], verified: Verified) -> JsonValue:
    """A work file with an item for each tile that has data; all are drawn alike, as the whole raster is."""
    span, _ = find_span(params.datetime, params.raster, params.modified)
    tiles = zip(*(mosaic.tiles for mosaic in mosaics), strict=True)
    items = filter(None, (_describe_tile(params, mosaics[0], each, span, verified) for each in tiles))
    return ctx.work.put(write_lines(ctx.scratch / "items.ndjson", items, exclude_none=True))


def _describe_tile(
    params: MosaicParams, mosaic: Mosaic, tiles: Sequence[TileFacts], span: Span, verified: Verified
) -> RasterItem | None:
    """The item of a tile, which has a COG for each profile."""
    first, item = tiles[0], f"{verified.item.id}{tiles[0].tile.name.removeprefix('tile')}"
    found = first.written.inspected
    if first.cog is None or found is None or first.thumbnail is None:
        return None
    cogs = [
        _output(
            "cog", one.cog, name_cog(params.raster.name, one.tile.tier, one.tile.name), COG_TYPE, ASSETS[one.tile.tier]
        )
        for one in tiles
        if one.cog
    ]
    outputs = (*cogs, _output("thumbnail", first.thumbnail, "thumbnail.png", "image/png"), verified.outputs[-1])
    whole = mosaic.inspected
    drawn = found.model_copy(update={"shown": whole.shown, "stretch": whole.stretch})
    return describe_item(params.model_copy(update={"item_id": item}), drawn, span, outputs)


def put_overview(name: str, profile: Profile, factor: int, path: Path, ctx: Context) -> Overview:
    """Store the COG of the whole raster."""
    named = name_cog(name, profile, "overview")
    return Overview(**dict(put_file(ctx, path, named, COG_TYPE)), name=named, factor=factor)


def put_document(name: str, profile: Profile, document: MosaicDocument, ctx: Context) -> StoredFile:
    """Store the document of a mosaic."""
    path = ctx.scratch / f"{profile}.json"
    path.write_text(document.model_dump_json(indent=2) + "\n")
    return put_file(ctx, path, _name_document(name, profile), MOSAIC_TYPE)


def put_file(ctx: Context, path: Path, name: str, media_type: str) -> StoredFile:
    """Store a file in the silver tier."""
    put = ctx.storage.put(path, name=name, media_type=media_type)
    return StoredFile(address=put.address, size=put.size, sha256=put.sha256)


def _list_outputs(name: str, mosaic: Mosaic) -> Iterator[Output]:
    asset, document = ASSETS[mosaic.tier], mosaic.document
    named = _name_document(name, mosaic.tier)
    yield _output("mosaic", mosaic.stored, named, MOSAIC_TYPE, asset)
    overview = "overview" if mosaic.tier is Profile.ANALYSIS else f"{asset}-overview"
    yield _output("overview", document.overview, document.overview.name, COG_TYPE, overview)
    for tile in document.tiles:
        yield _output("tile", tile, tile.name, COG_TYPE)
    for one in mosaic.tiles:
        if one.thumbnail:
            yield _output("tile_thumbnail", one.thumbnail, f"{one.tile.name}.png", "image/png")


def _name_document(name: str, profile: Profile) -> str:
    return name_cog(name, profile, "mosaic", "json")


def _output(kind: str, stored: StoredFile, name: str, media_type: str, asset: str | None = None) -> Output:
    return Output(
        kind=kind,
        asset=asset,
        name=name,
        href=stored.address,
        media_type=media_type,
        size=stored.size,
        sha256=stored.sha256,
    )
