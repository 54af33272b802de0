"""The tests' own database and clock."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.schema.migrate import status
from anabranch.embedded.cluster import Cluster
from anabranch.testing.clock import Clock
from anabranch.testing.postgres import Databases
from anabranch.testing.shared_cluster import SharedCluster
from tests.support.waiting import wait_until


def test_every_test_has_a_database_of_its_own(databases: Databases) -> None:
    first, second = databases.make(), databases.make()
    with connect(first, None) as connection:
        connection.execute("create table app.mine ()")
    with connect(second, None) as connection:
        assert connection.execute("select to_regclass('app.mine')").fetchone() == (None,)
    assert status(second).applied


def test_e18_the_clock_stands_still_until_it_is_moved(database_url: str, clock: Clock) -> None:
    """Old connections see it too, prepared statements and all, whatever their role; two have no business with it."""
    connections = [connect(database_url, role) for role in Role if role not in (Role.GEO, Role.FEATURES)]
    for step in (timedelta(0), timedelta(days=3), timedelta(seconds=-1)):
        moved = clock.advance(step)
        assert clock.now() == moved
        for connection in connections * 6:
            assert connection.execute("select app.now()").fetchone() == (moved,)
    for connection in connections:
        connection.close()


@pytest.mark.slow
def test_a_killed_run_leaves_no_server(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["anabranch.testing.postgres"]')
    (tmp_path / "test_hang.py").write_text(
        "import time\ndef test_hang(postgres):\n    print(postgres.home.path, flush=True)\n    time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "pytest", "-s", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as run:
        assert run.stdout is not None
        home = Path(next(line for line in run.stdout if line.startswith("/")).strip())
        assert (home / "postgres" / "data" / "postmaster.pid").exists()
        run.kill()
    wait_until(lambda: not home.parent.exists())
    assert str(home) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_a_start_that_fails_can_be_tried_again() -> None:
    def fail(_: Cluster) -> None:
        raise LookupError("no template today")

    shared = SharedCluster.make()
    try:
        for _ in range(2):
            with pytest.raises(LookupError, match="no template today"):
                shared.start(fail)
        cluster = shared.start(lambda cluster: cluster.ensure_database("late"))
        connect(cluster.url("late"), None).close()
    finally:
        shared.remove()
    assert not shared.folder.exists()


def test_the_cluster_is_not_durable(postgres: Cluster) -> None:
    with connect(postgres.url("postgres"), None) as connection:
        assert connection.execute("show fsync").fetchone() == ("off",)
