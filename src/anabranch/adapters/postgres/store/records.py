"""The records of objects in the database: published ones, and those in results."""

from collections.abc import Collection, Iterator
from typing import Any

from psycopg import Connection
from psycopg.rows import DictRow, dict_row

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import query_text
from anabranch.adapters.postgres.store.outputs import Output
from anabranch.storage.audit import JobRecord

__all__ = ["PostgresRecords"]

PAGE_ROWS = 1_000
PAGE_JOBS = 200


class PostgresRecords:
    """Reads them over a separate connection."""

    def __init__(self, url: str) -> None:
        self._connection: Connection[Any] = connect(url, Role.READER, name="anabranch audit")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def outputs(self) -> Iterator[Output]:
        """All that is published."""
        last = ("", "")
        while rows := self._query("audit_outputs", job_id=last[0], file=last[1], limit=PAGE_ROWS):
            yield from (Output(**row) for row in rows)
            last = (rows[-1]["job_id"], rows[-1]["name"])

    def results(self) -> Iterator[tuple[str, int]]:
        """All results that were put aside: their keys in the work area, and how many bytes they have."""
        last = 0
        while rows := self._query("audit_results", job=last, limit=PAGE_JOBS):
            yield from ((row["href"], row["size"]) for row in rows if row["href"])
            last = rows[-1]["job"]

    def published(self, addresses: Collection[str]) -> set[str]:
        """Those of these addresses that are published."""
        return {*self.publishing_items(addresses)}

    def publishing_items(self, addresses: Collection[str]) -> dict[str, str]:
        """Those of these addresses that are published, each with the last of the items that use it."""
        parts = [address.partition("://") for address in addresses]
        tiers, keys = [tier for tier, _, _ in parts], [key for _, _, key in parts]
        return {row["address"]: row["item"] for row in self._query("publishing_items", tiers=tiers, keys=keys)}

    def jobs(self, job_ids: Collection[str]) -> dict[str, JobRecord]:
        """Those of these jobs that are known."""
        found = self._query("audit_jobs", jobs=list(job_ids))
        return {
            row["job_id"]: JobRecord(
                row["ended"], row["put_aside"], frozenset(row["addresses"]), frozenset(row["results"])
            )
            for row in found
        }

    def _query(self, name: str, **parameters: object) -> list[DictRow]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query_text(name), parameters).fetchall()
