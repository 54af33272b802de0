"""Releases of the platform ddh on a stack: orders of two small rasters, reviewed and published."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from anabranch.engine.model import JobState
from anabranch.platform.action_by import ALL_PLATFORMS, ActionBy
from anabranch.platform.orders import PlatformOrder
from tests.support.rasters import hills, make_raster
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

__all__ = ["ADMIN", "ANN", "BEN", "OTHER", "approved", "bronze", "order", "processed", "rows", "show", "stack"]

ANN = ActionBy("ddh", "ddh/ann (k1)", "checked", "test")
BEN = replace(ANN, actor="ddh/ben (k2)")
OTHER = replace(ANN, platform_filter="arcgis")
ADMIN = replace(ANN, platform_filter=ALL_PLATFORMS, actor="admin")


@pytest.fixture
def bronze(tmp_path: Path) -> Path:
    folder = tmp_path / "bronze" / "ddh"
    folder.mkdir(parents=True)
    make_raster(folder / "a.tif", hills())
    make_raster(folder / "b.tif", hills()[:, ::-1])
    return folder


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path, bronze: Path) -> AsyncIterator[Stack]:
    async with asyncio.timeout(PATIENCE_SECONDS), open_stack(catalog_url, tmp_path, []) as opened:
        yield opened


def order(version: str = "1", source: str = "a.tif", **more: Any) -> PlatformOrder:
    refs: dict[str, str | int] = {"dataset_id": 38272, "resource_id": "dem", "version_id": version}
    return PlatformOrder(platform="ddh", refs=refs, source=f"bronze://ddh/{source}", **more)


def rows(url: str, query: str) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        connection.execute("select app.set_platform_filter('*')")
        return connection.execute(query).fetchall()


async def processed(stack: Stack, **more: Any) -> Any:  # a release whose job waits for its review
    accepted = await stack.gateway.releases.submit(order(**more), ANN)
    await stack.until(str(accepted.job_id), lambda job: job.job.state is JobState.WAITING)
    return accepted


async def approved(stack: Stack, **more: Any) -> Any:  # a release that is published
    accepted = await processed(stack, **more)
    await stack.gateway.releases.decide(accepted.release_id, True, BEN)
    await stack.wait(str(accepted.job_id))
    return accepted


async def show(stack: Stack, release_id: str) -> Any:  # a row of app.release_details
    return await stack.gateway.releases.find("release_id", release_id, ALL_PLATFORMS)
