"""Checks that tiles are a whole raster, merges their statistics, and lists them in a mosaic document (R2, R4)."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from anabranch.contract.mosaic import EmptyTile, Grid, MosaicDocument, MosaicTile, Overview
from anabranch.errors import Permanent
from anabranch.plugins.raster.models import Band, Profile, Projection, Statistics, Window
from anabranch.plugins.raster.tiles.models import Scheme, Tile, TileFacts

__all__ = ["build_document", "check_tiles", "merge_bands"]

MAX_SHOWN = 5
TOLERANCE_PIXELS = 1e-6


def check_tiles(scheme: Scheme, profile: Profile, tiles: Sequence[TileFacts]) -> None:
    """Raise an error that lists what keeps the tiles of a profile from being the whole raster."""
    wrong = [*_check_names(scheme, profile, tiles), *_check_grid(scheme.grid, tiles), *_check_bands(tiles)]
    if wrong:
        raise Permanent(
            f"the tiles failed verification: {'; '.join(wrong)}",
            code="raster.verify",
            remedy="It was not published: report this message as a bug in Anabranch.",
        )
    if all(one.cog is None for one in tiles):
        raise Permanent(
            "no tile has a valid pixel",
            code="raster.empty_pixels",
            remedy="Send a raster that has data, or choose a `target_crs` that covers it.",
        )


def _check_names(scheme: Scheme, profile: Profile, tiles: Sequence[TileFacts]) -> Iterator[str]:
    wanted = Counter((tile.name, tile.window) for tile in scheme.tiles if tile.tier == profile)
    found = Counter((one.tile.name, one.tile.window) for one in tiles if one.tile.tier == profile)
    if missing := wanted - found:
        yield f"{missing.total()} tiles are missing: {_list(missing)}"
    if more := found - wanted:
        yield f"{more.total()} tiles are not in the scheme, or twice: {_list(more)}"
    if sum(tile.window.width * tile.window.height for tile in scheme.tiles if tile.tier == profile) != (
        scheme.grid.width * scheme.grid.height
    ):
        yield "the tiles of the scheme don't fill the grid"


def _list(names: Counter[tuple[str, Window]]) -> str:
    shown = ", ".join(sorted(name for name, _ in names)[:MAX_SHOWN])
    return shown if len(names) <= MAX_SHOWN else f"{shown}, …"


def _check_grid(grid: Grid, tiles: Sequence[TileFacts]) -> Iterator[str]:
    """Each tile has been compared with its window of the source; here, that all windows are of one grid."""
    for one in tiles:
        if one.written.transform is None:
            continue
        a, b, _, d, e, _ = grid.transform
        west, north = grid.place(one.tile.window.column, one.tile.window.row)
        expected, found = (a, b, west, d, e, north), one.written.transform
        if any(abs(x - y) > TOLERANCE_PIXELS * abs(a) for x, y in zip(expected, found, strict=True)):
            yield f"the geotransform of {one.tile.name} is {found} instead of {expected}"


def _check_bands(tiles: Sequence[TileFacts]) -> Iterator[str]:
    described = {tuple(band.model_copy(update={"statistics": None}) for band in one.bands) for one in tiles if one.cog}
    if len(described) > 1:
        yield "the tiles differ in their bands, data types or nodata values"


def merge_bands(tiles: Sequence[TileFacts], grid: Grid) -> tuple[Band, ...]:
    """The bands of the whole raster; its statistics are exact, since those of its tiles are."""
    stored = [one for one in tiles if one.cog]
    return tuple(
        band.model_copy(update={"statistics": _merge([(one.tile, one.bands[number]) for one in stored], grid)})
        for number, band in enumerate(stored[0].bands)
    )


def _merge(parts: Sequence[tuple[Tile, Band]], grid: Grid) -> Statistics | None:
    known = [
        (round(band.statistics.valid_percent / 100 * tile.window.width * tile.window.height), band.statistics)
        for tile, band in parts
        if band.statistics
    ]
    valid = sum(count for count, _ in known)
    if not valid:
        return None
    mean = math.fsum(count * one.mean for count, one in known) / valid
    squares = math.fsum(count * (one.stddev**2 + (one.mean - mean) ** 2) for count, one in known)
    return Statistics(
        minimum=min(one.minimum for _, one in known),
        maximum=max(one.maximum for _, one in known),
        mean=mean,
        stddev=math.sqrt(squares / valid),
        valid_percent=100.0 * valid / (grid.width * grid.height),
        exact=True,
    )


def build_document(
    grid: Grid,
    projection: Projection,
    overview: Overview,
    tiles: Sequence[tuple[str, TileFacts]],
) -> MosaicDocument:
    """The document of tiles, each with the name that it is published by."""
    return MosaicDocument(
        crs=projection.code,
        projjson=projection.projjson,
        grid=grid,
        overview=overview,
        tiles=tuple(
            MosaicTile(**one.cog.model_dump(), name=name, window=one.tile.window, bounds=grid.bounds(one.tile.window))
            for name, one in tiles
            if one.cog
        ),
        empty=tuple(EmptyTile(name=name, window=one.tile.window) for name, one in tiles if one.cog is None),
    )
