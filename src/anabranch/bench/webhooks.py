"""Measures deliveries of webhooks by a real orchestrator to a receiver in this process."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from anabranch.adapters.postgres.connect import Role, connect_async
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.app import open_store, open_webhooks
from anabranch.bench.cluster import make_temporary_folder, open_database
from anabranch.bench.measure import make_token
from anabranch.bench.processes import BenchProcesses, run_processes
from anabranch.bench.statistics import query_text
from anabranch.canonical import decode
from anabranch.platform.action_by import ActionBy
from anabranch.platform.notifications.ports import EndpointChange
from anabranch.settings import Settings, load_settings

__all__ = ["WebhookFigures", "run_webhook_bench"]

HOST = "127.0.0.1"
ENDPOINTS = 4
WRITERS = 4
PACED_MESSAGES = 300
PACE_SECONDS = 0.02
WARM_MESSAGES = 50
PATIENCE = timedelta(minutes=5)
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


@dataclass(frozen=True)
class WebhookFigures:
    """Deliveries a second while messages are written as fast as they can be, and the delay of paced ones in ms."""

    messages: int
    deliveries_per_s: float
    delay_ms_p50: float
    delay_ms_p99: float
    delay_ms_max: float


def run_webhook_bench(url: str | None, messages: int) -> WebhookFigures:
    """The figures on the database at the URL, or on a private cluster."""
    with make_temporary_folder() as folder, open_database(url, folder) as database:
        home = folder / "home"
        settings = load_settings(home=home, plugins=(), callback_hosts=(HOST,))
        with run_processes(folder, settings, database, workers=0) as processes:
            return asyncio.run(_measure(settings, database, messages, processes))


@dataclass
class _Receiver:
    """When each message was received."""

    at: dict[int, float] = field(default_factory=dict)
    come: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        said = decode(await reader.readexactly(size))
        if isinstance(said, dict) and isinstance(number := said.get("n"), int):
            self.at.setdefault(number, time.monotonic())
        self.come.set()
        writer.write(ANSWER)
        writer.close()

    async def wait(self, first: int, count: int, processes: BenchProcesses) -> None:
        """Wait until all messages from the first on are there."""
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while any(number not in self.at for number in range(first, first + count)):
                processes.check()
                self.come.clear()
                await self.come.wait()


async def _measure(settings: Settings, url: str, messages: int, processes: BenchProcesses) -> WebhookFigures:
    receiver, platform = _Receiver(), make_token()
    server = await asyncio.start_server(receiver.serve, HOST, 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    async with server, _opened(settings, url) as store:
        webhooks = open_webhooks(settings, store)
        for place in range(ENDPOINTS):
            wanted = EndpointChange(
                f"http://{HOST}:{port}/{place}", events=("bench.*",),
                format="standard", description="bench", timeout_seconds=15, retries=10,
            )  # fmt: skip
            owner = f"{platform}-{place}"
            await webhooks.add(owner, wanted, None, ActionBy(owner, "bench", None, "bench"))
        await _announce(url, platform, range(WARM_MESSAGES))
        await receiver.wait(0, WARM_MESSAGES, processes)
        paced = await _pace(url, platform, WARM_MESSAGES)
        await receiver.wait(WARM_MESSAGES, PACED_MESSAGES, processes)
        delays = sorted(1000 * max(0.0, receiver.at[number] - sent) for number, sent in paced.items())
        first = WARM_MESSAGES + PACED_MESSAGES
        begun = time.monotonic()
        parts = [range(first + place, first + messages, WRITERS) for place in range(WRITERS)]
        await asyncio.gather(*(_announce(url, platform, part) for part in parts))
        await receiver.wait(first, messages, processes)
        ended = max(receiver.at[number] for number in range(first, first + messages))
    return WebhookFigures(
        messages,
        round(messages / (ended - begun), 1),
        *(round(delays[min(len(delays) - 1, int(len(delays) * share))], 1) for share in (0.5, 0.99, 1)),
    )


@asynccontextmanager
async def _opened(settings: Settings, url: str) -> AsyncIterator[PostgresStore]:
    store = open_store(settings, url, "anabranch bench")
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def _announce(url: str, platform: str, numbers: range) -> None:
    """Announce messages, each in a commit of its own."""
    async with await connect_async(url, Role.OWNER, name="anabranch bench") as connection:
        for number in numbers:
            await connection.execute(query_text("announce").encode(), _message(platform, number))


async def _pace(url: str, platform: str, first: int) -> dict[int, float]:
    """Announce messages at a steady pace; when each was committed."""
    sent = {}
    async with await connect_async(url, Role.OWNER, name="anabranch bench") as connection:
        for number in range(first, first + PACED_MESSAGES):
            await connection.execute(query_text("announce").encode(), _message(platform, number))
            sent[number] = time.monotonic()
            await asyncio.sleep(PACE_SECONDS)
    return sent


def _message(platform: str, number: int) -> dict[str, object]:
    return {"platform": f"{platform}-{number % ENDPOINTS}", "subject": f"bench-{number}", "n": number}
