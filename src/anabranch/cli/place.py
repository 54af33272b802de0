"""Where this command finds what it talks to: the home, the stack that runs there, its API and its database."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.embedded.home import Home, Stack
from anabranch.engine.errors import Unavailable

if TYPE_CHECKING:
    from anabranch.client import Client
    from anabranch.settings import Settings

__all__ = ["connect", "database_url", "find_home", "find_stack", "is_ready", "open_client"]


def find_home() -> Home:
    """The home, without the cost of all the settings wherever the environment alone decides."""
    environment = {name.upper(): value for name, value in os.environ.items()}
    if path := environment.get("ANABRANCH_HOME"):
        return Home(Path(path).expanduser())
    default = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "anabranch"
    if "ANABRANCH_CONFIG" in environment or (default / "anabranch.toml").exists():
        from anabranch.settings import load_settings

        return Home(load_settings().home)
    return Home(default)


def find_stack(home: Home) -> Stack:
    """The stack that runs in a home."""
    stack = home.read_stack()
    if stack is None:
        raise Unavailable("stack.down", f"nothing runs in {home.path}", remedy="Start it with `anabranch up`.")
    return stack


@contextmanager
def connect(home: Home | None = None) -> Iterator["Client"]:
    """A client of the API that runs in the home."""
    home = home or find_home()
    stack = find_stack(home)
    if stack.api_url is None:
        raise Unavailable("stack.starting", f"the stack in {home.path} is still starting", remedy="Try again.")
    with open_client(stack.api_url) as client:
        yield client


@contextmanager
def open_client(url: str) -> Iterator["Client"]:
    """A client of the API at a URL."""
    from anabranch.client import Client

    logging.getLogger("httpx").setLevel(logging.WARNING)  # a request is not news here
    with Client(url) as client:
        yield client


def is_ready(stack: Stack) -> bool:
    """Whether the API of a stack takes jobs."""
    with open_client(str(stack.api_url)) as client:
        return client.ready()


def database_url(settings: "Settings") -> str:
    """The database that is set, else that of the running stack."""
    if settings.database_url:
        return settings.database_url.get_secret_value()
    home = Home(settings.home)
    if url := find_stack(home).database_url:
        return url
    raise Unavailable("stack.starting", f"the stack in {home.path} is still starting", remedy="Try again.")
