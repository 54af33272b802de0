"""The marks of the areas of storage in schema app, over a connection of its own."""

from collections.abc import Mapping

from psycopg.rows import dict_row

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import call_text, query_text, translate
from anabranch.storage.marks import Mark

__all__ = ["PostgresMarks"]


class PostgresMarks:
    """Reads and notes marks."""

    def __init__(self, url: str) -> None:
        self._url = url

    def read(self) -> Mapping[str, Mark]:
        """The marks that count, by area."""
        with translate(self._url), connect(self._url, Role.READER, name="anabranch storage") as connection:
            rows = connection.cursor(row_factory=dict_row).execute(query_text("storage_marks").encode()).fetchall()
        return {row["area"]: Mark(row["mark"], row["url"]) for row in rows}

    def note(self, found: Mapping[str, Mark], *, replace: bool = False) -> None:
        """Note the marks that areas hold; the first counts, unless it is replaced."""
        with (
            translate(self._url),
            connect(self._url, Role.APP, name="anabranch storage") as connection,
            connection.transaction(),  # of two that start first with other stores, one notes all areas
        ):
            for area, mark in found.items():
                connection.execute(call_text("mark_storage").encode(), (area, mark.text, mark.url, replace))
