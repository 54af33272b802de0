"""The process that delivers webhooks is killed in the middle of calls: nothing is lost, and order is kept (P9)."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from anabranch.adapters.postgres.connect import connect
from anabranch.platform.action_by import ActionBy
from anabranch.platform.notifications.ports import DeliveryFilter, EndpointChange
from anabranch.platform.notifications.webhooks import Webhooks
from tests.support.engine import EngineHarness
from tests.support.receiver import SECRET, answering, open_receiver
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.postgres]
PLATFORM = "acme"
MESSAGES, SUBJECTS, KILLS = 30, 5, 2


def start(url: str, home: Path) -> "subprocess.Popen[bytes]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
    given = {"HOME": str(home), "DATABASE_URL": url, "CALLBACK_HOSTS": "127.0.0.1", "STACK_ID": "killed"}
    environment = kept | {f"ANABRANCH_{name}": value for name, value in given.items()}
    command = [sys.executable, "-m", "anabranch", "orchestrator"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def test_p9_a_delivering_process_is_killed_in_the_middle_of_calls(
    engine: EngineHarness, database_url: str, tmp_path: Path, seed: int
) -> None:
    fatal = sorted(random.Random(seed).sample(range(2, MESSAGES // 2), KILLS))
    running: list[subprocess.Popen[bytes]] = []

    async def kill_sometimes(received: Any, writer: asyncio.StreamWriter) -> None:
        if fatal and len(receiver.requests) >= fatal[0]:
            fatal.pop(0)
            running[-1].kill()
            await asyncio.to_thread(running[-1].wait)
            await engine.store.end_member_sessions(f"killed/{running[-1].pid}")  # as its supervisor does
            running.append(start(database_url, tmp_path))
            return
        await answering(200)(received, writer)

    store = engine.store.webhooks()
    webhooks = Webhooks(store, tmp_path / "webhook-key", ["127.0.0.1"])
    async with open_receiver(kill_sometimes) as receiver:
        wanted = EndpointChange(receiver.url(), None, ["*"], "standard", "", None, 15, 10)
        await webhooks.add(PLATFORM, wanted, SECRET, ActionBy(PLATFORM, "test", None, "c"))
        with connect(database_url, None) as owner:
            for n in range(MESSAGES):
                given = [PLATFORM, f"s{n % SUBJECTS}", n]
                owner.execute(
                    "select app.announce(%s, %s, 'job.completed', jsonb_build_object('n', %s::int), 'c')", given
                )
        running.append(start(database_url, tmp_path))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await store.deliveries(None, DeliveryFilter(status="pending"), limit=1, before=None)).items:
                    await asyncio.sleep(0.05)
        finally:
            running[-1].send_signal(signal.SIGTERM)
            await asyncio.to_thread(running[-1].wait)
    assert not fatal
    first: dict[int, list[int]] = defaultdict(list)
    for one in receiver.requests:
        n = one.verify()["n"]
        if n not in first[n % SUBJECTS]:
            first[n % SUBJECTS].append(n)
    assert dict(first) == {place: list(range(place, MESSAGES, SUBJECTS)) for place in range(SUBJECTS)}
    dead = await store.deliveries(None, DeliveryFilter(status="dead"), limit=1, before=None)
    assert not dead.items
