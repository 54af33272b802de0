"""The facts of a raster as a handler gives them, for tests of what is made of them."""

from hashlib import sha256
from pathlib import Path
from typing import Any

from psycopg import Connection

from anabranch.canonical import Json
from anabranch.plugins.stac.catalog import Publication, publish
from anabranch.plugins.stac.facts import RasterItem
from anabranch.plugins.stac.item import Origin, build_item, find_outputs

__all__ = ["put_item", "raster_facts", "raster_item"]


def raster_facts(item: str = "dem", **changes: Json) -> dict[str, Json]:
    """A small DEM of one band near Bonn, with a COG and a thumbnail."""
    west, south = 7.0, 50.5
    ring: list[Json] = [
        [west, south],
        [west + 0.2, south],
        [west + 0.2, south + 0.2],
        [west, south + 0.2],
        [west, south],
    ]
    facts: dict[str, Json] = {
        "id": item,
        "kind": "dem",
        "title": "Heights",
        "crs": "EPSG:25832",
        "shape": [400, 300],
        "transform": [10.0, 0.0, 360000.0, 0.0, -10.0, 5620000.0],
        "bounds": [360000.0, 5616000.0, 363000.0, 5620000.0],
        "bands": [
            {
                "name": "height", "data_type": "float32", "nodata": "nan", "unit": "m", "scale": 1, "offset": 0,
                "statistics": {
                    "minimum": 41.5, "maximum": 460.25, "mean": 120.125, "stddev": 33.0, "valid_percent": 98.5,
                },
            }
        ],
        "footprint": {"type": "Polygon", "coordinates": [ring]},
        "datetime": "2024-05-01T10:30:00Z",
        "outputs": [
            {
                "kind": "cog", "href": f"silver://jobs/1/cog/0/1/{item}.tif", "size": 123456, "sha256": "ab" * 32,
                "media_type": "image/tiff; application=geotiff; profile=cloud-optimized",
            },
            {
                "kind": "thumbnail", "href": f"silver://jobs/1/cog/0/1/{item}.png", "media_type": "image/png",
                "size": 2345, "sha256": "cd" * 32,
            },
        ],
        "source": {"sha256": "ef" * 32, "name": "heights.tif"},
        "software": {"GDAL": "3.10.0"},
        "renders": {"default": {"rescale": [[41.5, 460.25]], "colormap_name": "terrain"}},
    }  # fmt: skip
    return facts | changes


def raster_item(item: str = "dem", **changes: Json) -> RasterItem:
    """The same, checked."""
    return RasterItem.model_validate(raster_facts(item, **changes))


def put_item(
    connection: Connection[Any],
    home: Path,
    item: str,
    content: str,
    collection: str = "heights",
    *,
    again: bool = False,
    file: str | None = None,
) -> None:
    """Publish an item whose one file has this content, by a job of its own; `again` writes no file."""
    job = sha256(content.encode()).hexdigest()
    key = f"jobs/{job}/cog/0/1-{job[:8]}/{file or item}.tif"
    if not again:
        (home / "silver" / key).parent.mkdir(parents=True, exist_ok=True)
        (home / "silver" / key).write_text(content)
    output: dict[str, Json] = {
        "kind": "cog", "href": f"silver://{key}", "size": len(content), "name": "dem.tif",
        "sha256": job, "media_type": "image/tiff",
    }  # fmt: skip
    raster = raster_item(item, outputs=[output])
    document = build_item(collection, raster, Origin(job), "0.1.0")
    publish(connection, collection, job, [Publication(document, find_outputs(raster))])
