"""Functions on polygons and rasters that run in the sandbox: JSON in, JSON out (decision 011)."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.ma  # numpy imports it at its first use, which would be in each call
import pyarrow as pa
import shapely
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.errors import RasterioError

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import MAX_SAMPLES
from anabranch.plugins.vector.tables.chunk_writer import write_part
from anabranch.plugins.zonal.models import BandStatistics, Measured, MosaicTiles, columns_of
from anabranch.plugins.zonal.settings import ZonalSettings
from anabranch.plugins.zonal.statistics import Progress
from anabranch.plugins.zonal.statistics import find_tiles as find_touched_tiles
from anabranch.plugins.zonal.statistics import measure as measure_polygons
from anabranch.sandbox.functions import sandbox_function

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Geometries
    from anabranch.plugins.zonal.statistics import Mask

__all__ = ["find_tiles", "in_sandbox", "measure"]


def _explain(error: Exception, given: Mapping[str, object]) -> Permanent:
    return Permanent(
        f"{Path(str(given.get('raster'))).name} can't be processed: {error}",
        code="zonal.library",
        remedy="Verify the raster with `anabranch verify`; report a bug if it is as it was published.",
    )


in_sandbox = sandbox_function((RasterioError, CPLE_BaseError, shapely.errors.ShapelyError, RuntimeError), _explain)


@in_sandbox
def find_tiles(raster: Path, mosaic: MosaicTiles, tiles: Path, polygons: Path, *, progress: Progress) -> MosaicTiles:
    """The tiles of a mosaic that polygons touch; `raster` is its overview, and no tile is read."""
    return find_touched_tiles(raster, mosaic, tiles, _read_polygons(polygons)[1])


@in_sandbox
def measure(
    raster: Path,
    polygons: Path,
    folder: Path,
    wanted: BandStatistics,
    settings: ZonalSettings,
    mosaic: MosaicTiles | None = None,
    tiles: Path | None = None,
    *,
    progress: Progress,
) -> Measured:
    """Write the rows of polygons with their statistics; of a mosaic, `raster` is the overview."""
    gids, geometry = _read_polygons(polygons)
    found = measure_polygons(raster, geometry, wanted, settings.zonal_memory_mb, progress, mosaic, tiles)
    part = write_part(folder, columns_of(wanted.statistics), gids, geometry, found.columns)
    return Measured(
        **dict(part),
        outside=int(found.outside.sum()),
        outside_gids=_sample(gids, found.outside),
        without_data=int(found.without_data.sum()),
        without_data_gids=_sample(gids, found.without_data),
    )


def _read_polygons(path: Path) -> "tuple[np.typing.NDArray[np.int64], Geometries]":
    """The polygons of an Arrow file of gids and WKB."""
    with pa.memory_map(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
        return table["gid"].to_numpy(), shapely.from_wkb(table["geometry"].to_numpy())


def _sample(gids: "np.typing.NDArray[np.int64]", chosen: "Mask") -> tuple[int, ...]:
    return tuple(gids[chosen][:MAX_SAMPLES].tolist())
