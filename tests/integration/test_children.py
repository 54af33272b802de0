"""The child processes of a worker, without a worker."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from multiprocessing import forkserver
from pathlib import Path

import pytest

from anabranch.canonical import Json
from anabranch.engine.model import ProgressReport, Purpose
from anabranch.engine.policy import TaskPolicy
from anabranch.engine.worker.captured_output import Printed
from anabranch.engine.worker.context import TaskFacts
from anabranch.engine.worker.perform import Call
from anabranch.engine.worker.processes.handler_process import Saved
from anabranch.engine.worker.processes.pool import Child, ChildDied, HandlerProcesses
from anabranch.errors import TaskError
from tests.support.waiting import PATIENCE_SECONDS

DEADLY = """
import multiprocessing.forkserver as server, os
tell = server.write_signed

def die_once(descriptor, pid):
    try:
        os.close(os.open("died", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return tell(descriptor, pid)
    os._exit(9)

server.write_signed = die_once
"""
RUN = """
import asyncio, json, sys
from datetime import timedelta
from anabranch.engine.worker.processes.pool import HandlerProcesses
from anabranch.engine.worker.context import TaskFacts
from anabranch.errors import TaskError
from anabranch.engine.model import Purpose
from anabranch.engine.policy import TaskPolicy
from anabranch.engine.worker.perform import Call
from anabranch.engine.registry import load_plugins

class Listener:
    cancelled = stopping = False

    def capture(self, printed):
        pass

    def end(self):
        pass

async def main(*plugins):
    load_plugins(plugins)
    children = HandlerProcesses(1, plugins)
    await children.warm()
    await asyncio.sleep(1)  # for another child that would greet
    told = []
    for n in range(3):
        facts = TaskFacts("job", f"task {n}", "node", n, 1, {"message": n}, "id", None, f"scratch{n}")
        call = Call(Purpose.WORK, "echo", "flow", facts)
        told.append((await children.run(call, TaskPolicy(timedelta(seconds=20)), Listener(), alone=False)).result)
    children.close()
    print(json.dumps(told))

if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
"""


def run(folder: Path, *plugins: str) -> list[str]:
    """What three calls are answered, in a process that has these plugins."""
    (folder / "run.py").write_text(RUN)
    command = [sys.executable, "run.py", *plugins]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


def test_e21_a_child_is_made_though_the_server_that_forks_it_has_just_died() -> None:
    forkserver.ensure_running()
    for _ in range(3):
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]  # it has no name
        child = Child([], memory=0)
        assert child.process.is_alive()
        child.kill()


@pytest.mark.parametrize("free", range(14))
def test_tf2_a_fork_that_lacks_descriptors_leaves_the_server_and_its_children_alive(free: int) -> None:
    child = Child([], memory=0)
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]  # it has no name
    used = {int(name) for name in os.listdir("/proc/self/fd")}  # noqa: PTH208  # their numbers
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    unused = [number for number in range(len(used) + free + 1) if number not in used]
    resource.setrlimit(resource.RLIMIT_NOFILE, (unused[free], limits[1]))
    try:
        with suppress(OSError):
            Child([], memory=0).kill()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    time.sleep(0.2)  # for a server that is about to end
    assert os.waitid(os.P_PID, server, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    assert child.process.is_alive()
    child.kill()


def test_e4_a_child_whose_server_died_before_it_told_of_it_answers_for_nobody(tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text(DEADLY)
    assert [json.loads(told) for told in run(tmp_path, "deadly")] == [{"message": n} for n in range(3)]
    assert (tmp_path / "died").exists()


def test_g5_a_module_that_fails_when_it_is_imported_stops_no_worker(tmp_path: Path) -> None:
    package = tmp_path / "half"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "bad.py").write_text("raise RuntimeError")
    assert len(run(tmp_path, "half")) == 3


class Listener:
    """Hears a call, and has something to tell."""

    def __init__(self, *, cancelled: bool = False, stopping: bool = False) -> None:
        self.cancelled = cancelled
        self.stopping = stopping
        self.ended = False

    def end(self) -> None:
        self.ended = True

    def capture(self, printed: Printed) -> None:
        pass

    def progress(self, progress: ProgressReport) -> None:
        pass

    def keep(self, saved: Saved) -> "Future[TaskError | None]":
        raise NotImplementedError


ACTS = """
import os, signal, time
from anabranch import handler

@handler("patient")
def patient(params, ctx):
    while not (ctx.stopping or ctx.cancelled):
        time.sleep(0.01)
    return [ctx.stopping, ctx.cancelled]

@handler("parricide")
def parricide(params, ctx):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)

@handler("steady")
def steady(params, ctx):
    open(params["began"], "w").close()
    while not os.path.exists(params["file"]):
        time.sleep(0.01)
    return os.getppid()
"""


@pytest.fixture
def children(tmp_path: Path) -> Iterator[HandlerProcesses]:
    (tmp_path / "acts.py").write_text(ACTS)
    made = HandlerProcesses(4, [str(tmp_path / "acts.py")])
    yield made
    made.close()


def call(handler: str, number: int = 0, **params: Json) -> Call:
    facts = TaskFacts("job", f"task {number}", "node", number, 1, params, "id", None, f"scratch{number}")
    return Call(Purpose.WORK, handler, "flow", facts)


POLICY = TaskPolicy(timedelta(seconds=30))


@pytest.mark.parametrize(("told", "heard"), [("stopping", "[true,false]"), ("cancelled", "[false,true]")])
async def test_w3_a_handler_that_is_told_before_it_begins_hears_it(
    children: HandlerProcesses, told: str, heard: str
) -> None:
    """The child can't hear a signal for a call that it has not begun, and the worker may be told to stop before."""
    for alone in (True, False):
        listener = Listener(stopping=told == "stopping", cancelled=told == "cancelled")
        performed = await children.run(call("patient"), POLICY, listener, alone=alone)
        assert (performed.error, performed.result, listener.ended) == (None, heard, True)


async def test_tf8_a_handler_that_kills_its_parent_kills_nobody_else(
    children: HandlerProcesses, tmp_path: Path
) -> None:
    began, file = tmp_path / "began", tmp_path / "file"
    beside = children.run(call("steady", 1, began=str(began), file=str(file)), POLICY, Listener(), alone=False)
    neighbour = asyncio.create_task(beside)
    while not began.exists():
        await asyncio.sleep(0.01)
    with pytest.raises(ChildDied) as died:
        await children.run(call("parricide"), POLICY, Listener(), alone=False)
    assert (died.value.ended_by, died.value.begun, died.value.orphaned) == ("SIGKILL", True, False)
    file.touch()
    assert (await neighbour).error is None


async def test_tf8_children_that_die_with_their_server_say_so(children: HandlerProcesses, tmp_path: Path) -> None:
    began = tmp_path / "began"
    beside = children.run(call("steady", 1, began=str(began), file="never"), POLICY, Listener(), alone=False)
    neighbour = asyncio.create_task(beside)
    while not began.exists():
        await asyncio.sleep(0.01)
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]  # it has no name
    with pytest.raises(ChildDied) as died:
        await neighbour
    assert (died.value.begun, died.value.orphaned) == (True, True)


async def test_e9_a_child_that_died_while_it_was_idle_costs_the_next_call_nothing(children: HandlerProcesses) -> None:
    await children.warm()
    for child in children._idle:
        assert child.process.pid is not None
        os.killpg(child.process.pid, signal.SIGKILL)  # its guard and what is behind it
    performed = await children.run(call("patient"), POLICY, Listener(stopping=True), alone=False)
    assert performed.error is None


class Raced(list[Child]):
    """The last child is gone between the look and the grasp, as with several threads."""

    def __bool__(self) -> bool:
        return True


async def test_b5_a_thread_that_finds_no_idle_child_left_makes_one(children: HandlerProcesses) -> None:
    children._idle = Raced()
    performed = await children.run(call("patient"), POLICY, Listener(stopping=True), alone=False)
    assert performed.error is None
