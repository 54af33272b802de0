"""The stack comes back from every kill, keeps every job, and leaves no process behind."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.client import Client
from anabranch.embedded.home import STACK_MARK, Home, Stack
from anabranch.embedded.layout import ClusterLayout
from anabranch.embedded.processes import Process, marked, working_in
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

PLUGIN = """
import time
from pathlib import Path
from anabranch import Job, TaskSpec, register_handler, register_job

@register_job
class Waits(Job):
    job_type = "waits"
    stages = [{"number": 1, "name": "wait", "task_type": "wait_for"}]

@register_handler("wait_for")
def wait_for(params: dict) -> dict:
    while not Path(params["file"]).exists():
        time.sleep(0.02)
    return {"seen": params["file"]}
"""


class Stage:
    """A home, the commands on it, and jobs that wait for a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Home(folder / "home")
        (folder / "plugins").mkdir()
        (folder / "plugins" / "waits.py").write_text(PLUGIN)
        ours = {
            "ANABRANCH_HOME": str(self.home.path),
            "ANABRANCH_PLUGINS": str(folder / "plugins"),
            "ANABRANCH_PORT": "0",
        }
        self.environment = {n: v for n, v in os.environ.items() if not n.startswith("ANABRANCH_")} | ours

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        program = [sys.executable, "-m", "anabranch", *arguments]
        return subprocess.Popen(
            program, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def call(self, *arguments: str, code: int = 0) -> str:
        program = self.start(*arguments)
        out, said = program.communicate(timeout=PATIENCE_SECONDS)
        assert program.returncode == code, (out, said)
        return out

    def submit_waiting(self) -> tuple[str, Path]:
        """A job whose task runs, and the file that it waits for."""
        file = self.folder / secrets.token_hex(4)
        job_id = self.call("submit", "waits", "-p", f"file={file}").strip()
        with Client(str(self.stack.api_url)) as client:
            wait_until(lambda: client.job(job_id).tasks.running)
        return job_id, file

    def finish(self, job_id: str, file: Path) -> None:
        """Let the job go on; it must complete well before any lease ends."""
        file.touch()
        with Client(str(self.stack.api_url)) as client:
            assert client.wait(job_id, timeout=25).succeeded

    @property
    def stack(self) -> Stack:
        stack = self.home.read_stack()
        assert stack is not None
        return stack

    def worker(self) -> Process:
        return next(child.process for child in self.stack.children if child.role.startswith("worker"))

    def members(self) -> list[Process]:
        """Every process of this home, by the mark in its environment or, for the server, by its folder."""
        ours = marked("ANABRANCH_HOME", str(self.home.path)) + marked(STACK_MARK, str(self.home.stack_id))
        return [*ours, *working_in(ClusterLayout(self.home).data, "postgres")]


@pytest.fixture
def stage() -> Iterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="ab-"))
    folder.chmod(0o755)
    stage = Stage(folder)
    try:
        yield stage
    finally:
        stage.call("down", "--purge", "--yes")
        assert stage.members() == []
        shutil.rmtree(folder)


def test_every_kill_is_survived_and_no_job_is_lost(stage: Stage) -> None:
    stage.call("up", "--detach", "--workers", "1")

    job, file = stage.submit_waiting()
    os.kill(stage.worker().pid, signal.SIGKILL)
    stage.finish(job, file)

    job, file = stage.submit_waiting()
    assert stage.stack.cluster is not None
    os.kill(stage.stack.cluster.pid, signal.SIGKILL)
    stage.finish(job, file)
    # The first to use a connection that died with the server is told so.
    wait_until(lambda: stage.start("submit", "hello_world").communicate()[0])

    job, file = stage.submit_waiting()
    os.kill(stage.stack.supervisor.pid, signal.SIGKILL)
    wait_until(lambda: stage.home.read_stack() is None)
    stage.call("down")
    assert stage.members() == []

    stage.call("up", "--detach", "--workers", "1")
    stage.finish(job, file)


def test_run_stops_what_it_started(stage: Stage) -> None:
    done = json.loads(stage.call("run", "hello_world", "-p", "n=2", "--json"))
    assert done["tasks"] == {"total": 4, "completed": 4, "failed": 0}
    assert stage.members() == []
    (stage.folder / "plugins" / "asks.yaml").write_text("workflow_id: asks\nnodes: {ask: {type: gate}}\n")
    running = stage.start("run", "asks", "--timeout", "0.1")
    _, said = running.communicate(timeout=PATIENCE_SECONDS)
    assert (running.returncode, "continues with the next `anabranch up`" in said) == (8, True), said
    assert stage.members() == []


def test_an_interrupted_run_stops_what_it_started(stage: Stage) -> None:
    running = stage.start("run", "waits", "-p", f"file={stage.folder}/never")
    wait_until(lambda: (stack := stage.home.read_stack()) and stack.api_url)
    with Client(str(stage.stack.api_url)) as client:
        wait_until(lambda: client.ready() and client.jobs(status="running").items)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 130, said
    assert "Traceback" not in said
    assert stage.members() == []


def test_up_in_the_foreground_stops_on_interrupt(stage: Stage) -> None:
    running = stage.start("up", "--workers", "1", "--json")
    assert running.stdout is not None
    shown = json.loads("".join(iter(running.stdout.readline, "}\n")) + "}")
    assert shown["url"] == stage.stack.api_url
    assert stage.call("submit", "hello_world")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0
    assert "callers need no key" in said
    assert stage.members() == []


def test_down_where_nothing_ran_is_no_error(stage: Stage) -> None:
    stage.call("down")
    stage.call("jobs", code=9)
