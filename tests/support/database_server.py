"""A PostgreSQL of a test's own, durable as in production: it is stopped, killed, copied, followed and replaced."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import psycopg

from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.embedded.binaries import find_binaries
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home
from anabranch.embedded.server_user import choose_server_user

__all__ = ["DatabaseServer"]

READ_ONLY = "alter system set default_transaction_read_only = on"
WRITING = "select count(*) from pg_stat_activity where backend_xid is not null and pid <> pg_backend_pid()"


class DatabaseServer:
    """A running server with a migrated database."""

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        """Start it in this folder, which the server's user can enter; from a copy of another one's data, if given."""
        self._folder = folder
        self.cluster = Cluster(Home(folder / "server"), state=folder / "state")
        if data:
            self._adopt(data)
        self._process = self.cluster.start()
        self.url = self.cluster.url()
        if not data:
            self.cluster.ensure_database()
            migrate(self.url)

    def stop(self, how: str) -> None:
        """Stop it in order (fast), without a checkpoint (immediate), or kill its postmaster, or one of its backends."""
        if how == "backend":
            with psycopg.connect(self.url) as connection:
                os.kill(connection.info.backend_pid, signal.SIGKILL)
        elif how == "kill":
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
        else:
            self.cluster.stop("fast" if how == "fast" else "immediate")

    def start(self) -> None:
        """Start it again."""
        self._process = self.cluster.start()

    async def restart(self, how: str, pause: float = 0) -> None:
        """Restart it, after it was away for a while."""
        await asyncio.to_thread(self.stop, how)
        if how != "backend":  # of which it recovers by itself
            await asyncio.sleep(pause)
            await asyncio.to_thread(self.start)

    def copy(self, folder: Path, *, running: bool = True) -> Path:
        """Its data as of now, in this new folder: by a base backup, or file by file while it is stopped for a moment.

        A stopped server's files are exact; after a base backup sequences go on a little later than they were.
        """
        if running:
            self._back_up(folder)
        else:
            self.stop("fast")
            shutil.copytree(self._data, folder, copy_function=shutil.copy)
            self.start()
        return folder

    def follow(self, folder: Path) -> Self:
        """A standby of this server, in this new folder; what is committed here arrives there."""
        self._back_up(folder / "copy", "--write-recovery-conf")
        return type(self)(folder, folder / "copy")

    def turn_read_only(self) -> None:
        """Refuse every write from now on, as a primary does that is about to be replaced."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(READ_ONLY)
            connection.execute("select pg_reload_conf()")
            while connection.execute(WRITING).fetchone() != (0,):  # transactions that began before may end
                time.sleep(0.02)

    def promote(self, primary: Self | None = None) -> None:
        """Make this standby a primary; once it has all of this one's writes."""
        if primary:
            reached = primary.ask("select pg_current_wal_lsn()::text")
            while self.ask("select pg_last_wal_replay_lsn() >= %s::pg_lsn", reached) is not True:
                time.sleep(0.02)
        assert self.ask("select pg_promote(true, 60)") is True
        self.ask("alter system reset default_transaction_read_only")
        self.ask("select pg_reload_conf()")

    def rows(self, query: str, *given: object) -> list[tuple[Any, ...]]:  # of any shape
        """What a query returns."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(query.encode(), given or None)
            return found.fetchall() if found.description else []

    def ask(self, query: str, *given: object) -> Any:  # a value of any type
        """The first value that a query returns."""
        return next(iter(self.rows(query, *given)), (None,))[0]

    def purge(self) -> None:
        """End it and remove its data."""
        self.cluster.purge()
        self.cluster.home.release()

    @property
    def _data(self) -> Path:
        return self.cluster.home.path / "postgres" / "data"

    def _back_up(self, folder: Path, *options: str) -> None:
        user = choose_server_user(self._data)
        folder.mkdir(parents=True)
        for made in (folder.parent, folder):
            user.allow_entry(made)
        user.hand_over(folder)
        program = find_binaries(user)["pg_basebackup"]
        subprocess.run(
            [program, "-d", self.cluster.url("postgres"), "-D", str(folder), "-c", "fast", "--no-sync", *options],
            check=True, capture_output=True, cwd="/",
            user=user.uid, group=user.gid, extra_groups=user.groups,
        )  # fmt: skip

    def _adopt(self, data: Path) -> None:
        """Put a copy of another server's data into the place of this one's."""
        user = choose_server_user(data)
        self.cluster.home.acquire()
        self._data.parent.mkdir()
        data.rename(self._data)
        for path in (self._data, *self._data.rglob("*")):
            if user.uid is not None and user.gid is not None:
                os.chown(path, user.uid, user.gid)
        self._data.chmod(0o700)
        user.allow_entry(self._data.parent)
