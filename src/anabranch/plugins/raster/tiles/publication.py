"""What a raster in tiles is published with: mosaic documents, overviews, tiles, and one item."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from anabranch.contract.mosaic import MOSAIC_TYPE, MosaicDocument, Overview, StoredFile
from anabranch.engine.worker.context import Context
from anabranch.plugins.raster.handler_models import Verified, VerifiedCog
from anabranch.plugins.raster.item.publication import (
    ASSETS,
    COG_TYPE,
    name_cog,
    publish_verified,
)
from anabranch.plugins.raster.models import Profile
from anabranch.plugins.raster.tiles.handler_models import Mosaic, MosaicParams, MosaicReport, TileReport
from anabranch.plugins.stac.facts import Output

__all__ = ["collect_mosaics", "put_document", "put_overview"]


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


def put_overview(name: str, tier: Profile, factor: int, path: Path, ctx: Context) -> Overview:
    """Store the COG of the whole raster."""
    named = name_cog(name, tier, "overview")
    put = ctx.storage.put(path, name=named, media_type=COG_TYPE)
    return Overview(address=put.address, size=put.size, sha256=put.sha256, name=named, factor=factor)


def put_document(name: str, tier: Profile, document: MosaicDocument, ctx: Context) -> StoredFile:
    """Store the document of a mosaic."""
    path = ctx.scratch / f"{tier}.json"
    path.write_text(document.model_dump_json(indent=2) + "\n")
    put = ctx.storage.put(path, name=_name_document(name, tier), media_type=MOSAIC_TYPE)
    return StoredFile(address=put.address, size=put.size, sha256=put.sha256)


def _list_outputs(name: str, mosaic: Mosaic) -> Iterator[Output]:
    asset, document = ASSETS[mosaic.tier], mosaic.document
    named = _name_document(name, mosaic.tier)
    yield _output("mosaic", mosaic.stored, named, MOSAIC_TYPE, asset)
    overview = "overview" if mosaic.tier is Profile.ANALYSIS else f"{asset}-overview"
    yield _output("overview", document.overview, document.overview.name, COG_TYPE, overview)
    for tile in document.tiles:
        yield _output("tile", tile, tile.name, COG_TYPE)


def _name_document(name: str, tier: Profile) -> str:
    return name_cog(name, tier, "mosaic", "json")


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
