"""The API as a process of its own, and all that its database holds."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from anabranch.client import Client
from anabranch.embedded.listener import listen
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.warm import start_warm

__all__ = ["ApiProcess", "dump_tables"]


class ApiProcess:
    """The API as a process of its own, on an address of its own, with all it logs."""

    def __init__(self, folder: Path, url: str, **settings: str) -> None:
        self.log = folder / "api.log"
        ours = {
            "HOME": str(folder / "home"),
            "DATABASE_URL": url,
            "LOG_LEVEL": "debug",
            "LOG_FORMAT": "json",
            **settings,
        }
        foreign = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
        environment = foreign | {f"ANABRANCH_{name}": value for name, value in ours.items()}
        with listen(settings.get("HOST", "127.0.0.1"), 0) as free:
            self.port = free.getsockname()[1]
        with self.log.open("wb") as output:
            environment |= {"ANABRANCH_PORT": str(self.port)}
            self._process = start_warm(["api"], environment, stdout=output, stderr=output)
        self.url = f"http://127.0.0.1:{self.port}"
        with Client(self.url) as client:
            self._wait(client.ready)

    def _wait(self, true: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not true():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()


def dump_tables(url: str) -> str:
    """All that is in the tables."""
    with psycopg.connect(url) as connection:
        names = [name for (name,) in connection.execute("select tablename from pg_tables where schemaname = 'app'")]
        return "\n".join(
            str(row) for name in names for (row,) in connection.execute(f"select t::text from app.{name} t")
        )
