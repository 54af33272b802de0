"""Clients of the stack's API, and the URL of its database."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anabranch.embedded.home import Home, Stack
from anabranch.embedded.locate import find_api, find_home, find_remote, find_stack
from anabranch.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from anabranch.client import Client
    from anabranch.settings import Settings

__all__ = ["connect", "database_url", "is_ready", "open_client"]


@contextmanager
def connect(home: Home | None = None, *, timeout: float | None = None) -> Iterator["Client"]:
    """A client of the API that the settings name, otherwise of the one that runs in the home."""
    url, key = find_api(home)
    with open_client(url, key, timeout=timeout) as client:
        try:
            yield client
        except NotFound as error:
            if error.code != "workflow.not_found" or find_remote().url:
                raise
            from anabranch.cli.stack.plugins import explain_missing_plugins  # plugins take long to import

            raise explain_missing_plugins(error, home or find_home()) from None


@contextmanager
def open_client(url: str, key: str | None = None, *, timeout: float | None = None) -> Iterator["Client"]:
    """A client of the API at a URL; `timeout` in seconds overrides the client's default."""

    from anabranch.client import Client

    logging.getLogger("httpx").setLevel(logging.WARNING)  # one line per request is too much for a command
    with Client(url, key=key, **({} if timeout is None else {"timeout": timeout})) as client:
        yield client


def is_ready(stack: Stack) -> bool:
    """Whether the API of a stack accepts jobs."""
    with open_client(str(stack.api_url)) as client:
        return client.ready()


def database_url(settings: "Settings") -> str:
    """The URL of the configured database, otherwise of the running stack's."""
    from anabranch.adapters.postgres.server.url import configured_url

    if configured := configured_url(settings):
        return configured
    home = Home(settings.home)
    if url := find_stack(home).database_url:
        return url
    raise Unavailable("stack.starting", f"the stack in {home.path} is still starting", remedy="Try again.")
