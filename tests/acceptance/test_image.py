"""The image is built on a plain Debian, and its processes publish a raster as an ordinary user on a read-only root."""

import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from anabranch.client import Client
from anabranch.plugins.raster.samples import make_samples
from anabranch.testing.postgres import Databases
from tests.support.container_image import PROGRAMS, USER, Container, Image
from tests.support.pages import ROOT
from tests.support.server import free_port
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can build and run containers without a service"),
    pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)), reason=f"apt-get install {' '.join(PROGRAMS)}"),
]

TIERS = ("bronze", "silver", "gold")
MAX_HEAVY_WORKERS = 20
SOCKETS = "/run/database"
ROLES: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "deploy" / "roles.toml").read_text())


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    folder = Path(tempfile.mkdtemp(prefix="ab-image-"))
    folder.chmod(0o711)
    yield Image(folder)
    shutil.rmtree(folder)


class Installation:
    """Containers that share a database, the tiers and an API on loopback."""

    def __init__(self, image: Image, url: str, opened: ExitStack) -> None:
        self.image, self.opened, self.port, self.count = image, opened, free_port(), 0
        server, tiers = conninfo_to_dict(url), image.folder / "tiers"
        for folder in (tiers, *(tiers / name for name in TIERS)):
            folder.mkdir()
            os.chown(folder, USER, USER)
        # The folder of the socket is closed to all but the server, so that opening the socket opens it to containers.
        socket = Path(str(server["host"])) / f".s.PGSQL.{server['port']}"
        socket.chmod(0o777)
        self.mounts = {f"{SOCKETS}/{socket.name}": socket, "/srv/anabranch": tiers}
        self.variables = {
            "DATABASE_URL": url.replace(quote(str(server["host"]), safe=""), quote(SOCKETS, safe="")),
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            **{f"STORAGE__{tier.upper()}": f"file:///srv/anabranch/{tier}" for tier in TIERS},
        }

    def start(self, role: str, *more: str) -> Container:
        self.count += 1
        command = [*ROLES[role]["command"], *more]
        run = self.image.run(f"{role}-{self.count}", command, self.mounts, **self.variables)
        return self.opened.enter_context(run)


@pytest.fixture
def installation(image: Image, databases: Databases) -> Iterator[Installation]:
    with ExitStack() as opened:
        yield Installation(image, databases.make("template0"), opened)


def test_the_processes_of_the_image_publish_a_raster_and_end_when_asked(
    installation: Installation, tmp_path: Path
) -> None:
    migrate = installation.start("migrate")
    assert migrate.wait() == 0, migrate.log()
    running = [installation.start(role) for role in ("api", "orchestrator", "worker-light")]
    source = make_samples(tmp_path)["dem"]
    with Client(f"http://127.0.0.1:{installation.port}") as client:
        wait_until(client.ready, "the API")
        parameters = {"source": client.upload(source).address, "collection": "demo"}
        job = client.submit("process_raster", parameters).job_id
        for _ in range(MAX_HEAVY_WORKERS):  # as KEDA starts them: while there is work
            heavy = installation.start("worker-heavy", "--exit-when-idle", "5")
            assert heavy.wait() == 0, heavy.log()
            if client.job(job).ended:
                break
        found = client.job(job)
    assert found.succeeded, (found.error, *(one.log() for one in running))
    assert [one.stop() for one in running] == [0, 0, 0], [one.log() for one in running]


def test_the_image_has_no_installer_and_is_no_larger_than_what_it_needs(image: Image) -> None:
    assert image.configuration["User"] == f"{USER}:{USER}"
    programs = {file.name for file in (Path(image.root) / "opt" / "anabranch" / "bin").iterdir()}
    assert "anabranch" in programs
    assert not {name for name in programs if name.startswith("pip")}
