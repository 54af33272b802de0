"""Code that took over a sandbox tries what it can, as root and not, on this kernel and as on an older one (TS2)."""

import ctypes
import errno
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import anabranch
from anabranch.errors import Permanent, TaskError, Transient
from anabranch.sandbox import Limits, Sandbox
from anabranch.sandbox.seccomp import ABSENT, ALLOWED, numbers_of
from tests.support.waiting import wait_until

CONFINED = Path(__file__).parents[1] / "data" / "confined"
LIMITS = Limits(memory=512 * 2**20, cpu_seconds=20, file_bytes=4 * 2**20)
REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
NOBODY = 65_534
CLONE_NEWNS, PRIVATE, BIND = 0x20000, 0x44000, 0x1000
NEWEST, DEBIAN_12 = 99, 2
is_root = os.getuid() == 0


@pytest.fixture(scope="module")
def attacked() -> Iterator[Sandbox]:
    made = Sandbox("attacks", {"PYTHONPATH": str(CONFINED)})
    yield made
    made.close()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox("untrusted", {"PYTHONPATH": str(CONFINED)})
    yield made
    made.close()


@pytest.mark.parametrize("abi", [NEWEST, DEBIAN_12], ids=["newest", "debian_12"])
@pytest.mark.parametrize(
    "user", ["this", pytest.param("nobody", marks=pytest.mark.skipif(not is_root, reason="only root can be another"))]
)
def test_ts2_no_attack_from_inside_does_anything(user: str, abi: int) -> None:
    outcome = besiege(user, abi)
    assert outcome["landlock"] in ({2} if abi == DEBIAN_12 else range(1, 100))
    done = {name: what for name, what in outcome["attacks"].items() if what["errno"] not in REFUSED or what["changed"]}
    assert done == {}
    rights = {name: int(value, 16) for name, value in outcome["privileges"].items() if name.startswith("Cap")}
    assert rights == {"CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapBnd": 0, "CapAmb": 0}
    assert (outcome["privileges"]["NoNewPrivs"], outcome["privileges"]["Seccomp"]) == ("1", "2")
    assert (outcome["privileges"]["Uid"].split()[0] == "0") is (is_root and user == "this")


def test_ts2_every_call_that_is_not_allowed_is_refused(attacked: Sandbox, tmp_path: Path) -> None:
    # The kernel lets two pass every filter, and kills who makes them elsewhere than in a probe that it set itself.
    names = sorted(numbers_of(os.uname().machine).keys() - ALLOWED.keys() - {"uprobe", "uretprobe"})
    made = attacked.run("make_calls", {"names": names}, limits=LIMITS, writes=[tmp_path])
    # Behind a hundred refusals nobody asks any more: then the kernel says that there are no such calls.
    assert {name: said for name, said in made.items() if said not in (errno.EPERM, errno.ENOSYS)} == {}
    assert {made[name] for name in ABSENT} == {errno.ENOSYS}
    assert len(names) > 200


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86-64 has this door")
def test_ts2_calls_of_another_architecture_kill(attacked: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(Transient, match="SIGSYS"):
        attacked.run("call_as_i386", {}, limits=LIMITS, writes=[tmp_path])


def test_ts2_a_refused_call_is_named_in_the_log_and_in_the_error(sandbox: Sandbox, tmp_path: Path) -> None:
    with capture_logs() as logged, pytest.raises(TaskError, match=r"not permitted.*\(refused in the sandbox: socket\)"):
        sandbox.run("call_socket", {"path": "/nowhere"}, limits=LIMITS, writes=[tmp_path])
    assert logged == [{"event": "sandbox.refused", "log_level": "warning", "calls": ["socket"]}]


def test_ts2_only_its_own_ends_are_open(attacked: Sandbox, tmp_path: Path) -> None:
    handles = attacked.run("open_handles", {}, limits=LIMITS, writes=[tmp_path])
    kinds = sorted(re.sub(r"\d+", "", what) for what in handles.values())
    assert kinds == ["/dev/null", "pipe:[]", "pipe:[]", "socket:[]"]


def test_ts2_what_it_prints_comes_as_one_line_of_text(
    sandbox: Sandbox, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with capture_logs() as logged:
        sandbox.run("say", {"text": "a\n\x1b[2Jb\n"}, limits=LIMITS, writes=[tmp_path])
        sandbox.run("say", {"text": "x" * 10**6}, limits=LIMITS, writes=[tmp_path])
    assert logged[0]["text"].split() == ["a", "[2Jb", "a", "[2Jb"]
    assert logged[0]["text"].isprintable()
    assert len(logged[1]["text"]) == 4_000
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text",
    ["}\n", "[]\n", "7\n", "{}\n", '{"error": 1}\n', '{"sent": 1}\n', '{"progress": 1}\n',
     '{"progress": ["a", {}, 2]}\n', '{"progress": [NaN, 1, ""]}\n', '{"result": Infinity}\n', "[" * 100_000 + "\n",
     '{"result": ' + "9" * 9_999 + "}\n"],
    ids=lambda text: text[:20].strip(),
)  # fmt: skip
def test_ts2_a_malformed_response_fails_the_call_only(sandbox: Sandbox, tmp_path: Path, text: str) -> None:
    with pytest.raises(Permanent, match="malformed response") as raised:
        sandbox.run("babble", {"text": text}, limits=LIMITS, writes=[tmp_path])
    assert raised.value.code == "sandbox.answer"
    assert sandbox.run("add", {"a": 1, "b": 1}, limits=LIMITS, writes=[tmp_path]) == 2


def test_ts2_a_missing_protection_is_reported_and_the_others_hold(tmp_path: Path) -> None:
    bare = Sandbox("untrusted", {"PYTHONPATH": str(CONFINED)}, newest_landlock=0)
    try:
        assert "landlock" in bare.find_protections().missing()
        with capture_logs() as logged, pytest.raises(TaskError, match="refused in the sandbox: socket"):
            bare.run("call_socket", {"path": "/nowhere"}, limits=LIMITS, writes=[tmp_path])
        assert logged[0] == {
            "event": "sandbox.partly_supported",
            "log_level": "warning",
            "missing": bare.find_protections().missing(),
        }
    finally:
        bare.close()


def test_ts2_a_thread_that_no_lock_would_hold_is_found_before_the_call(tmp_path: Path) -> None:
    threaded = Sandbox("untrusted", {"PYTHONPATH": str(CONFINED), "THREADS_LEFT": "1"})
    try:
        with pytest.raises(TaskError, match="the warm-up left another"):
            threaded.run("add", {"a": 1, "b": 1}, limits=LIMITS, writes=[tmp_path])
    finally:
        threaded.close()


def test_ts2_a_process_that_died_while_it_waited_is_replaced(sandbox: Sandbox, tmp_path: Path) -> None:
    server = sandbox.run("show", {}, limits=LIMITS, writes=[tmp_path])["server"]
    children = Path(f"/proc/{server}/task/{server}/children")
    wait_until(lambda: children.read_text() != "")
    waiting = int(children.read_text())
    os.kill(waiting, signal.SIGKILL)
    wait_until(lambda: "State:\tZ" in Path(f"/proc/{waiting}/status").read_text())
    shown = sandbox.run("show", {}, limits=LIMITS, writes=[tmp_path])
    assert shown["server"] == server
    assert shown["pid"] != waiting


def besiege(user: str, abi: int) -> Any:  # JSON, as siege.py says
    """All attacks, by a process of this user or of nobody."""
    with tempfile.TemporaryDirectory() as folder:
        if user == "nobody":
            os.chown(folder, NOBODY, NOBODY)
        done = subprocess.run(
            [sys.executable, str(CONFINED / "siege.py"), folder, str(abi)],
            capture_output=True, check=False, timeout=120, cwd="/",
            preexec_fn=become_nobody if user == "nobody" else None,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout[done.stdout.index(b'{"attacks"') :])


def become_nobody() -> None:
    """Be a user without privileges, who can still read this Python and these files, wherever they are."""
    libc = ctypes.CDLL(None, use_errno=True)
    needed = [sys.base_prefix, sys.prefix, str(CONFINED), str(Path(anabranch.__file__).parents[1])]
    if libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, PRIVATE, None):
        raise OSError(ctypes.get_errno(), "no mounts of its own")
    handles = {path: os.open(path, os.O_PATH) for path in needed}
    for path, handle in handles.items():
        closed = [each for each in reversed(Path(path).parents) if each.exists() and not each.stat().st_mode & 0o001]
        if closed and libc.mount(b"none", bytes(closed[0]), b"tmpfs", 0, b"mode=755"):
            raise OSError(ctypes.get_errno(), f"nothing can be laid over {closed[0]}")
        if not Path(path).exists():
            Path(path).mkdir(parents=True)
            if libc.mount(f"/proc/self/fd/{handle}".encode(), path.encode(), None, BIND, None):
                raise OSError(ctypes.get_errno(), f"{path} can't be mounted")
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
