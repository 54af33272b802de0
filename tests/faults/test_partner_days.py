"""A partner's day while the worker, the process that delivers, the API and PostgreSQL are killed at random moments."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from anabranch.embedded.home import Home
from anabranch.embedded.processes import Process, send
from tests.support.partner_day import open_day
from tests.support.running_stack import RunningStack, run_stack
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.postgres, pytest.mark.campaign, pytest.mark.slow]

ROLES = ("worker", "orchestrator", "api", "postgres")
# For each step of the day: how many are killed, one after the other, and each after how many seconds at most.
KILLS = ((2, 6.0), (2, 6.0), (2, 6.0), (1, 0.5), (1, 0.5), (1, 0.5))


@pytest.fixture(scope="module")
def stack() -> Iterator[RunningStack]:
    """One for all seeds: each day has assets of its own."""
    with run_stack(AUTH="keys", CALLBACK_HOSTS="127.0.0.1") as made:
        yield made


async def test_partner_days(seed: int, stack: RunningStack, tmp_path: Path) -> None:
    home, random, struck = Home(stack.folder / "home"), Random(f"{seed} kills"), Counter[str]()
    running = home.read_stack()
    assert running
    addresses = str(running.api_url), str(home.read_key()), str(running.database_url)
    async with open_day(*addresses, tmp_path / "files", number=seed, pause=0.1) as day:
        for step, (kills, seconds) in zip(day.steps(), KILLS, strict=True):
            async with asyncio.TaskGroup() as group:
                group.create_task(step)
                group.create_task(kill_at_random(home, random, kills, seconds, struck))
        await day.verify()
    doubled = len(day.messages) - len({one.id for one in day.messages})
    print(f"seed {seed}: killed {dict(struck)}; {doubled} notifications came twice; {dict(day.reader.seen)}")  # noqa: T201
    # What an attempt had put when it was killed is unaccepted; nothing worse is found, and it can be removed.
    audit = json.loads(stack.call("storage", "audit", "--sweep", "--older-than", "0s", "--yes", "--json"))
    assert {finding["fault"] for finding in audit["findings"]} <= {"unaccepted"}, audit
    assert json.loads(stack.call("storage", "audit", "--checksums", "--json"))["findings"] == []
    stack.call("db", "audit")


async def kill_at_random(home: Home, random: Random, kills: int, seconds: float, struck: Counter[str]) -> None:
    """Kill -9 some processes, which are drawn, at moments that are drawn; their supervisor replaces them."""
    for role in random.sample(ROLES, kills):
        await asyncio.sleep(random.uniform(0, seconds))
        victim = find(home, role)
        assert victim
        send(victim, signal.SIGKILL)
        struck[role] += 1
        await wait_until_async(lambda: find(home, role) not in (None, victim), f"another {role}")  # noqa: B023


def find(home: Home, role: str) -> Process | None:
    """The process of a role, as the supervisor recorded it."""
    if (running := home.read_stack()) is None or role == "postgres":
        return running.cluster if running else None
    return next(child.process for child in running.children if child.role.startswith(role))
