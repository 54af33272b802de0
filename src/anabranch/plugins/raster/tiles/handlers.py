"""Handlers of large rasters: they plan tiles, make each in a task of its own, and publish them as one."""

import re
from pathlib import Path
from shutil import disk_usage

from anabranch.contract.mosaic import Grid
from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import Resource
from anabranch.plugins.raster.formats.prepare import fetch_again
from anabranch.plugins.raster.handler_models import CogSource
from anabranch.plugins.raster.handlers import is_stored
from anabranch.plugins.raster.item.publication import COG_TYPE, name_cog
from anabranch.plugins.raster.models import CogOptions, Inspected, Profile
from anabranch.plugins.raster.sandbox_calls import run_in_sandbox, sandbox_folder
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.plugins.raster.tiles.handler_models import (
    Mosaic,
    MosaicParams,
    SchemeParams,
    TileBatch,
    TileBatchParams,
    TileParams,
    VerifiedMosaic,
)
from anabranch.plugins.raster.tiles.models import (
    Joined,
    Scheme,
    Tile,
    TileFacts,
    TileFile,
    TileLimits,
    WrittenTile,
    cut_tiles,
)
from anabranch.plugins.raster.tiles.mosaic import build_document, check_tiles, merge_bands
from anabranch.plugins.raster.tiles.publication import (
    collect_mosaics,
    put_document,
    put_file,
    put_overview,
    put_tile_items,
)

__all__ = ["generate_tiling_scheme", "process_tile", "process_tile_batch", "verify_mosaic"]

QUEUE = "raster"
MB = 1_000_000
MAX_PLANNED_TILES = 800  # that one item can list, and one result of a task hold
# A tile is rewritten, then copied with temporary overviews: its pixels twice, and a third of them.
DISK_SHARE = 7 / 3


@handler("raster.generate_tiling_scheme", queue=QUEUE, timeout_seconds=3_600)
def generate_tiling_scheme(params: SchemeParams, ctx: Context) -> Scheme:
    """Plan the tiles of a raster on its target grid."""
    settings = ctx.settings(RasterSettings)
    grid = run_in_sandbox(
        ctx,
        "plan",
        Grid,
        source=fetch_again(ctx, params),
        options=params.options(params.tiers[0], settings.raster_memory_mb),
        limits=TileLimits(
            wanted_bytes=settings.raster_tile_mb * MB,
            min_pixels=settings.raster_tile_min_pixels,
            max_pixels=max(settings.raster_tile_min_pixels, settings.raster_tile_max_pixels),
            max_tiles=MAX_PLANNED_TILES // len(params.tiers),
        ),
    )
    return Scheme(grid=grid, tiles=tuple(tile for profile in params.tiers for tile in cut_tiles(grid, profile)))


@handler("raster.process_tile", queue=QUEUE, timeout_seconds=21_600)
def process_tile(params: TileParams, ctx: Context) -> TileFile:
    """Write, verify and store one tile; one that an earlier attempt stored is reused."""
    if (done := ctx.resume()) and done.phase == "put" and _is_there(ctx, found := TileFile.model_validate(done.state)):
        return found
    made = _make_tile(params, params.tile, params.overviews, ctx, as_item=params.tile_items)
    ctx.checkpoint("put", made.model_dump(mode="json"))
    return made


@handler("raster.process_tile_batch", queue=QUEUE, timeout_seconds=86_400)
def process_tile_batch(params: TileBatchParams, ctx: Context) -> TileBatch:
    """The same for several tiles, one after the other; those that an earlier attempt stored are reused."""
    done = ctx.resume()
    made = list(TileBatch.model_validate(done.state).tiles) if done and done.phase == "put" else []
    made = [one for one in made if _is_there(ctx, one)]
    known = {(one.name, one.tier) for one in made}
    for tile in params.tiles:
        if (tile.name, tile.tier) not in known:
            made.append(_make_tile(params, tile, params.overviews, ctx))
            ctx.checkpoint("put", TileBatch(tiles=tuple(made)).model_dump(mode="json"))
    return TileBatch(tiles=tuple(made))


def _make_tile(params: CogSource, tile: Tile, overviews: int, ctx: Context, *, as_item: bool = False) -> TileFile:
    _require_disk(params, tile, ctx.scratch)
    folder = sandbox_folder(ctx)
    cog, overview, thumbnail = folder / "cog.tif", folder / "overview.tif", folder / "thumbnail.png"
    options = params.options(tile.tier, ctx.settings(RasterSettings).raster_memory_mb)
    written = run_in_sandbox(
        ctx,
        "write_tile",
        WrittenTile,
        source=fetch_again(ctx, params),
        cog=cog,
        overview=overview,
        options=options.model_copy(update={"window": tile.window, "overviews": overviews}),
        **({"thumbnail": thumbnail} if as_item else {}),
    )
    facts = TileFacts(tile=tile, written=written)
    if written.compared:
        stored = put_file(ctx, cog, name_cog(params.raster.name, tile.tier, tile.name), COG_TYPE)
        shown = put_file(ctx, thumbnail, f"{tile.name}.png", "image/png") if as_item else None
        kept = ctx.work.put(overview, f"{tile.tier}.{tile.name}.tif")
        facts = facts.model_copy(update={"cog": stored, "overview": kept, "thumbnail": shown})
    aside = ctx.scratch / "facts.json"
    aside.write_text(facts.model_dump_json())
    return TileFile(name=tile.name, tier=tile.tier, facts=ctx.work.put(aside, f"{tile.tier}.{tile.name}.json"))


def _require_disk(params: CogSource, tile: Tile, folder: Path) -> None:
    """Raise before any work where the disk can't hold it."""
    bits = int(re.sub(r"\D", "", params.raster.dtype))  # float32, uint8, …
    needed = int(DISK_SHARE * tile.window.width * tile.window.height * len(params.raster.bands) * bits / 8)
    free = disk_usage(folder).free
    if free < needed:
        raise Resource(
            f"{tile.name} needs {needed:,} bytes of disk while it is written, and {folder} has {free:,} free",
            code="raster.disk",
            remedy="Free disk space there, or lower ANABRANCH_RASTER_TILE_MB; then run the job again.",
        )


def _is_there(ctx: Context, found: TileFile) -> bool:
    """Whether the objects of an earlier attempt still exist, with their full size."""
    path = ctx.work.fetch(found.facts)
    if path is None:
        return False
    facts = TileFacts.model_validate_json(path.read_bytes())
    return facts.cog is None or is_stored(ctx, facts.cog.address, facts.cog.size)


@handler("raster.verify_mosaic", queue=QUEUE, timeout_seconds=21_600)
def verify_mosaic(params: MosaicParams, ctx: Context) -> VerifiedMosaic:
    """Check that all tiles are there and meet exactly, describe the whole, and collect the outputs and items."""
    thumbnail = sandbox_folder(ctx) / "thumbnail.png"
    mosaics = [_join(params, profile, thumbnail, ctx) for profile in params.profiles]
    verified = collect_mosaics(params, ctx, mosaics, thumbnail)
    items = [put_tile_items(params, ctx, mosaics, verified)] if params.tile_items else []
    return VerifiedMosaic(**dict(verified), tile_items=tuple(items))


def _join(params: MosaicParams, profile: Profile, thumbnail: Path, ctx: Context) -> Mosaic:
    tiles = [
        TileFacts.model_validate_json(ctx.work.require(one.facts).read_bytes()) for one in params.tiles_of(profile)
    ]
    check_tiles(params.scheme, profile, tiles)
    grid, bands = params.scheme.grid, merge_bands(tiles, params.scheme.grid)
    stored = [one for one in tiles if one.cog]
    folder = sandbox_folder(ctx) / profile
    folder.mkdir()
    for one in stored:
        ctx.work.require(one.overview).replace(folder / f"{one.tile.name}.tif")
    cog = sandbox_folder(ctx) / f"{profile}.tif"
    inspected = run_in_sandbox(
        ctx,
        "join",
        Inspected,
        folder=folder,
        joined=Joined(
            grid=grid,
            nodata=bands[0].nodata,
            tiles=tuple(one.tile for one in stored),
            valid=tuple(one.written.valid for one in stored if one.written.valid),
        ),
        cog=cog,
        thumbnail=thumbnail,
        options=_overview_options(params, profile, ctx),
    )
    overview = put_overview(params.raster.name, profile, grid.factor, cog, ctx)
    named = [(name_cog(params.raster.name, profile, one.tile.name), one) for one in tiles]
    document = build_document(grid, inspected.projection, overview, named)
    whole = inspected.model_copy(update={"compared": inspected.compared.model_copy(update={"bands": bands})})
    return Mosaic(
        tier=profile,
        inspected=whole,
        overview=inspected.compared,
        document=document,
        stored=put_document(params.raster.name, profile, document, ctx),
        tiles=tuple(tiles),
    )


def _overview_options(params: MosaicParams, profile: Profile, ctx: Context) -> CogOptions:
    """How to write the COG of joined overviews, which have been repaired and reprojected."""
    raster = params.raster
    return CogOptions(
        kind=raster.kind,
        discrete=raster.discrete,
        profile=profile,
        memory_mb=ctx.settings(RasterSettings).raster_memory_mb,
    )
