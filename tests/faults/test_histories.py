"""A database that was restored to an earlier point takes nothing from what came after that point."""

import asyncio
from pathlib import Path

import pytest

from tests.support.campaign import make_folder
from tests.support.crew import Start, open_stage
from tests.support.database_server import DatabaseServer
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
PLUGINS = Path(__file__).parent / "plugins"
CLAIMED = "select lane, idx, attempt from app.claims order by lane, idx"


async def test_tf1_a_result_of_another_history_is_not_taken_for_one_of_this(folder: Path) -> None:
    """Lane, task and attempt have the same numbers in both histories, and another job stands behind them."""
    old = await asyncio.to_thread(DatabaseServer, make_folder(folder))
    files = [folder / name for name in ("theirs", "ours")]
    async with Proxy(old.url) as door, Proxy(old.url) as other_door:
        async with open_stage(Start(folder, PLUGINS, door.url, lease=60)) as stage:
            stage.url = old.url
            await stage.crew.start_ready("orchestrator")
            copy = await asyncio.to_thread(old.copy, folder / "copy", running=False)
            survivor = stage.crew.start("worker", url=other_door.url)
            await survivor.started()
            await stage.submit("steady", count=1, file=str(files[0]), run="theirs")
            await wait_until_async(lambda: len(stage.noted("beat")) > 1)
            claimed = stage.query(CLAIMED)

            other_door.stall()
            await asyncio.to_thread(old.stop, "immediate")
            restored = await asyncio.to_thread(DatabaseServer, make_folder(folder), copy)
            stage.url = restored.url
            for each in (door, other_door):
                each.point_at(restored.url)
            door.cut()
            await stage.crew.start_ready("worker")
            job_id = await stage.submit("steady", count=1, file=str(files[1]), run="ours")
            await wait_until_async(lambda: len(stage.noted("began")) == 2)
            assert stage.query(CLAIMED) == claimed, "the histories don't meet, so nothing is tested"

            files[0].touch()
            await wait_until_async(lambda: stage.noted("ended"))
            applied = other_door.count_answers("turn", "applied")
            other_door.heal()
            other_door.cut()
            await wait_until_async(
                lambda: (
                    other_door.count_answers("turn", "applied") > applied or len(survivor.said("session.began")) == 2
                ),
                what="an answer to its report, or a session of this history",
            )
            assert (await stage.job(job_id)).nodes[0].tasks.completed == 0, "a result of the other history was accepted"
            await survivor.started(sessions=2)
            files[1].touch()
            await stage.finish(job_id)
        await asyncio.to_thread(restored.purge)
    await asyncio.to_thread(old.purge)
