"""A stack whose callers need keys, as an operator runs it."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.access import Credential
from anabranch.client import Client, NotAllowed
from anabranch.embedded.home import Home
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


class Shell:
    """Calls `anabranch` with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "home")
        ours = {"ANABRANCH_HOME": str(self.home.path), "ANABRANCH_PORT": "0", "ANABRANCH_HOST": "0.0.0.0"}
        self.environment = {n: v for n, v in os.environ.items() if not n.startswith("ANABRANCH_")} | ours

    def __call__(self, command: str, code: int = 0, **settings: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "anabranch", *command.split()]
        environment = self.environment | settings
        done = subprocess.run(
            program, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )
        assert done.returncode == code, done
        return done

    def json(self, command: str, code: int = 0, **settings: str) -> Any:
        return json.loads(self(f"{command} --json", code, **settings).stdout)


@pytest.fixture
def shell() -> Iterator[Shell]:
    folder = Path(tempfile.mkdtemp(prefix="ab-"))
    folder.chmod(0o755)
    made = Shell(folder)
    try:
        yield made
    finally:
        made("down --purge --yes")
        shutil.rmtree(folder)


def test_s1_a_stack_beyond_loopback_asks_for_keys_and_serves_its_own_home(shell: Shell) -> None:
    assert "Callers need a key" in shell("up --detach --workers 1").stderr
    file = shell.home.path / "run" / "key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    own = Credential.parse(file.read_text())
    assert own is not None

    assert shell.json("submit hello_world -p n=2 --wait")["status"] == "completed"
    made = shell.json("keys create ci --scope submit --platform ddh --expires 1h")
    url = str(shell.home.read_stack().api_url)  # type: ignore[union-attr]  # it runs
    remote: dict[str, Any] = {"ANABRANCH_API_URL": url, "ANABRANCH_HOME": str(shell.home.path.parent / "elsewhere")}
    other = shell.json("submit hello_world -p n=2 --wait", **remote, ANABRANCH_API_KEY=made["key"])
    assert other["status"] == "completed"
    shell("jobs", 4, **remote)
    shell("jobs", 4, ANABRANCH_API_URL=url)  # the home's key stays at home
    with Client(url) as stranger:
        assert stranger.ready()
        with pytest.raises(NotAllowed):
            stranger.jobs()

    database = shell("db url").stdout.strip()
    shell("down")
    assert (file.exists(), database != "") == (False, True)
    for log in shell.home.logs.iterdir():
        assert own.secret not in log.read_text()

    shell("up --detach --workers 1")
    states = {key["id"]: key["state"] for key in shell.json("keys list")}
    assert (states.pop(own.key_id), states.pop(made["id"])) == ("revoked", "active")
    assert list(states.values()) == ["active"]


def test_s1_a_stack_on_loopback_asks_for_keys_where_the_operator_says_so(shell: Shell) -> None:
    shell.environment |= {"ANABRANCH_HOST": "127.0.0.1", "ANABRANCH_AUTH": "keys"}
    assert shell.json("up --detach --workers 1")["auth"] == "keys"
    with Client(str(shell.home.read_stack().api_url)) as stranger, pytest.raises(NotAllowed):  # type: ignore[union-attr]  # it runs
        stranger.jobs()
    assert shell.json("jobs") == []
    shell("down")

    shell.environment.pop("ANABRANCH_AUTH")
    assert shell.json("up --detach --workers 1")["auth"] == "none"
    assert shell.json("keys list")[0]["state"] == "revoked"


def test_s1_the_key_of_a_killed_stack_is_revoked_by_the_next(shell: Shell) -> None:
    shell("up --detach --workers 1")
    stack, left = shell.home.read_stack(), shell.home.read_key()
    assert stack
    assert left
    os.kill(stack.supervisor.pid, 9)
    shell("down")
    shell("up --detach --workers 1")
    credential = Credential.parse(left)
    assert credential
    states = {key["id"]: key["state"] for key in shell.json("keys list")}
    assert states.pop(credential.key_id) == "revoked"
    assert list(states.values()) == ["active"]
