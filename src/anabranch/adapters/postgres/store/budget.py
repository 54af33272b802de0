"""The budget of connections: all our processes together take at most half of what the server allows (E19)."""

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.errors import InputError

__all__ = ["check_budget"]


def check_budget(url: str, wanted: int) -> None:
    """Refuse to open this many connections where they are more than half of the server's."""
    with connect(url, Role.READER, name="anabranch budget") as connection:
        row = connection.execute("show max_connections").fetchone()
    allowed = int(row[0]) if row else 0
    if wanted > allowed // 2:
        raise InputError(
            "database.connections",
            f"the stack needs {wanted} connections, more than half of the {allowed} that the server allows",
            remedy=f"Start fewer workers, or set the server's max_connections to {wanted * 2} or more.",
        )
