"""Reads the figures for health and metrics over a separate connection."""

import time
from typing import Any

from anabranch.adapters.postgres.database import Database
from anabranch.adapters.postgres.schema.files import Files
from anabranch.adapters.postgres.schema.pgstac import EXTENSIONS, Catalog, Found, judge
from anabranch.engine.read_models import ClockStep, Duty, Gauges, Horizon, OpenBreaker, StuckJobs, Trouble, Vitals

__all__ = ["PostgresVitals"]

PAGE_JOBS = 5_000
# As the login user itself, who alone sees how long its other sessions take; it may write nothing and wait for nobody.
SETTINGS = {
    "timezone": "UTC",
    "search_path": "",
    "default_transaction_read_only": "on",
    "statement_timeout": "5s",
    "lock_timeout": "1s",
}


class PostgresVitals:
    """Reads vital signs; the caller limits the wait, and cancels."""

    def __init__(self, url: str, *, name: str) -> None:
        # Not checked before use: that would be a second round trip that hangs where the first one would.
        self._database = Database(url, None, name=name, size=1, checked=False, settings=SETTINGS)
        self._seen: dict[tuple[str, str], float] = {}
        self._release = Files().release.number  # read now: there may be no descriptors later

    async def open(self) -> None:
        """Start connecting."""
        await self._database.open()

    async def close(self) -> None:
        """Close the connection."""
        await self._database.close()

    async def ping(self) -> None:
        """See that the server answers at all."""
        await self._database.query("ping")

    async def read_vitals(self) -> Vitals:
        """The figures for health."""
        (row,) = await self._database.query("vitals")
        duties = {name: Duty(**duty) for name, duty in row.pop("duties").items()}
        step, holders = row.pop("clock_step"), row.pop("holders")
        return Vitals(
            duties=duties,
            breakers=tuple(OpenBreaker(**breaker) for breaker in row.pop("breakers")),
            troubles=[Trouble(**trouble) for trouble in row.pop("troubles")],
            clock_step=ClockStep(**step) if step else None,
            our_release=self._release,
            horizon=self._judge(holders),
            **row,
        )

    async def catalog(self) -> Catalog:
        """The status of the catalog's schema."""
        (row,) = await self._database.query("catalog_parts", extensions=list(EXTENSIONS))
        versions = await self._database.query("pgstac_version") if row.pop("has_pgstac") else []
        return judge(Found(pgstac=versions[0]["version"] if versions else None, **row))

    async def gauges(self) -> Gauges:
        """The figures for metrics."""
        (row,) = await self._database.query("gauges")
        horizon = self._judge(row.pop("holders"))
        return Gauges(horizon_seconds=horizon.seconds if horizon else 0.0, **row)

    async def stuck_jobs(self, after: int) -> StuckJobs:
        """The stuck ones among the next open jobs after an id."""
        (row,) = await self._database.query("stuck_jobs", after=after, limit=PAGE_JOBS)
        return StuckJobs(row["last"] or 0, tuple(row["stuck"]))

    def _judge(self, rows: list[dict[str, Any]]) -> Horizon | None:  # JSON of the query
        """What has held the horizon of vacuums for longest; a slot's time counts from when its need was first seen."""
        now = time.monotonic()
        self._seen = {(r["holder"], r["xmin"]): self._seen.get((r["holder"], r["xmin"]), now) for r in rows}
        held = [Horizon(r["holder"], r["seconds"] or now - self._seen[r["holder"], r["xmin"]]) for r in rows]
        return max(held, key=lambda one: one.seconds, default=None)
