"""Children of a worker, without a worker."""

import json
import os
import signal
import subprocess
import sys
from multiprocessing import forkserver
from pathlib import Path

from anabranch.engine.children import Child

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
from anabranch.engine.children import Children
from anabranch.engine.context import TaskFacts
from anabranch.engine.model import Purpose
from anabranch.engine.perform import Call
from anabranch.engine.plugin import load_plugins

async def main(*plugins):
    load_plugins(plugins)
    children = Children(1, plugins)
    await children.warm()
    await asyncio.sleep(1)  # for whoever else would greet
    told = []
    for n in range(3):
        facts = TaskFacts("job", f"task {n}", "node", n, 1, {"message": n}, "id", None, f"scratch{n}")
        call = Call(Purpose.WORK, "echo", "flow", facts)
        told.append((await children.run(call, timedelta(seconds=20), None, None, alone=False)).result)
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
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


def test_e21_a_child_is_made_though_the_server_that_forks_it_has_just_died() -> None:
    forkserver.ensure_running()
    for _ in range(3):
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]  # it has no name
        child = Child([], memory=0)
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
