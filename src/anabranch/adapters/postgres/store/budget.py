"""The budget of connections: all processes of a database together take at most half of what the server allows (E19)."""

from dataclasses import dataclass

import structlog
from psycopg.rows import class_row

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import query_text, translate
from anabranch.errors import InputError, Unavailable

__all__ = ["REMEDY", "Budget", "check_budget", "read_budget", "require_room"]

log = structlog.get_logger()
REMEDY = "Run fewer workers, use a pooler, or raise the server's max_connections."


@dataclass(frozen=True)
class Budget:
    """What the live processes of a database may take of its server's connections, and what there is.

    `usable` is the maximum without what is reserved; `opened` are the connections to all databases now.
    """

    declared: int
    processes: int
    maximum: int
    usable: int
    opened: int

    def __str__(self) -> str:
        return (
            f"{self.processes} processes may take {self.declared} of the {self.usable} connections that the server has "
            f"for them; {self.opened} are open now"
        )


def read_budget(url: str) -> Budget:
    """The budget of a database as it is now."""
    with (
        translate(url),
        connect(url, Role.READER, name="anabranch budget") as connection,
        connection.cursor(row_factory=class_row(Budget)) as cursor,
    ):
        (found,) = cursor.execute(query_text("budget").encode()).fetchall()
    return found


def check_budget(url: str, wanted: int) -> Budget:
    """Refuse a stack of this many connections where all processes would take more than half of the server's."""
    found = read_budget(url)
    if found.declared + wanted > found.maximum // 2:
        others = f" beside the {found.declared} of {found.processes} other processes" if found.declared else ""
        raise InputError(
            "database.connections",
            f"the stack needs {wanted} connections{others}, more than half of the {found.maximum} of the server",
            remedy=f"{REMEDY} {(found.declared + wanted) * 2} would do.",
        )
    return found


def require_room(url: str, wanted: int, *, waits: bool) -> None:
    """Warn where a process that starts makes it more than half of the server's; Unavailable, if it is one that `waits`,
    while there are not enough for it.
    """
    found = read_budget(url)
    total = found.declared + wanted
    if waits and total > found.usable:
        raise Unavailable("database.full", f"this process may take {wanted} connections, but {found}", remedy=REMEDY)
    if total > found.maximum // 2:
        log.warning("connections.many", wanted=wanted, reason=str(found), remedy=REMEDY)
