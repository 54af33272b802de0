"""procrastinate: no-op tasks on its asynchronous worker."""

import asyncio
import sys

import psycopg
from peer import drive, dsn
from procrastinate import App, PsycopgConnector

CONCURRENCY = 10


def make_app(url: str) -> App:
    """The app that workers and driver share."""
    app = App(connector=PsycopgConnector(conninfo=dsn(url)))

    @app.task(name="noop")
    async def noop() -> None:
        pass

    return app


async def work(url: str) -> None:
    """One worker process."""
    app = make_app(url)
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="always", install_signal_handlers=False)


async def main(url: str, workers: int) -> None:
    """The driver."""
    app = make_app(url)
    async with app.open_async(), await psycopg.AsyncConnection.connect(dsn(url), autocommit=True) as connection:
        await app.schema_manager.apply_schema_async()
        task = app.tasks["noop"]

        async def submit(tasks: int) -> None:
            await task.batch_defer_async(*({} for _ in range(tasks)))

        async def is_done() -> bool:
            cursor = await connection.execute("select not exists (select from procrastinate_jobs)")
            return bool((await cursor.fetchone() or (False,))[0])

        await drive(__file__, url, workers, submit, is_done)


if __name__ == "__main__":
    address, what = sys.argv[1:]
    asyncio.run(work(address) if what == "worker" else main(address, int(what)))
