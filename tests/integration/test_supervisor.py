"""The supervisor of `anabranch up`, on real processes and signals."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.embedded.child import SupervisedProcess
from anabranch.embedded.detach import Stopped, SupervisorEnded, start_detached, stop
from anabranch.embedded.home import STACK_MARK, Home, Stack
from anabranch.embedded.layout import ClusterLayout
from anabranch.embedded.logfiles import open_log, trim_logs
from anabranch.embedded.processes import Process, alive, boot_id, identify, marked, working_in
from anabranch.errors import Conflict, Unavailable
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.postgres

SCRIPT = Path(__file__).parents[1] / "data" / "stack.py"
NO_DATABASE = "postgresql:///nothing"
WORKER = {"role": "worker", "argv": ["sleep", "600"]}
# Like a worker whose handler runs in a session of its own.
PARENT = {"role": "parent", "argv": ["sh", "-c", "setsid sleep 600 & wait"]}
STUBBORN = {"role": "stubborn", "argv": ["sh", "-c", "trap '' TERM; echo ready; while true; do sleep 0.1; done"]}
ANSWER = "import os, socket; s = socket.socket(fileno=int(os.environ['ANABRANCH_LISTEN_FD']))\n"
ANSWER += "while True: c, _ = s.accept(); c.sendall(str(os.getpid()).encode()); c.close()"
API = {"role": "api", "argv": [sys.executable, "-c", ANSWER], "listens": True}


class Stage:
    """A home, and the supervisors that a test runs on it."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "home")
        self.state = folder / "state"
        self._said = folder / "said"
        self._started: list[subprocess.Popen[bytes]] = []

    def command(self, *children: dict[str, Any], **wanted: Any) -> list[str]:  # JSON of any shape
        wanted = {"home": str(self.home.path), "state": str(self.state), "children": children, **wanted}
        return [sys.executable, str(SCRIPT), json.dumps(wanted)]

    def up(self, *children: dict[str, Any], wait: bool = True, **wanted: Any) -> subprocess.Popen[bytes]:
        with self._said.open("w") as said:
            supervisor = subprocess.Popen(self.command(*children, **wanted), stderr=said)
        self._started.append(supervisor)
        if wait:
            wait_until(lambda: self.stack.api_url is not None)
        return supervisor

    def end(self) -> None:
        for supervisor in self._started:
            supervisor.kill()
            supervisor.wait()
        stop(self.home)

    def said(self, supervisor: subprocess.Popen[bytes]) -> str:
        """What the last supervisor wrote until its end."""
        supervisor.wait(20)
        return self._said.read_text()

    @property
    def stack(self) -> Stack:
        return self.home.read_stack() or Stack(boot_id(), Process(0, 0))

    def child(self, role: str = "worker") -> Process | None:
        return next((child.process for child in self.stack.children if child.role == role), None)

    def members(self) -> list[Process]:
        return [*marked(STACK_MARK, str(self.home.stack_id)), *working_in(ClusterLayout(self.home).data, "postgres")]


@pytest.fixture
def stage() -> Iterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="ab-"))
    folder.chmod(0o755)
    stage = Stage(folder)
    yield stage
    stage.end()
    assert stage.members() == []
    shutil.rmtree(folder)


def kill(process: Process | None) -> None:
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)


def ask(stage: Stage, question: str) -> list[tuple[Any, ...]]:  # rows of any shape
    with psycopg.connect(str(stage.stack.database_url), autocommit=True) as connection:
        cursor = connection.execute(question.encode())
        return cursor.fetchall() if cursor.description else []


def answers(stage: Stage, question: str, rows: list[tuple[Any, ...]]) -> bool:
    try:
        return ask(stage, question) == rows
    except psycopg.OperationalError:
        return False


def test_a_killed_server_is_back_with_all_that_was_committed(stage: Stage) -> None:
    supervisor = stage.up(WORKER)
    ask(stage, "create table kept as select 1 as n")
    former = stage.stack.cluster
    kill(former)
    wait_until(lambda: stage.stack.cluster not in (former, None))
    wait_until(lambda: answers(stage, "select n from kept", [(1,)]))

    supervisor.send_signal(signal.SIGTERM)
    died = [json.loads(line) for line in stage.said(supervisor).splitlines() if "child.died" in line]
    assert supervisor.returncode == 0
    assert [line["role"] for line in died] == ["postgres"]
    assert stage.members() == []


def test_a_killed_child_is_replaced_at_once_and_its_death_told(stage: Stage) -> None:
    stage.up(WORKER, PARENT, database=NO_DATABASE)
    former = stage.child("parent")
    wait_until(lambda: len(stage.members()) == 3)
    kill(former)
    wait_until(lambda: stage.child("parent") not in (former, None))
    wait_until(lambda: len(stage.members()) == 3)  # its own child went with it
    wait_until((stage.home.path / "deaths").exists)
    assert former
    assert (stage.home.path / "deaths").read_text() == f"parent {former.pid}\n"


def test_a_child_that_keeps_dying_is_started_less_and_less_often() -> None:
    kept, delays = SupervisedProcess("broken", lambda mark: subprocess.Popen(["false"])), []
    for _ in range(7):
        kept.start().wait()
        assert kept.take_dead()
        delays.append(round(kept.due - time.monotonic(), 1))
    assert delays == [0, 0.5, 1, 2, 4, 5, 5]


def test_a_restarted_api_keeps_its_port(stage: Stage) -> None:
    stage.up(API, database=NO_DATABASE)
    former, port = _talk(stage), stage.stack.api_url
    os.kill(former, signal.SIGKILL)
    assert _talk(stage) != former
    assert stage.stack.api_url == port


def test_after_kills_of_everything_stop_leaves_nothing_and_the_next_start_works(stage: Stage) -> None:
    supervisor = stage.up(WORKER, PARENT)
    ask(stage, "create table kept as select 1 as n")
    wait_until(lambda: len(marked(STACK_MARK, str(stage.home.stack_id))) == 3)
    stack = stage.stack
    for process in (stack.supervisor, stage.child("parent"), stack.cluster):
        kill(process)
    supervisor.wait()
    assert stage.home.read_stack() is None
    wait_until(lambda: len(marked(STACK_MARK, str(stage.home.stack_id))) == 2)  # the worker, the parent's child

    assert stop(stage.home) == Stopped(None, 2)
    assert stage.members() == []
    stage.up(WORKER)
    assert ask(stage, "select n from kept") == [(1,)]


def test_after_a_kill_of_the_supervisor_the_next_start_clears_its_orphans(stage: Stage) -> None:
    stage.up(WORKER, PARENT).kill()
    orphans = stage.members()
    wait_until(lambda: stage.home.read_stack() is None)
    stage.up(WORKER)
    assert not any(alive(orphan) for orphan in orphans)


def test_stop_says_which_processes_it_waits_for(stage: Stage) -> None:
    """A worker lets its tasks end first; until then it looks as if nothing happened."""
    supervisor = stage.up(WORKER, STUBBORN, database=NO_DATABASE, grace=600, log_to_files=True)
    wait_until(lambda: (stage.home.logs / "stubborn.log").read_text() == "ready\n")
    told: list[list[str]] = []

    def on_wait(roles: Sequence[str]) -> None:
        told.append(list(roles))
        supervisor.send_signal(signal.SIGTERM)

    stop(stage.home, on_wait=on_wait)
    assert "stubborn" in told[0]


def test_a_pid_that_went_to_another_process_is_left_alone(stage: Stage) -> None:
    with subprocess.Popen(["sleep", "600"]) as stranger:
        now = identify(stranger.pid)
        assert now
        former = replace(now, start=now.start - 1)
        supervisor = stage.up(WORKER, database=NO_DATABASE)
        stack = replace(stage.stack, supervisor=former, cluster=former)
        supervisor.kill()
        supervisor.wait()
        stage.home.write_stack(replace(stack, children=tuple(replace(c, process=former) for c in stack.children)))
        assert stop(stage.home) == Stopped(None, 1)
        assert stranger.poll() is None
        stranger.kill()


def test_a_second_supervisor_of_one_home_is_refused(stage: Stage) -> None:
    first = stage.up(WORKER, database=NO_DATABASE)
    said = stage.said(stage.up(WORKER, wait=False, database=NO_DATABASE))
    assert "stack.running" in said
    assert f"{stage.stack.api_url}, pid {first.pid}" in said
    assert "anabranch down" in said


def test_a_copy_of_a_home_leaves_the_stack_of_the_original_alone(stage: Stage) -> None:
    supervisor = stage.up(WORKER, database=NO_DATABASE)
    worker = stage.child()
    copy = Home(stage.home.path.with_name("copy"))
    shutil.copytree(stage.home.path, copy.path)
    with pytest.raises(Conflict, match=f"{copy.path} is a copy of {stage.home.path}") as caught:
        stop(copy)
    assert caught.value.code == "home.copied"
    assert supervisor.poll() is None

    kill(stage.stack.supervisor)
    supervisor.wait()
    assert stop(copy) == Stopped(None, 0)
    assert worker
    assert alive(worker)


def test_a_home_that_is_moved_keeps_its_stack(stage: Stage) -> None:
    supervisor = stage.up(WORKER, database=NO_DATABASE)
    former, moved = stage.home.path, stage.home.path.with_name("moved")
    former.rename(moved)
    assert stop(Home(moved)) == Stopped(supervisor.pid, 0)
    moved.rename(former)


def test_a_taken_port_is_named(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = stage.said(stage.up(WORKER, wait=False, port=port))
    assert "stack.port_taken" in said
    assert f"port {port}" in said
    assert "--port" in said


def test_a_child_that_does_not_stop_in_its_grace_is_killed(stage: Stage) -> None:
    supervisor = stage.up(STUBBORN, database=NO_DATABASE, grace=0.5)
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(5) == 0
    assert stage.members() == []


def test_a_second_signal_hastens(stage: Stage) -> None:
    supervisor = stage.up(STUBBORN, database=NO_DATABASE, grace=600, log_to_files=True)
    wait_until(lambda: (stage.home.logs / "stubborn.log").read_text() == "ready\n")
    supervisor.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        supervisor.wait(0.3)
    supervisor.send_signal(signal.SIGINT)
    assert supervisor.wait(5) == 0


@pytest.mark.parametrize("how", ["fail", "hang"])
def test_a_start_that_fails_or_is_stopped_half_way_leaves_nothing(stage: Stage, how: str) -> None:
    supervisor = stage.up(WORKER, wait=False, prepare=how)
    wait_until(lambda: stage.stack.cluster if how == "hang" else supervisor.poll() is not None)
    supervisor.send_signal(signal.SIGTERM)
    said = stage.said(supervisor)
    assert (supervisor.returncode == 0) == (how == "hang"), said
    assert stage.members() == []
    assert stage.home.last_stack() is None


def test_a_stack_in_the_background_is_ready_when_the_call_returns(stage: Stage) -> None:
    command = stage.command(API, log_to_files=True)
    stack = start_detached(command, os.environ, stage.home, lambda stack: _talk(stage) > 0)
    assert os.getsid(stack.supervisor.pid) == stack.supervisor.pid
    with pytest.raises(Conflict, match="already running"):
        start_detached(command, os.environ, stage.home, lambda stack: True)
    assert stop(stage.home) == Stopped(stack.supervisor.pid, 0)
    assert stop(stage.home) == Stopped(None, 0)
    assert os.waitpid(stack.supervisor.pid, 0)[1] == 0


def test_a_stack_that_fails_in_the_background_says_why(stage: Stage) -> None:
    with pytest.raises(SupervisorEnded, match="no such migration") as caught:
        start_detached(stage.command(WORKER, prepare="fail"), os.environ, stage.home, lambda stack: True)
    assert caught.value.exit_code == 1
    assert stage.members() == []


def test_a_stack_that_is_never_ready_is_stopped(stage: Stage) -> None:
    command = stage.command(WORKER, database=NO_DATABASE)
    with pytest.raises(Unavailable, match="not ready in 1 s"):
        start_detached(command, os.environ, stage.home, lambda stack: False, timeout=1)
    assert stage.members() == []


def test_stopping_where_nothing_ever_ran_makes_nothing(tmp_path: Path) -> None:
    assert stop(Home(tmp_path / "home")) == Stopped(None, 0)
    assert not (tmp_path / "home").exists()


def test_a_log_over_its_limit_starts_again_under_its_writer(tmp_path: Path) -> None:
    log = open_log(tmp_path / "worker.log")
    os.write(log, b"x" * 11)
    trim_logs(tmp_path, limit=10)
    os.write(log, b"new")
    os.close(log)
    assert (tmp_path / "worker.log").read_bytes() == b"new"
    assert (tmp_path / "worker.log.1").read_bytes() == b"x" * 11


def _talk(stage: Stage) -> int:
    """The pid of the API that answers."""
    host, port = str(stage.stack.api_url).removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as connection:
        return int(connection.recv(100) or _talk(stage))
