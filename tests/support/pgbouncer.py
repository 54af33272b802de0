"""PgBouncer in transaction mode, before the server of the tests."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from anabranch.embedded.server_user import choose_server_user
from tests.support.server import free_port
from tests.support.waiting import PATIENCE_SECONDS

__all__ = ["PgBouncer", "find_pgbouncer"]

UNPACKED = Path(__file__).parents[2] / ".cache" / "pgbouncer"
CONFIGURATION = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
admin_users = {user}
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
"""


def find_pgbouncer() -> Path | None:
    """Where the program is: installed, or as `make pgbouncer` leaves it."""
    known = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return Path(known) if known else next(iter(UNPACKED.glob("usr/*bin/pgbouncer")), None)


class PgBouncer:
    """A running PgBouncer, which gives a transaction any of four sessions."""

    def __init__(self, program: Path, folder: Path, url: str, *users: str) -> None:
        """In front of the server of a URL, for its user and these."""
        given = conninfo_to_dict(url)
        self._user = str(given["user"])
        self._dbname = str(given["dbname"])
        self.port = free_port()
        folder.mkdir()
        (folder / "users").write_text("".join(f'"{user}" ""\n' for user in (self._user, *users)))
        known = {"host": given["host"], "port": given["port"], "user": self._user}
        (folder / "pgbouncer.ini").write_text(CONFIGURATION.format(**known, listen=self.port, folder=folder))
        shutil.copy(program, folder / "pgbouncer")  # it won't run as root, and others may not enter our folders
        libraries = [shutil.copy(file, folder) for file in UNPACKED.glob("usr/lib/*/*.so.*")]
        user = choose_server_user(folder / "none")
        for path in (folder, *folder.iterdir()):
            path.chmod(0o755)
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [folder / "pgbouncer", folder / "pgbouncer.ini"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={"LD_LIBRARY_PATH": str(folder)} if libraries else {}, cwd="/",
                user=user.uid, group=user.gid, extra_groups=user.groups,
            )  # fmt: skip
        self._wait()

    def url(self, user: str | None = None) -> str:
        """The same database through it."""
        return f"postgresql://{user or self._user}@127.0.0.1:{self.port}/{self._dbname}"

    def clients(self) -> set[str]:
        """The names of those who are connected to it."""
        with psycopg.connect(f"{self.url().rpartition('/')[0]}/pgbouncer", autocommit=True) as console:
            found = console.execute("show clients")
            place = [column.name for column in found.description or []].index("application_name")
            return {str(row[place]) for row in found}

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                psycopg.connect(self.url()).close()
            except psycopg.OperationalError:
                said = self._log.read_text()
                assert self._process.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.05)
            else:
                return
