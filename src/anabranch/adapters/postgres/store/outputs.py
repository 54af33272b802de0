"""The objects that are published, as rows: by the names that readers know, and by their addresses."""

from collections.abc import Collection
from dataclasses import dataclass

from anabranch.adapters.postgres.database import Database

__all__ = ["Output", "PostgresOutputs"]


@dataclass(frozen=True)
class Output:
    """An object of a tier that readers may fetch, under a name of its job."""

    job_id: str
    name: str
    address: str
    media_type: str
    size: int
    sha256: str


class PostgresOutputs:
    """Reads app.outputs over a pool that another holds."""

    def __init__(self, database: Database) -> None:
        """Nothing is asked for yet."""
        self._database = database

    async def find(self, job_id: str, name: str) -> Output | None:
        """The output of a job under a name."""
        rows = await self._database.query("published_file", job_id=job_id, file=name)
        return Output(**rows[0]) if rows else None

    async def find_draft(self, job: int, name: str) -> Output | None:
        """A file that a job made and may publish under a name."""
        rows = await self._database.query("draft_file", job=job, file=name)
        return Output(**rows[0]) if rows else None

    async def find_all(self, addresses: Collection[str]) -> dict[str, Output]:
        """Those of these addresses that are published, by address."""
        parts = [address.partition("://") for address in sorted(addresses)]
        tiers, keys = [tier for tier, _, _ in parts], [key for _, _, key in parts]
        rows = await self._database.query("published_files", tiers=tiers, keys=keys) if parts else []
        return {row["address"]: Output(**row) for row in rows}
