"""The private PostgreSQL cluster, on real servers."""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from anabranch.embedded import binaries
from anabranch.embedded.binaries import find_binaries
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.detach import stop
from anabranch.embedded.home import STACK_MARK, Home
from anabranch.embedded.layout import ClusterLayout
from anabranch.embedded.processes import marked
from anabranch.embedded.server_user import ServerUser, choose_server_user
from anabranch.errors import Conflict, Unavailable
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="ab-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@contextmanager
def running(home: Path, state: Path, *, durable: bool = False) -> Iterator[Cluster]:
    cluster = Cluster(Home(home), durable=durable, state=state)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop("immediate")
        cluster.home.release()


def ask(cluster: Cluster, question: str, database: str = "postgres") -> object:
    with psycopg.connect(cluster.url(database), autocommit=True) as connection:
        row = connection.execute(question.encode()).fetchone()
    return row[0] if row else None


def server_of(cluster: Cluster) -> int:
    return int((ClusterLayout(cluster.home).data / "postmaster.pid").read_text().splitlines()[0])


def test_a_cluster_loses_nothing_and_listens_on_a_socket_only(folder: Path) -> None:
    with running(folder / "home", folder, durable=True) as cluster:
        assert [ask(cluster, f"show {name}") for name in ("fsync", "full_page_writes", "synchronous_commit")] == [
            "on"
        ] * 3
        assert ask(cluster, "show listen_addresses") == ""
        assert not _tcp_sockets_of(server_of(cluster))


@as_root
def test_as_root_the_server_is_an_ordinary_user_and_others_stay_out(folder: Path) -> None:
    with running(folder / "home", folder) as cluster:
        user = choose_server_user(folder / "none")
        assert Path(f"/proc/{server_of(cluster)}").stat().st_uid == user.uid != 0
        assert _mode(folder / "home") == 0o710
        nobody = pwd.getpwnam("nobody")
        psql = [find_binaries(ServerUser())["psql"], cluster.url("postgres"), "-c", "select 1"]
        refused = subprocess.run(psql, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], cwd="/", check=False,
                                 capture_output=True, text=True)  # fmt: skip
        assert "Permission denied" in refused.stderr


def test_a_database_is_made_once(folder: Path) -> None:
    with running(folder / "home", folder) as cluster:
        cluster.ensure_database()
        cluster.ensure_database()
        assert ask(cluster, "select current_database()", "anabranch") == "anabranch"


@as_root
def test_a_home_in_a_closed_folder_has_its_cluster_in_the_state_folder(folder: Path) -> None:
    closed, state = folder / "closed", folder / "state"
    closed.mkdir(mode=0o700)
    with running(closed / "home", state) as cluster:
        assert ask(cluster, "select 1") == 1
        assert _mode(closed) == 0o700
        assert ClusterLayout(cluster.home).folder.parent == state
        cluster.stop()
        shutil.copytree(closed / "home", folder / "copy")
        copy = Home(folder / "copy")
        for act in (Cluster(copy).start, Cluster(copy).purge, lambda: stop(copy)):
            with pytest.raises(Conflict, match="is a copy of"):
                act()
        copy.release()
        cluster.purge()
        assert list(state.iterdir()) == []


@pytest.mark.parametrize("name", ["deep/" + "d" * 100, "with, comma"])
def test_a_path_that_no_socket_can_have_gets_a_private_short_one(folder: Path, name: str) -> None:
    with running(folder / name, folder) as cluster:
        assert ask(cluster, "select 1") == 1
        socket = ClusterLayout(cluster.home).socket
        assert socket.parent in (Path("/run"), Path("/tmp"))
        assert _mode(socket) == 0o700
    assert not socket.exists()


def test_a_short_socket_folder_that_others_can_write_is_not_used_again(folder: Path) -> None:
    with running(folder / ("d" * 100), folder) as cluster:
        os.kill(server_of(cluster), signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{server_of(cluster)}/cwd").exists())
        trap = ClusterLayout(cluster.home).socket
        trap.chmod(0o777)
        cluster.start()
        assert ask(cluster, "select 1") == 1
        assert ClusterLayout(cluster.home).socket != trap
    shutil.rmtree(trap)


def test_after_a_kill_the_next_start_recovers_whatever_pid_the_lock_names(folder: Path) -> None:
    with running(folder / "home", folder, durable=True) as cluster:
        with psycopg.connect(cluster.url("postgres")) as connection:
            connection.execute("create table kept as select 1 as n")
        data = ClusterLayout(cluster.home).data
        os.kill(server_of(cluster), signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{server_of(cluster)}/cwd").exists())
        # The machine came up again, and the pid went to another process of the same user.
        lines = (data / "postmaster.pid").read_text().splitlines()
        (data / "postmaster.pid").write_text("\n".join([str(os.getppid()), *lines[1:]]))
        cluster.start()
        assert ask(cluster, "select n from kept") == 1


def test_a_second_server_on_one_cluster_is_refused(folder: Path) -> None:
    with running(folder / "home", folder) as cluster:
        with pytest.raises(Conflict, match="already"):
            cluster.start()
        with pytest.raises(Conflict):
            Cluster(Home(folder / "home")).start()
        assert ask(cluster, "select 1") == 1


def test_data_of_another_major_version_names_what_to_install(folder: Path) -> None:
    home = Home(folder / "home")
    data = home.path / "postgres" / "data"
    data.mkdir(parents=True, mode=0o700)
    (data / "PG_VERSION").write_text("9\n")
    with pytest.raises(Unavailable) as caught:
        Cluster(home).start()
    home.release()
    assert "created by PostgreSQL 9" in caught.value.message
    assert "apt-get install -y postgresql-9" in caught.value.remedy


def test_a_machine_without_a_server_is_told_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "INSTALL_PATTERNS", ())
    monkeypatch.setenv("PATH", str(folder))
    home = Home(folder / "home")
    with pytest.raises(Unavailable) as caught:
        Cluster(home).start()
    home.release()
    assert "apt-get install -y postgresql postgresql-postgis" in caught.value.remedy


def test_a_kill_during_initdb_leaves_a_home_that_starts(folder: Path) -> None:
    home = Home(folder / "home")
    start = "import sys; from pathlib import Path; from anabranch.embedded.cluster import Cluster;"
    start += "from anabranch.embedded.home import Home; Cluster(Home(Path(sys.argv[1]))).start()"
    with subprocess.Popen([sys.executable, "-c", start, str(home.path)]) as starter:
        wait_until(lambda: any(home.path.glob("postgres/data.new-*/base")))
        starter.kill()
    assert not (home.path / "postgres" / "data").exists()
    assert stop(home).orphans > 0
    assert not marked(STACK_MARK, str(home.stack_id))
    with running(home.path, folder) as cluster:
        assert ask(cluster, "select 1") == 1
        assert not any(home.path.glob("postgres/data.new-*"))


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _tcp_sockets_of(pid: int) -> set[str]:
    listed = {line.split()[9] for table in ("tcp", "tcp6") for line in _lines(Path(f"/proc/net/{table}"))[1:]}
    own = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            own.add(str(link.readlink()).removeprefix("socket:[").rstrip("]"))
    return own & listed


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
