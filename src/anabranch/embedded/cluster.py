"""The private PostgreSQL cluster of a home: created on first use, reached only by a socket."""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from anabranch.embedded.binaries import Binaries, find_binaries
from anabranch.embedded.home import STACK_MARK, Home
from anabranch.embedded.layout import PORT, STATE_FOLDER, ClusterLayout
from anabranch.embedded.logfiles import open_log, read_tail
from anabranch.embedded.postmaster import Mode, clear_leftovers, drop_stale_lock, find_postmaster, shut_down
from anabranch.embedded.processes import Process
from anabranch.embedded.server_user import ServerUser, choose_server_user
from anabranch.errors import Conflict, Unavailable
from anabranch.storage.fsync import fsync

__all__ = ["Cluster"]

# For a workflow engine on a small machine. An operator can change these with `alter system`, but not those of `_fixed`.
TUNED_SETTINGS = {
    "max_connections": "100",
    "max_locks_per_transaction": "512",  # a restore holds one for each table and index of thousands of layers
    "shared_buffers": "256MB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "1GB",
    "min_wal_size": "128MB",
    "checkpoint_timeout": "10min",
    "wal_compression": "on",
    "random_page_cost": "1.1",
    "jit": "off",
    # Queue tables change fast: vacuum them often.
    "autovacuum_naptime": "15s",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "lc_messages": "C",
    "default_text_search_config": "pg_catalog.english",
    "cluster_name": "anabranch",
}

# Nothing from the caller: PGPORT, PGDATA and similar variables would change what the server does.
SERVER_ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8"}


class Cluster:
    """A private server. `durable=False` is for tests: a crash of the machine may lose everything."""

    def __init__(self, home: Home, *, durable: bool = True, state: Path = STATE_FOLDER) -> None:
        self.home = home
        self._durable = durable
        self._layout = ClusterLayout(home, state)
        self._log = home.logs / "postgres.log"
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "anabranch") -> str:
        """The URL of a database of the running cluster."""
        return f"postgresql://postgres@{quote(str(self._layout.socket), safe='')}:{PORT}/{database}"

    def start(self, timeout: float = 120) -> subprocess.Popen[bytes]:
        """Start the server as a child of this process, and wait until it accepts connections."""
        process = self.launch()
        self.wait_ready(timeout)
        return process

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the server and return at once; it answers when it has recovered."""
        self.home.acquire()
        data = self._layout.data
        if server := find_postmaster(data):
            raise _already_runs(data, server)
        clear_leftovers(data)
        self._reap()
        user = choose_server_user(data)
        self._layout.create_folders(user)
        binaries = self._create(user)
        for lock in (self._layout.data / "postmaster.pid", self._layout.socket / f".s.PGSQL.{PORT}.lock"):
            drop_stale_lock(lock)
        self._log_start = self._log.stat().st_size if self._log.exists() else 0
        self._process = self._spawn(binaries, user)
        return self._process

    def wait_ready(self, timeout: float = 120) -> None:
        """Wait until the launched server accepts connections; Unavailable, with its last log lines, if it can't."""
        deadline = time.monotonic() + timeout
        while not self._answers():
            died = self._process is None or self._process.poll() is not None
            if died or time.monotonic() > deadline:
                self.stop("immediate")
                raise self._failed("PostgreSQL did not start", read_tail(self._log, self._log_start))
            time.sleep(0.03)

    def stop(self, mode: Mode = "fast", patience: float = 30) -> None:
        """Stop the server if it runs; committed work is kept in either mode."""
        shut_down(self._layout.data, mode, patience)
        self._reap()
        self._layout.remove_outside_socket()

    def ensure_database(self, name: str = "anabranch") -> None:
        """Create the database if it does not exist."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            found = connection.execute("select from pg_database where datname = %s", [name]).fetchone()
            if found is None:
                with suppress(psycopg.errors.DuplicateDatabase):
                    connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))

    @property
    def exists(self) -> bool:
        """Whether the cluster was created, and not purged since."""
        return self._layout.data.exists()

    def purge(self) -> None:
        """Stop the server and remove the cluster with all its data, inside or outside the home."""
        self.home.acquire()
        self.stop("immediate")
        self._layout.remove()

    def _create(self, user: ServerUser) -> Binaries:
        """Create the data folder if there is none, atomically; returns the matching programs."""
        data = self._layout.data
        for incomplete in self._layout.folder.glob("data.new-*"):
            shutil.rmtree(incomplete, ignore_errors=True)
        if data.exists():
            return find_binaries(user, _major(data))
        binaries = find_binaries(user)
        new = Path(tempfile.mkdtemp(prefix="data.new-", dir=self._layout.folder))
        user.hand_over(new)
        self._initdb(binaries, user, new)
        new.rename(data)
        fsync(data.parent)
        return binaries

    def _initdb(self, binaries: Binaries, user: ServerUser, folder: Path) -> None:
        command = [binaries["initdb"], "-D", str(folder), "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8"]
        command += ["--auth-local=trust", "--auth-host=scram-sha-256", "--no-instructions"]
        made = subprocess.run(
            command if self._durable else [*command, "--no-sync"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            cwd="/", env={**SERVER_ENVIRONMENT, STACK_MARK: str(self.home.stack_id)}, start_new_session=True,
            user=user.uid, group=user.gid, extra_groups=user.groups,
        )  # fmt: skip
        if made.returncode != 0:
            raise self._failed("initdb failed", made.stdout)

    def _spawn(self, binaries: Binaries, user: ServerUser) -> subprocess.Popen[bytes]:
        data = self._layout.data
        options = {"config_file": str(self._write_config()), **self._fixed()}
        log = open_log(self._log)
        try:
            # Started in its data folder, by which its processes are identified from the start.
            return subprocess.Popen(
                [binaries["postgres"], "-D", str(data), *(f"--{name}={value}" for name, value in options.items())],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=data, env=SERVER_ENVIRONMENT, start_new_session=True,
                user=user.uid, group=user.gid, extra_groups=user.groups,
            )  # fmt: skip
        finally:
            os.close(log)

    def _write_config(self) -> Path:
        # Beside the data, not in it: as root we never follow a path that the server's user could have created.
        config = self._layout.folder / "postgresql.conf"
        text = "".join(f"{name} = '{value}'\n" for name, value in TUNED_SETTINGS.items())
        if not config.exists() or config.read_text() != text:
            config.write_text(text)
        config.chmod(0o644)
        return config

    def _fixed(self) -> dict[str, str]:
        """Settings that can't be changed: no network, no other user, and nothing lost in a crash."""
        durable = "on" if self._durable else "off"
        return {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": str(self._layout.socket),
            "unix_socket_permissions": "0700",
            "fsync": durable,
            "full_page_writes": durable,
            "synchronous_commit": durable,
        }

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _reap(self) -> None:
        if self._process:
            self._process.wait()
            self._process = None

    def _failed(self, what: str, output: str) -> Unavailable:
        remedy = f"Fix what the lines above report; the full log is {self._log}."
        return Unavailable("cluster.failed", f"{what}:\n{output.strip()}", remedy=remedy)


def _major(data: Path) -> int:
    try:
        return int((data / "PG_VERSION").read_text())
    except (OSError, ValueError) as error:
        raise Unavailable(
            "cluster.damaged",
            f"{data} is not a PostgreSQL data folder",
            remedy="Restore it, or `anabranch down --purge`.",
        ) from error


def _already_runs(data: Path, server: Process) -> Conflict:
    return Conflict(
        "cluster.running",
        f"a server is already running on {data}: pid {server.pid}",
        remedy="Stop it with `anabranch down`.",
    )
