"""`api`: the process that serves the HTTP API."""

import gc
import os
import socket

from uvicorn import Config, Server

from anabranch.access import asks_for_keys
from anabranch.cli.connection import database_url
from anabranch.cli.setup import prepare
from anabranch.embedded.listener import listen
from anabranch.embedded.supervisor import LISTEN_FD
from anabranch.settings import Settings

__all__ = ["api"]

# How long responses in progress may take after the API is asked to stop.
SHUTDOWN_SECONDS = 10
# Longer than clients keep an idle connection: a request on a connection that is being closed is lost.
KEEP_ALIVE_SECONDS = 75


def api() -> None:
    """Serve the HTTP API."""
    settings = prepare()
    # Passed by environment variable and import name: the API reads its own settings and does not depend on the CLI.
    os.environ["ANABRANCH_DATABASE_URL"] = database_url(settings)
    config = Config(
        "anabranch.api.main:app_from_environment",
        factory=True,
        log_config=None,
        access_log=False,  # the API logs requests itself: uvicorn would log their query strings (S5)
        http="anabranch.api.security.connection_limits:BoundedProtocol",
        ws="none",
        proxy_headers=False,  # uvicorn would trust every local caller; the API has its own list of trusted proxies
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    with _listener(settings) as listener:
        gc.disable()
        config.load()  # imports the API
        gc.freeze()
        gc.enable()
        Server(config).run([listener])


def _listener(settings: Settings) -> socket.socket:
    if LISTEN_FD in os.environ:
        return socket.socket(fileno=int(os.environ[LISTEN_FD]))
    asks_for_keys(settings.auth, settings.host)  # refuses an open address without keys
    return listen(settings.host, settings.port)
