"""A raster made into tiles by the handlers, as workers call them, without a worker or a database."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import rasterio

from anabranch.contract.mosaic import MosaicDocument
from anabranch.plugins.raster.handler_models import ValidateParams, Verified
from anabranch.plugins.raster.handlers import validate
from anabranch.plugins.raster.models import Checked
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.plugins.raster.tiles.handler_models import MosaicParams, SchemeParams, TileParams
from anabranch.plugins.raster.tiles.handlers import generate_tiling_scheme, process_tile, verify_mosaic
from anabranch.plugins.raster.tiles.models import Scheme, TileFile
from anabranch.testing import FakeContext

__all__ = ["TiledRaster", "read_mosaic", "tile_settings"]


def tile_settings(side: int, **more: Any) -> tuple[RasterSettings, ...]:
    """Tiles of this side."""
    return (RasterSettings(raster_tile_min_pixels=side, raster_tile_max_pixels=side, **more),)


@dataclass
class TiledRaster:
    """A raster in the bronze tier of a folder, and the steps that it goes through."""

    folder: Path
    name: str
    side: int
    options: dict[str, Any]
    settings: dict[str, int] = field(default_factory=dict)

    def context(self, index: int | str = 0) -> FakeContext:
        return FakeContext(
            self.folder, settings=tile_settings(self.side, **self.settings), index=f"{self.side}-{index}"
        )

    def check(self) -> tuple[Checked, dict[str, Any]]:
        """The checked raster, and the parameters that all further steps have."""
        address, ctx = f"bronze://in/{self.name}", self.context()
        digest = ctx.storage.stage(address).sha256
        checked = validate(ValidateParams(source=address, sha256=digest, tiling="always", **self.options), ctx)
        assert checked.tiled
        target = self.options.get("target_crs")
        return checked, {"source": address, "sha256": digest, "raster": checked.raster, "target_crs": target}

    def plan(self) -> tuple[Scheme, dict[str, Any]]:
        checked, source = self.check()
        return generate_tiling_scheme(SchemeParams(**source, tiers=checked.tiers), self.context()), source

    def process(self, scheme: Scheme, source: dict[str, Any]) -> Iterator[TileFile]:
        for number, tile in enumerate(scheme.tiles):
            params = TileParams(**source, tile=tile, overviews=scheme.grid.overviews)
            yield process_tile(params, self.context(number))

    def make(self) -> Verified:
        """All steps."""
        scheme, source = self.plan()
        tiles = tuple(self.process(scheme, source))
        params = MosaicParams(**source, scheme=scheme, tiles=tiles, modified=datetime.now(UTC))
        return verify_mosaic(params, self.context("mosaic"))

    def document(self, made: Verified) -> MosaicDocument:
        """The mosaic document of the first profile."""
        return MosaicDocument.model_validate_json(self.path(made.outputs[0].href).read_bytes())

    def path(self, address: str) -> Path:
        return self.folder / address.replace("://", "/")


def read_mosaic(raster: TiledRaster, document: MosaicDocument, fill: float) -> Any:  # an array of numpy's
    """All pixels of a mosaic, with a value where tiles are empty; an error where two tiles overlap."""
    whole, seen = None, np.zeros((document.grid.height, document.grid.width), int)
    for tile in document.tiles:
        with rasterio.open(raster.path(tile.address)) as src:
            if whole is None:
                whole = np.full((src.count, *seen.shape), fill, src.dtypes[0])
            at = tile.window
            place = slice(at.row, at.row + at.height), slice(at.column, at.column + at.width)
            assert tuple(src.bounds) == tuple(tile.bounds)
            whole[:, *place] = src.read()
            seen[place] += 1
    for empty in document.empty:
        at = empty.window
        seen[at.row : at.row + at.height, at.column : at.column + at.width] += 1
    assert (seen == 1).all()
    return whole
