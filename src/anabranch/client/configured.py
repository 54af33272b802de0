"""The API that the settings name."""

from typing import NamedTuple

from anabranch.errors import InputError

__all__ = ["ConfiguredApi", "configured_api"]


class ConfiguredApi(NamedTuple):
    """Where an API is, and the key for it."""

    url: str
    key: str | None


def configured_api() -> ConfiguredApi:
    """What ANABRANCH_API_URL and ANABRANCH_API_KEY, or the configuration file, name."""
    from anabranch.settings import load_settings

    settings = load_settings()
    if settings.api_url is None:
        raise InputError("api.url", "no API is named", remedy="Set ANABRANCH_API_URL.")
    return ConfiguredApi(settings.api_url, settings.api_key.get_secret_value() if settings.api_key else None)
