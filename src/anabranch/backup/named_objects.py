"""The objects that a snapshot names, on disk: there may be millions."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from anabranch.adapters.postgres.snapshot import NamedObject
from anabranch.backup.archive import Copied

__all__ = ["NamedObjects"]


class NamedObjects:
    """Those that have not been copied as they are named."""

    def __init__(self, file: Path) -> None:
        """In a file of its own, which is removed at the end."""
        self._file = file
        self._rows = sqlite3.connect(file, isolation_level=None)
        self._rows.execute("pragma journal_mode = off")
        self._rows.execute(
            "create table named (area, key, size, sha256, primary key (area, key, size, sha256)) without rowid"
        )
        self._rows.execute("begin")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._rows.close()
        self._file.unlink(missing_ok=True)  # on failure the whole folder is emptied

    def note(self, named: Iterable[NamedObject]) -> None:
        """Begin with these objects."""
        self._rows.execute("delete from named")
        self._rows.executemany("insert or ignore into named values (?, ?, ?, ?)", named)

    def find(self, copied: Copied) -> None:
        """An object was copied."""
        self._rows.execute("delete from named where area = ? and key = ? and size = ? and sha256 = ?", copied[:4])

    def missing(self, limit: int) -> tuple[list[str], int]:
        """The first of them by address, and how many there are."""
        ((count,),) = self._rows.execute("select count(*) from named").fetchall()
        first = self._rows.execute("select area || '://' || key from named order by area, key limit ?", [limit])
        return [address for (address,) in first], count
