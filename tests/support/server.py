"""The API behind a real server, on a port of its own."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI

from anabranch.api.security.connection_limits import BoundedProtocol
from tests.support.waiting import PATIENCE_SECONDS

__all__ = ["free_port", "serve"]


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@asynccontextmanager
async def serve(app: FastAPI) -> AsyncIterator[str]:
    """The URL of an application that is ready, in this process."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    config = uvicorn.Config(
        app,
        log_config=None,
        http=BoundedProtocol,
        ws="none",
        proxy_headers=False,
        timeout_graceful_shutdown=PATIENCE_SECONDS,
        timeout_keep_alive=75,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (server.started and hasattr(app.state, "gateway")):  # it tells nobody
            await asyncio.sleep(0.01)
        await app.state.gateway.ready()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        app.state.job_watcher.close()  # as a signal would
        server.should_exit = True
        await serving
