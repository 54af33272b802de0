"""Short bursts of the database for handlers; few of a worker at once, so that connections stay counted (E19)."""

import fcntl
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from anabranch.engine.errors import Unavailable

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

__all__ = ["BURSTS", "Bursts"]

# How many handlers of one worker have a connection at the same time.
BURSTS = 2


class Bursts:
    """Gives connections in the role of handlers, to this process and all that share the folder."""

    def __init__(self, url: str, folder: Path) -> None:
        """On this database; a folder of the worker's own holds the locks."""
        self._url = url
        self._folder = folder

    def __repr__(self) -> str:
        return "Bursts()"

    @contextmanager
    def __call__(self) -> "Iterator[Connection[TupleRow]]":
        """A connection in a transaction, committed at the end; what the server refuses for now is Unavailable."""
        import psycopg  # late: most handlers never ask

        from anabranch.adapters.postgres.connect import Role, breaks_connection, connect, without_secrets

        with self._turn():
            connection = connect(self._url, Role.HANDLER, name="anabranch handler", autocommit=False)
            try:
                with connection:
                    yield connection
            except psycopg.Error as error:
                if not (isinstance(error, psycopg.OperationalError) or breaks_connection(error)):
                    raise
                reason = without_secrets(self._url, str(error)).strip()
                raise Unavailable(
                    "database.interrupted", f"the database broke a handler's work off: {reason}", remedy="Try again."
                ) from None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One of a few locks; whoever dies frees its own."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._take():
            yield

    def _take(self) -> BinaryIO:
        for number in range(BURSTS):
            lock = (self._folder / str(number)).open("wb")
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            lock.close()
        lock = (self._folder / str(random.randrange(BURSTS))).open("wb")  # noqa: S311  # any of them
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock
