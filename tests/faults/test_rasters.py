"""A raster outlives kill -9 of its worker and of PostgreSQL: complete, verified, nothing orphaned (W5, W7, E21)."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import tifffile
from rasterio.windows import Window

from anabranch.contract.mosaic import MosaicDocument
from anabranch.serving.tiles.mosaic.reader import open_mosaic
from anabranch.serving.tiles.mosaic.sources import MosaicSource
from tests.support.rasters import GRID, make_raster
from tests.support.running_stack import RunningStack, run_stack, wait_until

pytestmark = pytest.mark.postgres

LARGE, HUGE = 10_000, 20_000


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Iterator[RunningStack]:
    """With one worker, or as many as a test asks for."""
    with run_stack(getattr(request, "param", 1), RASTER_TILE_MAX_PIXELS="5120") as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("side", [5_000, LARGE])
def test_w5_e21_a_raster_outlives_the_death_of_its_worker_and_of_the_database(stage: RunningStack, side: int) -> None:
    noise = np.random.default_rng(8).integers(0, 4_000, (1, side, side), "uint16")
    source = make_raster(stage.folder / "noise.tif", noise)
    worker, postmaster = stage.worker(), stage.postmaster()
    with stage.client() as client:
        job_id = client.submit(
            "process_raster", {"source": client.upload(source).address, "raster_type": "continuous"}
        ).job_id

        def writes(attempt: int) -> bool:
            """Whether this attempt of the COG is being written."""
            tasks = [task for task in client.all_tasks(job_id, node="cogs") if task.status == "running"]
            # Of a small one nobody hears how far it is before it is done.
            return any(task.attempts == attempt and (side < LARGE or task.progress is not None) for task in tasks)

        wait_until(lambda: writes(1))
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: writes(2))
        os.kill(postmaster, signal.SIGKILL)
        job = wait_until(lambda: (found := client.job(job_id)).ended and found)

    assert job.succeeded, job.error
    (cog,) = [output for output in job.result["outputs"] if output["kind"] == "cog"]
    assert np.array_equal(tifffile.imread(stage.folder / "home" / cog["href"].replace("://", "/")), noise[0])
    # What an attempt had put when it was cut off is unaccepted: found, and nothing worse.
    found = json.loads(stage.call("storage", "audit", "--json"))["findings"]
    assert {finding["fault"] for finding in found} <= {"unaccepted"}, found
    assert job.result["items"]


def pattern(column: int, row: int, width: int, height: int) -> Any:
    """The pixels of a window of the huge raster."""
    x, y = np.arange(column, column + width)[None], np.arange(row, row + height)[:, None]
    return ((7 * x + 13 * y + x * y // 1009) % 251).astype("uint8")


def write_huge(path: Path) -> Path:
    shape = {"width": HUGE, "height": HUGE, "count": 1, "dtype": "uint8", "tiled": True, "crs": "EPSG:32633"}
    with rasterio.open(path, "w", driver="GTiff", transform=GRID, **shape) as out:
        for row in range(0, HUGE, 512):
            height = min(512, HUGE - row)
            out.write(pattern(0, row, HUGE, height)[None], window=Window(0, row, HUGE, height))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("stage", [2], indirect=True)
def test_w5_e21_r2_a_raster_in_tiles_outlives_the_death_of_one_of_two_workers(stage: RunningStack) -> None:
    """Only the tiles that were being written are made again, and the mosaic is the source, across every seam."""
    source = write_huge(stage.folder / "huge.tif")
    worker = stage.worker()
    with stage.client() as client:
        address = client.upload(source).address
        job_id = client.submit("process_raster", {"source": address, "raster_type": "continuous"}).job_id

        def tiles(status: str) -> list[Any]:
            return [task for task in client.all_tasks(job_id, node="tiles") if task.status == status]

        wait_until(lambda: len(tiles("completed")) >= 3 and tiles("running"), seconds=900)
        os.kill(worker, signal.SIGKILL)
        job = wait_until(lambda: (found := client.job(job_id)).ended and found, seconds=1_800)
        again = [task for task in client.all_tasks(job_id, node="tiles") if task.attempts > 1]

    assert job.succeeded, job.error
    assert len(again) <= 4, "no more than one worker runs at once"
    home = stage.folder / "home"
    (mosaic,) = [output for output in job.result["outputs"] if output["kind"] == "mosaic"]
    document = MosaicDocument.model_validate_json((home / mosaic["href"].replace("://", "/")).read_bytes())
    assert len(document.tiles) == 16
    check_pixels(MosaicSource(document, lambda file: home / file.address.replace("://", "/")))
    found = json.loads(stage.call("storage", "audit", "--json"))["findings"]
    assert {finding["fault"] for finding in found} <= {"unaccepted"}, found


def check_pixels(mosaic: MosaicSource) -> None:
    random, seams = np.random.default_rng(3), range(5_120, HUGE, 5_120)
    along = [(seam - 100, other) for seam in seams for other in range(0, HUGE - 512, 997)]
    anywhere = random.integers(0, HUGE - 512, (50, 2)).tolist()
    with open_mosaic(mosaic) as raster, raster._reading(None, 1.0):
        for column, row in [*along, *((row, column) for column, row in along), *anywhere]:
            found = raster.dataset.read(1, window=Window(column, row, 512, 512))
            assert np.array_equal(found, pattern(column, row, 512, 512)), (column, row)
