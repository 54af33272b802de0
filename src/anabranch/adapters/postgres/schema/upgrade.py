"""What an upgrade to these files changes, and whether the processes that run now can share the database afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import query_text, translate
from anabranch.adapters.postgres.schema.files import Files
from anabranch.adapters.postgres.schema.migrate import OWN_FILES, Status, status

__all__ = ["Process", "Upgrade", "plan_upgrade"]

# Older schemas have no column for the releases of sessions.
HAS_RELEASES = """
    select from pg_catalog.pg_attribute
     where attrelid = pg_catalog.to_regclass('app.sessions') and attname = 'schema_release'"""


@dataclass(frozen=True)
class Process:
    """A running process, and the release of the schema that it was built for; None: it noted none, being older."""

    kind: str
    host: str
    pid: int
    schema_release: int | None

    def __str__(self) -> str:
        return f"{self.kind} {self.pid} on {self.host}"


@dataclass(frozen=True)
class Upgrade:
    """A database compared with these files; processes of releases before `oldest` can't use it afterwards."""

    status: Status
    slow: Sequence[str]
    oldest: int
    processes: Sequence[Process]

    @property
    def incompatible(self) -> Sequence[Process]:
        """The processes that must end before the upgrade."""
        return [one for one in self.processes if self.judge(one) == "incompatible"]

    def judge(self, process: Process) -> str:
        """Whether a process can go on during the upgrade and after it."""
        release = process.schema_release
        if release is None:  # it noted none, and its start was allowed on the deployed release only
            release = self.status.release if self.status.release and self.status.release < self.oldest else None
            return "incompatible" if release else "unknown"
        return "compatible" if release >= self.oldest else "incompatible"


def plan_upgrade(url: str, *, files: Files = OWN_FILES) -> Upgrade:
    """Compare a database with the files, and find who uses it; nothing is changed."""
    found = status(url, files=files)
    outside = {migration.name for migration in files.migrations if migration.is_outside}
    slow = [name for name in found.pending if name in outside]
    return Upgrade(found, slow, files.release.oldest, _find_processes(url) if found.release else [])


def _find_processes(url: str) -> list[Process]:
    with translate(url), connect(url, Role.READER, name="anabranch upgrade") as connection:
        if connection.execute(HAS_RELEASES).fetchone() is not None:
            with connection.cursor(row_factory=class_row(Process)) as cursor:
                return cursor.execute(query_text("session_releases").encode()).fetchall()
        living = connection.execute(query_text("living").encode()).fetchall()
        return [Process(kind, host, pid, None) for kind, host, pid in living]
