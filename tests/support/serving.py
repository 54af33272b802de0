"""Rasters made by code, published, and the API that serves them, in a process of its own."""

import asyncio
import hashlib
import os
import signal
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg.types.json import Jsonb

from anabranch.access import DEFAULT_PLATFORM, KeyRequest, Scope
from anabranch.adapters.postgres.store.keys import open_keys
from anabranch.app import open_marks
from anabranch.settings import Settings
from anabranch.storage.locations import StorageLocations
from anabranch.storage.marks import adopt_storage
from tests.support.server import free_port
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.warm import WarmProcess, start_warm

__all__ = [
    "COG",
    "JOB",
    "Raster",
    "Served",
    "add_item",
    "add_items",
    "add_old_items",
    "file_of",
    "make_key",
    "serve_api",
    "write_crossing",
    "write_raster",
    "write_rasters",
]

COG = "image/tiff; application=geotiff; profile=cloud-optimized"
JOB = "5e" * 32
PROJECTION = "https://stac-extensions.github.io/projection/v2.0.0/schema.json"
COLLECTION = """
insert into app.collections (id, document, made_at, changed_at)
values (%s, %s, app.now(), app.now()) on conflict do nothing
"""
OWNER = """
insert into app.publication_keys (kind, key, owner, number)
values ('collection', %s, 'default', 0) on conflict do nothing
"""


@dataclass(frozen=True)
class Raster:
    """A raster in the silver tier, and what its item tells of it."""

    name: str
    path: Path
    bbox: tuple[float, float, float, float]
    properties: Mapping[str, Any]


def write_rasters(silver: Path) -> list[Raster]:
    """An elevation model, a photo and a map of classes, in the folder of the silver tier."""
    import numpy as np

    ramp = np.add.outer(np.arange(300, dtype="float32"), np.arange(400, dtype="float32"))
    hills = 600 + 0.4 * ramp + 120 * np.sin(ramp / 40) * np.cos(np.arange(400) / 30)
    hills[:40, :40] = -9999
    photo = np.stack([np.indices((256, 256))[0], np.indices((256, 256))[1], np.full((256, 256), 90)]).astype("uint8")
    classes = (np.indices((200, 200)).sum(axis=0) // 50 % 4).astype("uint8")
    palette = {0: (20, 90, 50, 255), 1: (230, 200, 60, 255), 2: (60, 120, 200, 255), 3: (190, 60, 60, 255)}
    rescale = {"renders": {"default": {"assets": ["data"], "rescale": [[480, 1000]], "colormap_name": "terrain"}}}
    folder = silver / "jobs" / JOB / "cog"
    return [
        write_raster(folder / "hills.tif", hills[None], (9.0, 47.0, 9.4, 47.3), rescale, nodata=-9999),
        write_raster(folder / "photo.tif", photo, (-70.2, -33.6, -70.0, -33.4), {}, photometric="RGB"),
        write_raster(folder / "classes.tif", classes[None], (174.0, -41.5, 175.0, -40.5), {}, palette=palette),
    ]


def write_raster(
    path: Path,
    data: Any,  # an array of numpy's
    bbox: tuple[float, float, float, float],
    properties: Mapping[str, Any],
    palette: Mapping[int, Sequence[int]] | None = None,
    crs: str = "EPSG:4326",
    **profile: Any,
) -> Raster:
    """A tiled GeoTIFF of these values, bands first; its box is in degrees, unless another system is named."""
    import rasterio
    from affine import Affine

    path.parent.mkdir(parents=True, exist_ok=True)
    (count, height, width), (west, south, east, north) = data.shape, bbox
    shape = {"count": count, "height": height, "width": width, "dtype": str(data.dtype).replace("float64", "float32")}
    grid = {"crs": crs, "transform": Affine((east - west) / width, 0, west, 0, (south - north) / height, north)}
    tiled = {"driver": "GTiff", "tiled": True, "blockxsize": 256, "blockysize": 256, "compress": "deflate"}
    with rasterio.open(path, "w", **tiled, **shape, **grid, **profile) as file:
        file.write(data.astype(shape["dtype"]))
        if palette:
            file.write_colormap(1, palette)
    return Raster(path.stem, path, bbox, properties)


def write_crossing(folder: Path) -> Raster:
    """A raster from 170 to 190 degrees: red on this side of 180, and blue on the other."""
    import numpy as np

    colors = np.zeros((3, 64, 64), "uint8")
    colors[0, :, :32] = colors[2, :, 32:] = 200
    raster = write_raster(folder / "crossing.tif", colors, (170.0, -10.0, 190.0, 10.0), {}, photometric="RGB")
    return replace(raster, bbox=(170.0, -10.0, -170.0, 10.0))


def add_item(
    url: str,
    raster: Raster,
    *,
    created: str = "2026-11-15T10:00:00Z",
    published: bool = True,
    asset: Mapping[str, Any] | None = None,
) -> None:
    """Publish a raster as an item of the collection `scenes`, or leave its file unpublished."""
    add_items(url, [raster], created=created, published=published, asset=asset)
    if published:
        with psycopg.connect(url, autocommit=True) as connection:
            _rename_publication(connection, raster.name)


def add_items(
    url: str,
    rasters: Sequence[Raster],
    collection: str = "scenes",
    *,
    created: str = "2026-11-15T10:00:00Z",
    published: bool = True,
    asset: Mapping[str, Any] | None = None,
    version: str | None = None,
) -> None:
    """Publish rasters as items of a collection, or leave their files unpublished; several may share one file.

    With a version they are files in place, which are gone once they have another one.
    """
    rows = [_row(raster, collection, asset or {}, created) for raster in rasters]
    for row in rows if version else ():
        row["outputs"][0]["version"] = version
    if published:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(COLLECTION, (collection, Jsonb(_collection(collection))))
            connection.execute(OWNER, (collection,))
            connection.execute("select app.change_items(%s, 'publish', %s, true, %s)", (collection, Jsonb(rows), JOB))
    _load(url, [row["body"] for row in rows], collection)


def _row(raster: Raster, collection: str, asset: Mapping[str, Any], created: str) -> dict[str, Any]:
    key = f"jobs/{JOB}/cog/{raster.path.name}"
    content = raster.path.read_bytes()
    told = {"href": f"silver://{key}", "type": COG, "roles": ["data"], "file:size": len(content), "title": "COG"}
    output = {"name": raster.path.name, "kind": "cog", "tier": "silver", "key": key, "media_type": COG}
    known = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    document = {**_item(raster, {"data": {**told, **asset}}, created), "collection": collection}
    return {"id": raster.name, "body": document, "outputs": [{**output, **known}]}


def file_of(name: str) -> str:
    """The path of the raster of an item of `scenes`."""
    return f"/files/p/{_publication_of(name)}/{name}.tif"


def _publication_of(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, name)


def _rename_publication(connection: psycopg.Connection[Any], name: str) -> None:
    """Give what was just published for the first time an id that tests know."""
    key = f"scenes/{name}"
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")  # no foreign keys
        found = connection.execute(
            "select current from app.publication_keys where key = %s and number = 1", (key,)
        ).fetchone()
        ids = {"old": found and found[0], "new": _publication_of(name)}
        for column in ("app.publications set id", "app.publications set source", "app.publication_keys set current",
                       "app.published_files set publication"):  # fmt: skip
            where = column.rpartition(" ")[2]
            connection.execute(f"update {column} = %(new)s where {where} = %(old)s", ids)


def add_old_items(url: str, raster: Raster, count: int) -> None:
    """Put older items without a raster into the collection `scenes`."""
    names = (f"old-{number:02}" for number in range(count))
    _load(url, [_item(replace(raster, name=name), {}, "2020-01-01T00:00:00Z") for name in names])


def _load(url: str, items: Sequence[Mapping[str, Any]], collection: str = "scenes") -> None:
    with psycopg.connect(url, autocommit=True, options="-c search_path=pgstac,public") as connection:
        connection.execute("select upsert_collection(%s)", (Jsonb(_collection(collection)),))
        connection.execute("select upsert_items(%s)", (Jsonb(items),))


def _collection(name: str) -> dict[str, Any]:
    extent = {"spatial": {"bbox": [[-180, -90, 180, 90]]}, "temporal": {"interval": [[None, None]]}}
    about = {"id": name, "title": name.capitalize(), "description": "Made by code.", "license": "CC0-1.0"}
    return {"type": "Collection", "stac_version": "1.1.0", **about, "extent": extent, "links": []}


def _item(raster: Raster, assets: Mapping[str, Any], created: str) -> dict[str, Any]:
    used = [PROJECTION] if "proj:code" in raster.properties else []
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "stac_extensions": used,
        "id": raster.name,
        "collection": "scenes",
        "bbox": list(raster.bbox),
        "geometry": _geometry(*raster.bbox),
        "properties": {"datetime": "2026-06-01T00:00:00Z", "created": created, **raster.properties},
        "assets": dict(assets),
        "links": [],
    }


def _geometry(west: float, south: float, east: float, north: float) -> dict[str, Any]:
    spans = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
    rings = [[[[a, south], [b, south], [b, north], [a, north], [a, south]]] for a, b in spans]
    if len(rings) == 1:
        return {"type": "Polygon", "coordinates": rings[0]}
    return {"type": "MultiPolygon", "coordinates": rings}


@dataclass(frozen=True)
class Served:
    """An API that answers, and the process that it is."""

    client: httpx.Client
    pid: int
    log: Path

    @property
    def url(self) -> str:
        """Its address."""
        return str(self.client.base_url).rstrip("/")


def make_key(url: str, scope: Scope = Scope.READ, platform: str = DEFAULT_PLATFORM) -> str:
    """A key of this database's own, which may read or more."""

    async def make() -> str:
        async with open_keys(url) as keys:
            _, credential = await keys.make(KeyRequest("reader", scope, platform), "a test")
            return credential.text

    with ThreadPoolExecutor(1) as pool:  # a test in a browser has a loop in its own thread
        return pool.submit(asyncio.run, make()).result()


@contextmanager
def serve_api(url: str, home: Path, **settings: str) -> Iterator[Served]:
    """The API in a process of its own, ready; its tiers become those of the database."""
    port = free_port()
    storage = {name.removeprefix("storage__"): value for name, value in settings.items() if name.startswith("storage")}
    adopt_storage(*open_marks(Settings(home=home, storage=StorageLocations.model_validate(storage)), url))
    ours = {"home": str(home), "database_url": url, "port": str(port), **settings}
    environment = {**os.environ, **{f"ANABRANCH_{name}".upper(): value for name, value in ours.items()}}
    told = home.parent / f"{home.name}.log"
    with told.open("wb") as log, start_warm(["api"], environment, stdout=log, stderr=log) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as client:
                _wait(client, process)
                yield Served(client, process.pid, told)
        finally:
            process.send_signal(signal.SIGTERM)


def _wait(client: httpx.Client, process: WarmProcess) -> None:
    for _ in range(600):
        try:
            if client.get("/readyz").is_success:
                return
        except httpx.TransportError:
            assert process.poll() is None, "the API has ended"
        time.sleep(0.05)
    raise TimeoutError("the API was not ready in time")
