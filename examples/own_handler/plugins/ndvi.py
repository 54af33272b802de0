"""The vegetation index of a scene."""

from pathlib import Path

import numpy as np
import rasterio
from pydantic import BaseModel, Field

from anabranch import Context, Permanent, handler

NODATA = -9999.0


class NdviParams(BaseModel):
    """A scene, and the numbers of its bands."""

    source: str
    red: int = Field(1, ge=1)
    nir: int = Field(2, ge=1)


class NdviResult(BaseModel):
    """The address of the index, and its mean."""

    ndvi: str
    mean: float


@handler("vegetation.ndvi", heavy=True, timeout_seconds=3600)
def create_ndvi(params: NdviParams, ctx: Context) -> NdviResult:
    """Compute the normalized difference vegetation index of one scene."""
    source = ctx.storage.fetch(params.source)
    target = ctx.scratch / f"{Path(params.source).stem}_ndvi.tif"
    mean = write_ndvi(source, target, params.red, params.nir)
    ctx.progress(1, 1, f"mean {mean:.3f}")
    return NdviResult(ndvi=ctx.storage.put(target, media_type="image/tiff").address, mean=mean)


def write_ndvi(source: Path, target: Path, red: int, nir: int) -> float:
    """Write the index of a raster as another raster; returns its mean."""
    with rasterio.open(source) as scene:
        if max(red, nir) > scene.count:
            raise Permanent(f"the scene has {scene.count} bands; bands {red} and {nir} are needed")
        r, n = scene.read([red, nir]).astype("f4")
        profile = scene.profile | {"count": 1, "dtype": "float32", "nodata": NODATA}
        tags = scene.tags()
    total = r + n
    ndvi = np.divide(n - r, total, out=np.full_like(r, NODATA), where=total != 0)
    with rasterio.open(target, "w", **profile) as file:
        file.write(ndvi, 1)
        file.update_tags(**tags)
    return float(ndvi[total != 0].mean()) if total.any() else 0.0
