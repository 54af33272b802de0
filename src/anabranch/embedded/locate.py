"""Finds the home, the stack that runs there, and the API that commands and clients use."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.embedded.home import Home, Stack
from anabranch.errors import Unavailable

if TYPE_CHECKING:
    from anabranch.settings import Settings

__all__ = ["Remote", "find_api", "find_home", "find_remote", "find_stack", "has_stack"]


@dataclass(frozen=True)
class Remote:
    """The API and the key that the settings name for commands; None means those of the home."""

    url: str | None
    key: str | None


def find_home() -> Home:
    """The home; all settings are loaded only if the environment alone does not decide."""
    environment = _environment()
    if path := environment.get("ANABRANCH_HOME"):
        return Home(Path(path).expanduser())
    if "ANABRANCH_CONFIG" in environment or (_default_home() / "anabranch.toml").exists():
        return Home(_load_settings().home)
    return Home(_default_home())


def find_remote() -> Remote:
    """The API that the settings name; all settings are loaded only if there is a configuration file."""
    environment = _environment()
    if environment.get("ANABRANCH_CONFIG") or (find_home().path / "anabranch.toml").exists():
        settings = _load_settings()
        return Remote(settings.api_url, settings.api_key.get_secret_value() if settings.api_key else None)
    return Remote(environment.get("ANABRANCH_API_URL") or None, environment.get("ANABRANCH_API_KEY") or None)


def has_stack() -> bool:
    """Whether there is an API to ask: one that the settings name, or that of a stack in the home."""
    return bool(find_remote().url or find_home().read_stack())


def find_stack(home: Home) -> Stack:
    """The stack that runs in a home."""
    stack = home.read_stack()
    if stack is None:
        raise Unavailable("stack.down", f"nothing runs in {home.path}", remedy="Start it with `anabranch up --detach`.")
    return stack


def find_api(home: Home | None = None) -> tuple[str, str | None]:
    """The URL and the key of the API that the settings name, otherwise of the one that runs in the home.

    The home's own key is only for the home's own API.
    """
    remote = find_remote()
    if remote.url is not None:
        return remote.url, remote.key
    home = home or find_home()
    stack = find_stack(home)
    if stack.api_url is None:
        raise Unavailable("stack.starting", f"the stack in {home.path} is still starting", remedy="Try again.")
    return stack.api_url, remote.key or home.read_key()


def _load_settings() -> "Settings":
    from anabranch.settings import load_settings  # the import takes longer than a whole `status`

    return load_settings()


def _environment() -> dict[str, str]:
    return {name.upper(): value for name, value in os.environ.items()}


def _default_home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "anabranch"
