"""The records of objects in the database: published ones, and those in results."""

from collections.abc import Collection, Iterator
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import DictRow, dict_row

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import query_text
from anabranch.adapters.postgres.store.published.files import PublishedFile
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

    def files(self) -> Iterator[PublishedFile]:
        """The objects of all publications, former and withdrawn ones too, until retention removes them."""
        last = (str(UUID(int=0)), "")
        while rows := self._query("audit_files", publication=last[0], file=last[1], limit=PAGE_ROWS):
            yield from (PublishedFile(**row) for row in rows)
            last = (rows[-1]["publication"], rows[-1]["name"])

    def results(self) -> Iterator[tuple[str, int]]:
        """All results that were put aside: their keys in the work area, and how many bytes they have."""
        last = 0
        while rows := self._query("audit_results", job=last, limit=PAGE_JOBS):
            yield from ((row["href"], row["size"]) for row in rows if row["href"])
            last = rows[-1]["job"]

    def published(self, addresses: Collection[str]) -> set[str]:
        """Those of these addresses that a publication uses."""
        return {*self.publishing_keys(addresses)}

    def publishing_keys(self, addresses: Collection[str]) -> dict[str, str]:
        """Those of these addresses that a publication uses, each with the last of the items that it is of."""
        parts = [address.partition("://") for address in addresses]
        tiers, keys = [tier for tier, _, _ in parts], [key for _, _, key in parts]
        return {row["address"]: row["key"] for row in self._query("publishing_keys", tiers=tiers, keys=keys)}

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
