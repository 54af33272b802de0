"""The faults of campaigns: each hits, lasts for a random while, and is over when it returns."""

import asyncio
import os
import resource
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

from anabranch.embedded.processes import Process, family, marked, send
from anabranch.testing.clock import SteppedClock
from tests.support.campaign import Campaign, make_folder
from tests.support.crew import Member, Stage
from tests.support.database_server import DatabaseServer
from tests.support.proxy import Lose, Proxy

__all__ = [
    "CLOCK",
    "DESCRIPTORS",
    "DISK",
    "FAILOVER",
    "KILLS",
    "NETWORK",
    "RESTORE",
    "SERVER",
    "fill",
    "handler_processes",
]

LOSABLE = ("turn", "claim", "load_right", "apply", "beat", "submit_batch", "take_rights", "signal", "cancel", "retry")
RESTORED = """
    select j.job_id, l.node, c.attempt
      from app.claims c join app.lanes l on l.id = c.lane join app.jobs j on j.id = l.job"""


async def kill_worker(campaign: Campaign) -> None:
    """Kill -9 a worker; another starts in its place."""
    await _kill([_pick(campaign, "worker")])


async def kill_orchestrator(campaign: Campaign) -> None:
    """Kill -9 the orchestrator."""
    await _kill([_pick(campaign, "orchestrator")])


async def kill_api(campaign: Campaign) -> None:
    """Kill -9 the API, amid submissions."""
    await _kill([_pick(campaign, "api")])


async def kill_all(campaign: Campaign) -> None:
    """Kill -9 every process at once."""
    await _kill([one for role in ("worker", "orchestrator", "api") for one in campaign.stage.crew.alive(role)])


async def kill_child(campaign: Campaign) -> None:
    """Kill -9 a process in which a worker runs handlers."""
    children = handler_processes(campaign.stage, _pick(campaign, "worker"))
    if children:
        send(campaign.random.choice(children), signal.SIGKILL)


async def stop_worker(campaign: Campaign) -> None:
    """SIGTERM a worker, as a rollout does."""
    worker = _pick(campaign, "worker")
    worker.send(signal.SIGTERM)
    await worker.ended()


async def freeze_process(campaign: Campaign) -> None:
    """Stop a process for longer or shorter than its lease, and let it go on."""
    member = _pick(campaign, campaign.random.choice(("worker", "orchestrator", "api")))
    member.send(signal.SIGSTOP)
    await asyncio.sleep(campaign.random.uniform(1, 6))
    member.send(signal.SIGCONT)


async def crash_server(campaign: Campaign) -> None:
    """PostgreSQL crashes and starts again, at once or a little later."""
    assert campaign.server
    how = campaign.random.choice(("immediate", "kill", "backend", "fast"))
    await asyncio.to_thread(campaign.server.stop, how)
    campaign.take_hold()
    if how != "backend":  # of which it recovers by itself
        await asyncio.sleep(campaign.random.choice((0, 0, 1, 5)))
        await asyncio.to_thread(campaign.server.start)


async def partition(campaign: Campaign) -> None:
    """Nothing comes through, in one direction or both, for shorter or longer than a lease."""
    doors = _doors(campaign)
    requests, replies = campaign.random.choice(((True, True), (True, False), (False, True)))
    for door in doors:
        door.stall(requests=requests, replies=replies)
    await asyncio.sleep(campaign.random.uniform(0.5, 6))
    for door in doors:
        door.heal()


async def cut_connections(campaign: Campaign) -> None:
    """Connections break, again and again."""
    for _ in range(campaign.random.choice((1, 5, 15))):
        for door in _doors(campaign):
            door.cut(campaign.random.choice((0.3, 1)))
        await asyncio.sleep(campaign.random.uniform(0.05, 0.4))


async def lose_messages(campaign: Campaign) -> None:
    """Some calls never arrive, and some are committed and their answers lost."""
    functions = campaign.random.sample(LOSABLE, 4)
    what = campaign.random.choice((Lose.REQUEST, Lose.REPLY))
    traps = [
        door.lose(name, what, times=campaign.random.choice((1, 3))) for door in _doors(campaign) for name in functions
    ]
    await asyncio.sleep(campaign.random.uniform(1, 3))
    for trap in traps:
        trap.left = 0


async def delay_messages(campaign: Campaign) -> None:
    """Every message takes its time."""
    doors = _doors(campaign)
    for door in doors:
        door.delay = campaign.random.choice((0.02, 0.1, 0.3))
    await asyncio.sleep(campaign.random.uniform(1, 4))
    for door in doors:
        door.delay = 0


async def fail_over(campaign: Campaign) -> None:
    """A standby takes over. The old primary only reads at first, and some connections stay with it for a while."""
    old = campaign.server
    assert old
    standby = await asyncio.to_thread(old.follow, make_folder(campaign.stage.folder))
    campaign.servers.append(standby)
    await campaign.mark_hit()
    await asyncio.to_thread(old.turn_read_only)
    campaign.take_hold()
    await asyncio.sleep(campaign.random.choice((0, 1, 4)))
    await asyncio.to_thread(standby.promote, old)
    campaign.move_to(standby)
    for door in campaign.proxies:  # some are sent away at once, the others find nobody there later
        door.cut(campaign.random.choice((0, 0.3, 0.7)))
    await asyncio.sleep(campaign.random.choice((0, 1, 5)))
    await asyncio.to_thread(old.stop, "immediate")
    await campaign.retire(old)


async def restore(campaign: Campaign) -> None:
    """The database is restored to an earlier point while all processes live on; what came between never happened.

    Sessions that were opened in between are unknown to it, and it gives their numbers away once more: to processes that
    start over, while others are held up and still believe in theirs.
    """
    old = campaign.server
    assert old
    is_running = campaign.random.random() < 0.3
    copy = await asyncio.to_thread(old.copy, make_folder(campaign.stage.folder) / "copy", running=is_running)
    copied_at = time.time()
    await kill_all(campaign)
    await campaign.advance_by(campaign.random.choice((20, 60)), "work of the other history")
    await asyncio.to_thread(old.stop, "immediate")
    restored = await asyncio.to_thread(DatabaseServer, make_folder(campaign.stage.folder), copy)
    campaign.servers.append(restored)
    held_up = campaign.random.sample(campaign.stage.crew.alive("worker"), campaign.random.choice((0, 1, 2)))
    for worker in held_up:
        worker.send(signal.SIGSTOP)
    claimed = set(await asyncio.to_thread(restored.rows, RESTORED))
    campaign.forbidden |= {
        run for run, note in campaign.witnessed().items()
        if note["began_at"] > copied_at and (note["job"], note["node"], note["attempt"]) not in claimed
    }  # fmt: skip
    campaign.move_to(restored)
    for door in campaign.proxies:
        door.cut()
    campaign.start_over()
    await asyncio.sleep(campaign.random.uniform(0.5, 1.5))
    for worker in held_up:
        worker.send(signal.SIGCONT)
    await campaign.retire(old)


async def exhaust_descriptors(campaign: Campaign) -> None:
    """A worker can open no more files for a while."""
    worker = _pick(campaign, "worker")
    _, hard = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    used = len(os.listdir(f"/proc/{worker.pid}/fd"))  # noqa: PTH208  # only their number is of interest
    before = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (used + campaign.random.choice((0, 1, 4)), hard))
    await asyncio.sleep(campaign.random.uniform(2, 6))
    with suppress(ProcessLookupError):
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, before)


async def fill_home(campaign: Campaign) -> None:
    """The disk of scratch and large results is full for a while."""
    filler = await asyncio.to_thread(fill, campaign.stage.folder / "home", campaign.random.choice((0, 100_000)))
    await asyncio.sleep(campaign.random.uniform(1, 5))
    filler.unlink(missing_ok=True)


async def step_clock(campaign: Campaign) -> None:
    """The server's clock is an hour or more off for a while, in one direction, and is then set right."""
    campaign.is_timed = False  # times of the database don't compare
    with SteppedClock(campaign.stage.url) as clock:
        clock.step(campaign.random.choice((-3600, 3600, -70, 70, 86400)))
        await campaign.advance_by(10, "work by a wrong clock")
        clock.step(0)


def handler_processes(stage: Stage, worker: Member) -> list[Process]:
    """Those that run handlers for a worker: what its fork server started, and only of this stage.

    `family` lists a process and its ancestors, so the worker is in that of each; what does not carry the stage's own
    folder in its environment is never chosen.
    """
    ours = marked("ANABRANCH_HOME", str(stage.folder / "home"))
    ancestors = {process: family(process.pid) - {process.pid} for process in ours}
    below = {process.pid for process in ours if worker.pid in ancestors[process]}
    found = [process for process in ours if process.pid in below and below & ancestors[process]]
    return sorted(found, key=lambda process: process.pid)


def fill(folder: Path, left: int = 0) -> Path:
    """Fill a disk but for so many bytes; the file to remove to have the space back."""
    filler = folder / "filler"
    free = shutil.disk_usage(folder).free - left
    with suppress(OSError), filler.open("wb") as file:
        while free > 0:
            free -= file.write(bytes(min(free, 2**16)))
            file.flush()
    return filler


async def _kill(members: list[Member]) -> None:
    for member in members:
        member.process.kill()
    for member in members:
        await asyncio.to_thread(member.process.wait)


def _pick(campaign: Campaign, role: str) -> Member:
    """One that runs now; where all have ended, the newest."""
    crew = campaign.stage.crew
    return campaign.random.choice(crew.alive(role) or [[one for one in crew.members if one.role == role][-1]])


def _doors(campaign: Campaign) -> list[Proxy]:
    """All proxies, or one of them."""
    doors = list(campaign.proxies)
    return campaign.random.choice((doors, [campaign.random.choice(doors)]))


KILLS = (kill_worker, kill_orchestrator, kill_api, kill_all, kill_child, stop_worker, freeze_process)
SERVER = (crash_server,)
NETWORK = (partition, cut_connections, lose_messages, delay_messages)
FAILOVER = (fail_over,)
RESTORE = (restore,)
DESCRIPTORS = (exhaust_descriptors,)
DISK = (fill_home,)
CLOCK = (step_clock,)
