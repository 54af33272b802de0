"""A wheel of the project works where nothing but Python and PostgreSQL is installed, as a user gets it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import ROOT
from tests.support.server import free_port

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

HIDE_SERVERS = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /usr/lib/postgresql && exec "$@"', "sh"]


class Installation:
    """An environment of its own with the wheel in it, and a home."""

    def __init__(self, folder: Path) -> None:
        """Builds the wheel and installs it with `pip install "anabranch[all]"`."""
        self.folder = folder
        subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
        (wheel,) = folder.glob("*.whl")
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        pip = [str(folder / "venv" / "bin" / "pip"), "install", "--quiet", f"{wheel}[all]"]
        subprocess.run(pip, check=True)

    def call(self, *arguments: str, home: str = "home", before: list[str] | None = None) -> tuple[int, str, str]:
        """How a command ends, and what it prints, with no variables but its own."""
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.folder),
            "ANABRANCH_HOME": str(self.folder / home),
            "ANABRANCH_PORT": str(free_port()),
        }
        program = [*(before or []), str(self.folder / "venv" / "bin" / "anabranch"), *arguments]
        done = subprocess.run(program, env=environment, cwd=self.folder, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    folder = Path(tempfile.mkdtemp(prefix="ab-"))  # short: sockets have short paths
    folder.chmod(0o711)
    try:
        yield Installation(folder)
    finally:
        shutil.rmtree(folder)


def test_the_demo_runs_from_a_wheel(installation: Installation) -> None:
    try:
        code, out, said = installation.call("demo", "--json")
        assert code == 0, out + said
        files = json.loads(out)["files"]
        assert [one["input"] for one in files if one["verdict"] != "completed"] == ["broken.tif"]
        assert [one for one in files if "cog" in one]
        assert [one["table"] for one in files if "table" in one] == ["geo.channels"]
    finally:
        code, out, said = installation.call("down", "--purge", "--yes")
    assert code == 0, out + said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide the servers of this machine")
def test_a_machine_without_a_server_gets_the_command_that_installs_one(installation: Installation) -> None:
    code, _, said = installation.call("demo", home="empty", before=HIDE_SERVERS)
    assert code == 9
    assert "apt-get update && apt-get install -y postgresql postgresql-postgis" in said
