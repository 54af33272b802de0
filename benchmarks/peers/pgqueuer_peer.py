"""pgqueuer: no-op tasks, all its tables durable, on uvloop. Of batches of 10 to 1,000, 250 served it best."""

import sys

import asyncpg
import uvloop
from peer import drive, dsn
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

BATCH = 250


async def work(url: str) -> None:
    """One worker process."""
    queuer = PgQueuer.from_asyncpg_connection(await asyncpg.connect(dsn(url)))

    @queuer.entrypoint("noop")
    async def noop(job: Job) -> None:
        pass

    await queuer.qm.run(batch_size=BATCH)


async def main(url: str, workers: int) -> None:
    """The driver."""
    connection = await asyncpg.connect(dsn(url))
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()

    async def submit(tasks: int) -> None:
        await queries.enqueue(["noop"] * tasks, [None] * tasks, [0] * tasks)

    async def is_done() -> bool:
        return not await connection.fetchval("select exists (select from pgqueuer)")

    await drive(__file__, url, workers, submit, is_done)


if __name__ == "__main__":
    address, what = sys.argv[1:]
    uvloop.run(work(address) if what == "worker" else main(address, int(what)))
