"""A tile index: the footprints of all GeoTIFFs below a folder of a tier, in one GeoJSON file."""

import json
from typing import Any

import rasterio
from rasterio.warp import transform_geom
from shapely.geometry import box, mapping

from anabranch import Context, Retry, expr, handler, item, task, workflow


@handler("footprints.read")
def read_footprint(address: str, ctx: Context) -> dict[str, Any]:
    """The footprint of a raster in degrees, as a GeoJSON feature."""
    with rasterio.open(ctx.storage.fetch(address)) as raster:
        geometry = transform_geom(raster.crs, "EPSG:4326", mapping(box(*raster.bounds)), precision=6)
        properties = {"address": address, "width": raster.width, "height": raster.height, "crs": str(raster.crs)}
    return {"type": "Feature", "geometry": geometry, "properties": properties}


@handler("footprints.write")
def write_index(features: list[dict[str, Any]], name: str, ctx: Context) -> str:
    """Store the features as one file; returns its address."""
    path = ctx.scratch / f"{name}.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return ctx.storage.put(path, tier="gold", media_type="application/geo+json").address


@workflow
def index_folder(folder: str, name: str = "footprints") -> dict[str, Any]:
    """Index the rasters of a folder."""
    found = task("storage.list")(folder=folder, extensions=["tif", "tiff"])
    footprints = read_footprint.map(found["files"], address=item["address"], retry=Retry(3))
    return {"index": write_index(features=footprints.items, name=name), "rasters": expr.length(found["files"])}
