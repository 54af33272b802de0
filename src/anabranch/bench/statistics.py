"""Reads statistics from the database on a separate connection, before and after the measured time."""

from pathlib import Path
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, connect_async
from anabranch.adapters.postgres.database import translate
from anabranch.sql_files import read_statements

__all__ = ["StatisticsReader", "query_text"]

QUERIES = Path(__file__).with_name("queries.sql")


class StatisticsReader:
    """Runs the queries of the benchmark, each by the name of its file."""

    def __init__(self, url: str, connection: AsyncConnection[TupleRow]) -> None:
        """Made by `open`."""
        self._url = url
        self._connection = connection

    @classmethod
    async def open(cls, url: str) -> "StatisticsReader":
        """Connect as a reader."""
        return cls(url, await connect_async(url, Role.READER, name="anabranch bench"))

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def row(self, name: str, **parameters: object) -> tuple[Any, ...]:  # each caller knows the columns
        """The first row of a query; empty if there is none."""
        with translate(self._url):
            cursor = await self._connection.execute(query_text(name).encode(), parameters)
            return await cursor.fetchone() or ()


def query_text(name: str) -> str:
    """A statement of the benchmarks."""
    return read_statements(QUERIES)[name]
