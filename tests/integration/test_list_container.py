"""A container is listed, counted and grouped by the whole workflow, on the engine."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.engine.model import JobState
from anabranch.errors import InputError
from tests.support.rasters import hills, make_raster
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres


@pytest.fixture
async def stack(database_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    async with asyncio.timeout(PATIENCE_SECONDS), open_stack(database_url, tmp_path, []) as opened:
        yield opened


async def result_of(stack: Stack, **inputs: Any) -> Any:  # as the workflow's output says
    job = await stack.run("list_container", **inputs)
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


async def test_a_container_is_listed_and_what_can_be_published_is_proposed(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "bronze" / "delivery"
    folder.mkdir(parents=True)
    make_raster(folder / "dem.tif", hills(50, 50))
    (folder / "dem.tfw").write_text("10\n0\n0\n-10\n0\n0\n")
    (folder / "fields.geojson").write_text('{"type": "FeatureCollection", "features": []}')
    (folder / "notes.txt").write_text("hello")

    found = await result_of(stack, folder="bronze://delivery", geospatial=True)

    assert (found["count"], found["more"], found["failed"]) == (4, False, 0)
    assert {kind: amount["count"] for kind, amount in found["kinds"].items()} == {
        "raster": 1, "sidecar": 1, "vector": 1, "other": 1,
    }  # fmt: skip
    assert [(each["source"], each["sidecars"]) for each in found["proposals"]] == [
        ("bronze://delivery/dem.tif", ["bronze://delivery/dem.tfw"]),
        ("bronze://delivery/fields.geojson", []),
    ]
    listed, submissions = ((tmp_path / each["href"].replace("://", "/")).read_text() for each in found["outputs"])
    assert len(listed.splitlines()) == 4
    assert json.loads(submissions) == {"source": "bronze://delivery/dem.tif"}

    some = await result_of(stack, folder="bronze://", extensions=["tif", "txt"], max_bytes=100)
    assert (some["count"], some["kinds"], [file["address"] for file in some["largest"]]) == (
        1, {}, ["bronze://delivery/notes.txt"],
    )  # fmt: skip
    nothing = await result_of(stack, folder="bronze://nowhere")
    assert (nothing["count"], nothing["extensions"], nothing["proposals"]) == (0, {}, [])


async def test_g9_a_limit_above_50_000_is_refused(stack: Stack) -> None:
    with pytest.raises(InputError, match="limit"):
        await stack.run("list_container", folder="bronze://", limit=50_001)


@pytest.mark.slow
async def test_50_000_files_go_through_the_engine(stack: Stack, tmp_path: Path) -> None:
    for number in range(50):
        folder = tmp_path / "bronze" / "many" / f"{number:02}"
        folder.mkdir(parents=True)
        for each in range(1_000):
            (folder / f"scene_{each:04}.tif").write_bytes(b"II*\0")
    found = await result_of(stack, folder="bronze://many", limit=50_000, geospatial=True)
    assert (found["count"], found["proposed"], len(found["proposals"])) == (50_000, 50_000, 100)
