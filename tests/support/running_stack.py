"""A stack of `anabranch up` in a home of its own, whose processes a test kills."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from anabranch.client import Client
from anabranch.errors import Unavailable
from tests.support.warm import run_warm

__all__ = ["RunningStack", "run_stack", "wait_until"]


class RunningStack:
    """A stack of real processes in a home of its own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        """Not started; settings are variables of the environment without their prefix."""
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
        given = {"HOME": str(folder / "home"), "PORT": "0", "LEASE_SECONDS": "6", **settings}
        self._environment = kept | {f"ANABRANCH_{name}": value for name, value in given.items()}

    def call(self, *arguments: str) -> str:
        """What a command prints."""
        done = run_warm(*arguments, env=self._environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def client(self) -> Client:
        """A client of its API."""
        return Client(json.loads(self.call("config", "show", "--json"))["api_url"])

    def worker(self) -> int:
        """The process of the one worker, once it has begun."""
        return int(wait_until(lambda: [one for one in self.sessions() if one["kind"] == "worker"])[0]["pid"])

    def sessions(self) -> list[dict[str, Any]]:
        """The processes that have a session."""
        return json.loads(self.call("workers", "--json"))  # type: ignore[no-any-return]  # as it is documented

    def postmaster(self) -> int:
        """The process of PostgreSQL that starts the others."""
        with psycopg.connect(self.call("db", "url").strip()) as connection:
            status = Path(f"/proc/{connection.info.backend_pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid"))


@contextmanager
def run_stack(workers: int = 1, **settings: str) -> Iterator[RunningStack]:
    """A stack that runs, and leaves nothing."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-running-"))  # short: sockets have short paths
    folder.chmod(0o711)
    made = RunningStack(folder, **settings)
    made.call("up", "--detach", "--workers", str(workers))
    try:
        yield made
    finally:
        made.call("down", "--purge", "--yes")
        shutil.rmtree(folder)


def wait_until(true: Callable[[], Any], seconds: float = 100) -> Any:
    """What a function returns, once that is true; while the API waits for its database, it is asked again."""
    end = time.monotonic() + seconds
    while True:
        try:
            if found := true():
                return found
        except Unavailable:
            pass
        assert time.monotonic() < end
        time.sleep(0.02)
