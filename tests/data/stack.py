"""Runs a supervisor as its one argument, a JSON object, says."""

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog

from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home
from anabranch.embedded.supervisor import ChildSpec, Supervisor
from anabranch.errors import AnabranchError


def prepare(how: str) -> None:
    if how == "fail":
        raise RuntimeError("no such migration")
    if how == "hang":
        time.sleep(600)


def note_death(file: Path, role: str, pid: int) -> None:
    with file.open("a") as deaths:
        deaths.write(f"{role} {pid}\n")
    raise RuntimeError("a callback may be wrong")


def main(wanted: dict[str, Any]) -> None:  # whatever the test wrote
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()], logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    home = Home(Path(wanted["home"]))
    Supervisor(
        home,
        wanted.get("database") or Cluster(home, state=Path(wanted["state"])),
        [ChildSpec(**child) for child in wanted["children"]],
        port=wanted.get("port", 0),
        prepare=lambda url: prepare(wanted.get("prepare", "")),
        on_death=lambda role, pid: note_death(home.path / "deaths", role, pid),
        grace=timedelta(seconds=wanted.get("grace", 5)),
        log_to_files=wanted.get("log_to_files", False),
    ).run()


if __name__ == "__main__":
    os.umask(0o077)
    try:
        main(json.loads(sys.argv[1]))
    except AnabranchError as error:
        sys.exit(f"{error.code}: {error.message} {error.remedy}")
