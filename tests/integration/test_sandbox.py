"""Functions on untrusted files: the worst that one can do is to fail alone (S4, W2)."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import Interrupted, Permanent, Resource, TaskError, Transient
from anabranch.sandbox import Limits, Sandbox
from tests.support.waiting import wait_until

CONFINED = Path(__file__).parents[1] / "data" / "confined"
LIMITS = Limits(memory=512 * 2**20, cpu_seconds=20, file_bytes=4 * 2**20)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox("untrusted", {"PYTHONPATH": str(CONFINED)})
    yield made
    made.close()


@pytest.fixture
def run(sandbox: Sandbox, tmp_path: Path) -> Any:
    folder = tmp_path / "scratch"
    folder.mkdir()

    def run(name: str, limits: Limits = LIMITS, **more: Any) -> Any:
        arguments = more.pop("arguments", {})
        return sandbox.run(name, arguments, limits=limits, writes=[folder], **more)

    return run


def test_a_function_returns_and_reports_its_progress(run: Any) -> None:
    reported: list[Any] = []
    assert run("add", arguments={"a": 2, "b": 3}, progress=lambda *said: reported.append(said)) == 5
    assert reported == [(1, 2, "adding")]


def test_a_function_sends_values_while_it_runs(run: Any) -> None:
    received: list[Any] = []
    values = [1, {"a": None}, "x" * 100_000]
    assert run("send_each", arguments={"values": values}, receive=received.append) == 3
    assert received == values


def test_an_error_of_the_receiver_ends_the_call(run: Any) -> None:
    def refuse(value: Any) -> None:
        raise Permanent(f"{value} is refused")

    with pytest.raises(Permanent, match="1 is refused"):
        run("send_each", arguments={"values": [1, 2]}, receive=refuse)
    assert run("add", arguments={"a": 2, "b": 3}) == 5


def test_each_call_has_a_process_of_its_own(run: Any) -> None:
    first, second = run("show"), run("show")
    assert first["server"] == second["server"]
    assert first["pid"] != second["pid"]


def test_s4_nothing_of_our_environment_is_inside(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", "postgresql://secret")
    fresh = Sandbox("untrusted", {"PYTHONPATH": str(CONFINED)})
    try:
        shown = fresh.run("show", {}, limits=LIMITS, writes=[tmp_path])
    finally:
        fresh.close()
    assert sorted(set(shown["environment"]) - {"LC_CTYPE"}) == ["LANG", "PATH", "PYTHONPATH"]
    assert (shown["files"], shown["core"]) == (LIMITS.open_files, 0)
    assert shown["folder"] == str(tmp_path)


def test_s4_only_the_files_that_were_given_can_be_read(run: Any, tmp_path: Path) -> None:
    given, secret = tmp_path / "given.txt", tmp_path / "secret.txt"
    given.write_text("mine to read")
    secret.write_text("nobody's")
    assert run("read", arguments={"path": str(given)}, reads=[given]) == "mine to read"
    with pytest.raises(TaskError, match="Permission denied") as refused:
        run("read", arguments={"path": str(secret)}, reads=[given])
    assert "nobody's" not in str(refused.value)
    with pytest.raises(TaskError, match="Permission denied"):
        run("write", arguments={"path": str(given)}, reads=[given])


def test_s4_there_is_no_network(run: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(TaskError):
        run("call_out", arguments={"port": listener.getsockname()[1]})


@pytest.mark.parametrize(
    ("name", "code"), [("eat", "resource.memory"), ("burn", "resource.cpu"), ("fill", "resource.disk")]
)
def test_w2_what_it_may_take_is_bounded(run: Any, name: str, code: str) -> None:
    with pytest.raises(Resource) as raised:
        run(name, Limits(memory=512 * 2**20, cpu_seconds=1, file_bytes=2 * 2**20))
    assert raised.value.code == code


def test_a_crash_hurts_nobody_else(run: Any) -> None:
    server = run("show")["server"]
    with pytest.raises(
        Transient, match=r"signal 11 \(SIGSEGV, Segmentation fault\): the library that read it"
    ) as raised:
        run("die", arguments={"name": "SIGSEGV"})
    assert raised.value.code == "handler.crashed"
    assert run("show")["server"] == server


def test_its_errors_keep_their_codes(run: Any) -> None:
    with pytest.raises(Permanent) as ours:
        run("raise_ours")
    assert (ours.value.code, ours.value.message, ours.value.remedy) == (
        "raster.unreadable", "the file is no raster", "Send another.",
    )  # fmt: skip
    with pytest.raises(TaskError, match="KeyError: 'band'"):
        run("raise_theirs")


def test_an_answer_is_bounded_and_plain(run: Any) -> None:
    with pytest.raises(Permanent, match="more than 16 MB"):
        run("answer_much")
    with pytest.raises(TaskError, match="not JSON compliant"):
        run("tell_nan")
    assert run("add", arguments={"a": 1, "b": 1}) == 2


def test_only_what_the_module_offers_can_be_called(run: Any) -> None:
    with pytest.raises(TaskError, match="has no public function 'Path'"):
        run("Path")


def test_a_cancel_ends_it_at_once(run: Any, tmp_path: Path) -> None:
    mark = tmp_path / "scratch" / "mark"
    with pytest.raises(Interrupted):
        run("nap", arguments={"mark": str(mark)}, should_stop=lambda: mark.exists() and mark.stat().st_size > 0)
    assert_gone(int(mark.read_text()))
    assert run("add", arguments={"a": 1, "b": 1}) == 2


@pytest.mark.parametrize("name", ["fork", "start"])
def test_s4_it_makes_no_processes(run: Any, name: str) -> None:
    with pytest.raises(TaskError, match="Operation not permitted"):
        run(name)
    assert run("use_threads") == 10


def test_s4_no_socket_of_ours_is_in_reach(run: Any, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with pytest.raises(TaskError, match="Operation not permitted"):
            run("call_socket", arguments={"path": str(tmp_path / "s")})


def test_s4_it_signals_nobody_and_opens_no_file_to_writing(run: Any, tmp_path: Path) -> None:
    sealed = tmp_path / "scratch" / "sealed"
    sealed.touch(0o444)
    for name, arguments in (("signal_other", {"pid": os.getpid()}), ("change_mode", {"path": str(sealed)})):
        with pytest.raises(TaskError, match="Operation not permitted"):
            run(name, arguments=arguments)


def test_a_long_request_arrives_whole_and_many_calls_are_no_long_answer(run: Any, tmp_path: Path) -> None:
    name = "x" * 500_000
    with pytest.raises(TaskError, match="File name too long"):
        run("read", arguments={"path": name})
    assert [run("add", arguments={"a": n, "b": 1}) for n in range(20)] == list(range(1, 21))


@pytest.mark.parametrize(("dying", "works"), [(1, True), (2, False)])
def test_a_process_that_dies_at_its_start_is_replaced_once(tmp_path: Path, dying: int, works: bool) -> None:
    """Where the second dies too, the call fails and so does the server; the next call has a new one."""
    left = tmp_path / "left"
    left.write_text(str(dying))
    mortal = Sandbox("mortal", {"PYTHONPATH": str(CONFINED), "PROCESSES_THAT_DIE": str(left)})
    try:
        if not works:
            with pytest.raises(Transient, match="the sandbox's server is gone") as raised:
                mortal.run("add", {"a": 1, "b": 1}, limits=LIMITS, writes=[tmp_path])
            assert raised.value.code == "sandbox.unavailable"
        assert mortal.run("add", {"a": 1, "b": 1}, limits=LIMITS, writes=[tmp_path]) == 2
        assert left.read_text() == "0"
    finally:
        mortal.close()


def test_it_ends_with_its_caller(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    orphaned = Sandbox("untrusted", {"PYTHONPATH": str(CONFINED)})

    def call() -> None:
        with pytest.raises(TaskError):
            orphaned.run("nap", {"mark": str(mark)}, limits=LIMITS, writes=[tmp_path])

    asking = threading.Thread(target=call)
    asking.start()
    wait_until(lambda: mark.exists() and mark.read_text() != "")
    assert orphaned._server is not None
    orphaned._server.kill()
    asking.join(10)
    assert not asking.is_alive()
    assert_gone(int(mark.read_text()))
    orphaned.close()


def assert_gone(pid: int) -> None:
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or state_of(pid) == "Z")


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"
