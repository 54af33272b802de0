"""The API that is configured in the settings."""

from typing import NamedTuple

from anabranch.errors import InputError

__all__ = ["ConfiguredApi", "configured_api"]


class ConfiguredApi(NamedTuple):
    """The URL of an API, and the key for it."""

    url: str
    key: str | None


def configured_api() -> ConfiguredApi:
    """The API that ANABRANCH_API_URL and ANABRANCH_API_KEY, or the configuration file, name."""
    from anabranch.settings import load_settings

    settings = load_settings()
    if settings.api_url is None:
        raise InputError("api.url", "no API is configured", remedy="Set ANABRANCH_API_URL.")
    return ConfiguredApi(settings.api_url, settings.api_key.get_secret_value() if settings.api_key else None)
